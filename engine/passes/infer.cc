#include "engine/passes/infer.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/inference.h"
#include "engine/passes/operator_error.h"

namespace gluond {
namespace {

constexpr size_t kMaxNamed = 8;  // Unknown arguments that a message lists.

// What a variable says of itself, merged with what the caller knows of it.
absl::Status Declare(const Node& variable, const Signatures& known, Shape* shape, DType* dtype) {
  if (const auto it = variable.attrs.dict.find("__shape__"); it != variable.attrs.dict.end()) {
    std::vector<int64_t> dims;
    RETURN_IF_ERROR(Annotate(param_internal::ParseText(it->second, &dims), "__shape__"));
    ASSIGN_OR_RETURN(*shape, Shape::FromDims(dims));
  }
  if (const auto it = variable.attrs.dict.find("__dtype__"); it != variable.attrs.dict.end()) {
    ASSIGN_OR_RETURN(*dtype, ParseDType(it->second));
  }
  const auto it = known.find(variable.name());
  if (it == known.end()) return absl::OkStatus();
  if (!ShapeAssign(shape, it->second.shape)) {
    return absl::InvalidArgumentError(absl::StrCat("its attribute '__shape__' is ", shape->ToString(), ", got shape ",
                                                   it->second.shape.ToString()));
  }
  if (!TypeAssign(dtype, it->second.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("its attribute '__dtype__' is ", Name(*dtype), ", got type ",
                                                   Name(it->second.dtype)));
  }
  return absl::OkStatus();
}

// "input 0 'data' (variable 'x') has shape [8,?]" for each thing that is unknown at `node`.
std::vector<std::string> Unknowns(const IndexedGraph::IndexedNode& indexed, const IndexedGraph& graph,
                                  const Inferred& inferred) {
  std::vector<std::string> unknowns;
  const auto look = [&](uint32_t entry, auto name) {  // Names cost more than looking.
    const Shape& shape = inferred.shapes[entry];
    if (!shape.known()) unknowns.push_back(absl::StrCat(name(), " has shape ", shape.ToString()));
    if (inferred.types[entry] == DType::kUnknown) unknowns.push_back(absl::StrCat(name(), " has no known type"));
  };
  const Node& node = *indexed.node;
  for (uint32_t i = 0; i < indexed.inputs.size() && unknowns.size() < kMaxNamed; ++i) {
    look(indexed.inputs[i].entry, [&] {
      const Node& from = *graph[indexed.inputs[i].node].node;
      return absl::StrCat(ArgumentText(node, true, i), from.is_variable() ? " (variable '" : " (from '",
                          Excerpt(from.name()), "')");
    });
  }
  if (!unknowns.empty()) return unknowns;
  for (uint32_t i = 0; i < node.num_outputs() && unknowns.size() < kMaxNamed; ++i) {
    look(indexed.first_entry + i, [&] { return ArgumentText(node, false, i); });
  }
  return unknowns;
}

// Operators first: they say more than the variable that lacks a shape.
absl::Status CheckComplete(const IndexedGraph& graph, const Inferred& inferred) {
  for (const IndexedGraph::IndexedNode& indexed : graph.nodes()) {
    const Node& node = *indexed.node;
    if (node.is_variable()) continue;
    const std::vector<std::string> unknowns = Unknowns(indexed, graph, inferred);
    if (unknowns.empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("operator ", Excerpt(node.name()), " (", node.op()->name(), ") is not fully known: ",
                     absl::StrJoin(unknowns, "; "), ". Give the shapes and types of the variables that it needs."));
  }
  for (const uint32_t id : graph.variables()) {
    const uint32_t entry = graph[id].first_entry;
    if (inferred.shapes[entry].known() && inferred.types[entry] != DType::kUnknown) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("variable '", Excerpt(graph[id].node->name()), "' has shape ", inferred.shapes[entry].ToString(),
                     " and type ", Name(inferred.types[entry]), "; give both."));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Inferred> InferPartially(const IndexedGraph& graph, const Signatures& known) {
  Inferred inferred{ShapeVector(graph.num_entries()), TypeVector(graph.num_entries(), DType::kUnknown)};
  for (const uint32_t id : graph.variables()) {
    const uint32_t entry = graph[id].first_entry;
    RETURN_IF_ERROR(Annotate(Declare(*graph[id].node, known, &inferred.shapes[entry], &inferred.types[entry]),
                             absl::StrCat("variable '", Excerpt(graph[id].node->name()), "'")));
  }
  RETURN_IF_ERROR(Inference<Shapes>(graph, &inferred.shapes).Run());
  RETURN_IF_ERROR(Inference<Types>(graph, &inferred.types).Run());
  return inferred;
}

absl::StatusOr<Inferred> InferShapeType(const IndexedGraph& graph, const Signatures& known) {
  ASSIGN_OR_RETURN(Inferred inferred, InferPartially(graph, known));
  RETURN_IF_ERROR(CheckComplete(graph, inferred));
  return inferred;
}

}  // namespace gluond
