#include "ops/library/library_graph.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"

namespace gluond::ops {
namespace {

constexpr size_t kMostEntries = 65536, kMostAttributes = 64, kMostName = 256, kMostText = 65536;

// Notes the first mistake.
uint32_t Fail(gluond_graph* graph, absl::Status status) {
  if (graph->status.ok()) graph->status = std::move(status);
  return 0;
}

uint32_t Add(gluond_graph* graph, NodeEntry entry) {
  if (graph->entries.size() >= kMostEntries) {
    return Fail(graph, absl::InternalError(absl::StrCat("the gradient has more than ", kMostEntries, " entries")));
  }
  graph->entries.push_back(std::move(entry));
  return static_cast<uint32_t>(graph->entries.size());
}

absl::Status NoSuch(const char* what, uint32_t number, size_t count) {
  return absl::InternalError(absl::StrCat("the gradient asks for ", what, " ", number, " of ", count));
}

absl::StatusOr<NodeEntry> Find(const gluond_graph* graph, uint32_t entry) {
  if (entry == 0 || entry > graph->entries.size()) return NoSuch("entry", entry, graph->entries.size());
  return graph->entries[entry - 1];
}

uint32_t Input(gluond_graph* graph, uint32_t i) {
  if (i < graph->node->num_inputs()) return Add(graph, graph->node->inputs[i]);
  return Fail(graph, NoSuch("input", i, graph->node->num_inputs()));
}

uint32_t Output(gluond_graph* graph, uint32_t i) {
  if (i < graph->node->num_outputs()) return Add(graph, {graph->node, i});
  return Fail(graph, NoSuch("output", i, graph->node->num_outputs()));
}

uint32_t Head(gluond_graph* graph, uint32_t i) {
  if (i < graph->heads.size()) return Add(graph, graph->heads[i]);
  return Fail(graph, NoSuch("the head of output", i, graph->heads.size()));
}

absl::StatusOr<std::string> Text(const char* text, size_t most, const char* what) {
  const size_t length = text == nullptr ? 0 : strnlen(text, most + 1);
  if (text == nullptr || length > most) return absl::InternalError(absl::StrCat(what, " is null, or longer than ", most, " bytes"));
  return std::string(text, length);
}

absl::StatusOr<AttrDict> Attributes(const char* const* attributes) {
  AttrDict dict;
  for (size_t i = 0; attributes != nullptr && attributes[2 * i] != nullptr; ++i) {
    if (i == kMostAttributes) return absl::InternalError(absl::StrCat("a call has more than ", kMostAttributes, " attributes"));
    ASSIGN_OR_RETURN(std::string name, Text(attributes[2 * i], kMostName, "an attribute's name"));
    ASSIGN_OR_RETURN(dict[std::move(name)], Text(attributes[2 * i + 1], kMostText, "an attribute's text"));
  }
  return dict;
}

absl::StatusOr<NodePtr> MakeNode(const gluond_graph* graph, const char* op, const uint32_t* inputs, uint32_t num_inputs,
                                 const char* const* attributes) {
  ASSIGN_OR_RETURN(const std::string name, Text(op, kMostName, "an operator's name"));
  if (num_inputs > kMostEntries || (num_inputs > 0 && inputs == nullptr)) {
    return absl::InternalError(absl::StrCat("a call of '", name, "' has ", num_inputs, " inputs, or their list is null"));
  }
  std::vector<NodeEntry> entries;
  for (uint32_t i = 0; i < num_inputs; ++i) {
    ASSIGN_OR_RETURN(entries.emplace_back(), Find(graph, inputs[i]));
  }
  ASSIGN_OR_RETURN(AttrDict dict, Attributes(attributes));
  return TryMakeNode(name, absl::StrCat(graph->node->name(), "_backward"), std::move(entries), std::move(dict));
}

uint32_t AddNode(gluond_graph* graph, const char* op, const uint32_t* inputs, uint32_t num_inputs, const char* const* attributes) {
  absl::StatusOr<NodePtr> node = MakeNode(graph, op, inputs, num_inputs, attributes);
  return node.ok() ? Add(graph, {*std::move(node), 0}) : Fail(graph, std::move(node).status());
}

uint32_t Result(gluond_graph* graph, uint32_t entry, uint32_t i) {
  absl::StatusOr<NodeEntry> found = Find(graph, entry);
  if (!found.ok()) return Fail(graph, std::move(found).status());
  if (i < found->node->num_outputs()) return Add(graph, {found->node, i});
  return Fail(graph, NoSuch("output", i, found->node->num_outputs()));
}

int32_t SetGradient(gluond_graph* graph, uint32_t input, uint32_t entry) {
  absl::StatusOr<NodeEntry> found = Find(graph, entry);
  if (found.ok() && input >= graph->gradients.size()) found = NoSuch("the gradient of input", input, graph->gradients.size());
  if (!found.ok()) return Fail(graph, std::move(found).status()), GLUOND_INTERNAL;
  graph->gradients[input] = *std::move(found);
  return GLUOND_OK;
}

}  // namespace

void AddGraphFunctions(gluond_op_api* api) {
  api->graph_input = Input;
  api->graph_output = Output;
  api->graph_head = Head;
  api->graph_node = AddNode;
  api->graph_result = Result;
  api->graph_gradient = SetGradient;
}

}  // namespace gluond::ops
