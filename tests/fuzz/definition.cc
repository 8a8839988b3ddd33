#include "tests/fuzz/definition.h"

#include <set>
#include <string>

#include "engine/core/graph.h"
#include "engine/passes/infer.h"
#include "engine/passes/validate.h"
#include "engine/store/state_json.h"
#include "server/codec/definition_codec.h"
#include "server/codec/tensor_codec.h"
#include "tests/fuzz/fuzz.h"

namespace gluond::fuzz {
namespace {

using Code = absl::StatusCode;

constexpr int64_t kMaxNodes = 200;

// What GetModel tells of a graph, with the variables that it reads.
v1::DefineModelRequest Told(const ModelDefinition& definition) {
  v1::DefineModelRequest told;
  server::GraphToProto(definition, told.mutable_graph());
  std::set<std::string> read;
  for (const v1::Node& node : told.graph().nodes()) read.insert(node.inputs().begin(), node.inputs().end());
  read.insert(told.graph().outputs().begin(), told.graph().outputs().end());
  for (const ModelInput& input : definition.inputs) {
    if (!read.contains(input.name)) continue;
    v1::Variable* variable = told.add_variables();
    variable->set_name(input.name);
    variable->set_kind(v1::Variable::INPUT);
    for (const int64_t dim : input.shape) variable->add_shape(dim);
    if (input.dtype != DType::kUnknown) variable->set_dtype(server::ToProto(input.dtype));
  }
  for (const Parameter& parameter : definition.parameters) {
    if (!read.contains(parameter.name)) continue;
    v1::Variable* variable = told.add_variables();
    variable->set_name(parameter.name);
    variable->set_kind(v1::Variable::PARAMETER);
  }
  return told;
}

void CheckTold(const ModelDefinition& definition) {
  const v1::DefineModelRequest told = Told(definition);
  const absl::StatusOr<ModelDefinition> again = server::DefinitionFromProto(told, kMaxNodes);
  Require(again.ok(), again.status().ToString());
  Require(Bytes(Told(*again).graph()) == Bytes(told.graph()), "what is told of a model defines it again");
}

void CheckCheckpoint(const ModelDefinition& definition) {
  const std::string text = DefinitionToJson(definition).Dump();
  const absl::StatusOr<Json> json = Json::Parse(text);
  Require(json.ok(), json.status().ToString());
  const absl::StatusOr<ModelDefinition> kept = DefinitionFromJson(*json);
  Require(kept.ok(), kept.status().ToString());
  Require(DefinitionToJson(*kept).Dump() == text, "a checkpoint keeps the definition");
}

void CheckInference(const ModelDefinition& definition) {
  const Graph graph{definition.outputs};
  const absl::Status valid = Validate(graph, {.max_nodes = 2 * kMaxNodes});
  RequireCode(valid, {Code::kInvalidArgument, Code::kResourceExhausted});
  if (!valid.ok()) return;
  Signatures known;
  for (const ModelInput& input : definition.inputs) known[input.name] = {input.shape, input.dtype};
  for (const Parameter& parameter : definition.parameters) known[parameter.name] = {parameter.shape, parameter.dtype};
  const IndexedGraph indexed(graph);
  for (const auto& inferred : {InferPartially(indexed, known), InferShapeType(indexed, known)}) {
    RequireCode(inferred.status(), {Code::kInvalidArgument, Code::kFailedPrecondition, Code::kUnavailable});
    if (!inferred.ok()) continue;
    for (const Shape& shape : inferred->shapes) {
      Require(!shape.rank_known() || Shape::FromDims(shape.dims()).ok(), "an inferred shape is one that may be sent");
    }
  }
}

}  // namespace

void CheckDefinition(const v1::DefineModelRequest& request) {
  const absl::StatusOr<ModelDefinition> definition = server::DefinitionFromProto(request, kMaxNodes);
  RequireCode(definition.status(), {Code::kInvalidArgument, Code::kNotFound, Code::kResourceExhausted});
  if (!definition.ok()) return;
  Require(definition->outputs.size() == definition->output_names.size(), "every output has a name");
  if (request.has_graph()) CheckTold(*definition);
  CheckCheckpoint(*definition);
  CheckInference(*definition);
}

}  // namespace gluond::fuzz
