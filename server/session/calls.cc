#include "server/session/calls.h"

#include <iterator>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/node_spec.h"
#include "engine/passes/infer.h"
#include "server/codec/attrs_codec.h"
#include "server/codec/definition_codec.h"
#include "server/codec/describe_operator.h"
#include "server/codec/tensor_codec.h"
#include "server/hosted/graph_memory.h"
#include "server/session/arrays.h"

namespace gluond::server {
namespace {

// Bytes that a call, and an argument of it, take at least.
constexpr int64_t kCallBytes = 256, kArgumentBytes = 64;

absl::StatusOr<std::shared_ptr<CachedGraph>> ToGraph(const v1::Command::DefineGraph& define, int64_t max_nodes, Reservation memory,
                                                     PayForNodes pay) {
  RETURN_IF_ERROR(memory.Grow((kNodeBytes + kMakingNodeBytes) * define.definition().nodes_size()));
  ASSIGN_OR_RETURN(GraphSpec spec, GraphFromProto(define.definition(), {}));
  std::vector<ModelInput> inputs;
  for (std::string& name : spec.inputs) inputs.push_back({std::move(name), {}, DType::kUnknown});
  ASSIGN_OR_RETURN(ModelDefinition definition, ExpandNodes(spec.nodes, std::move(inputs), spec.outputs, {}, max_nodes));
  const std::vector<uint32_t> parameters(define.parameters().begin(), define.parameters().end());
  return CachedGraph::Create({std::move(definition.outputs)}, {define.inputs().begin(), define.inputs().end()}, parameters,
                             std::move(pay));
}

absl::StatusOr<Signature> ToSignature(const v1::ArrayType& type) {
  Signature signature;
  ASSIGN_OR_RETURN(signature.shape, ShapeOf(type));
  ASSIGN_OR_RETURN(signature.dtype, DTypeFromProto(type));
  return signature;
}

}  // namespace

absl::Status SessionCalls::Charge(int64_t bytes) {
  if (bytes_ + bytes > limits_.max_session_queue_bytes) {
    return OverLimit("--max_session_queue_bytes", "the session's prepared calls and graphs take ", bytes_ + bytes,
                     " bytes, more than --max_session_queue_bytes=", limits_.max_session_queue_bytes, "; free some");
  }
  bytes_ += bytes;
  return absl::OkStatus();
}

template <class Named>
void SessionCalls::Erase(Named& named, uint64_t name) {
  if (const auto node = named.extract(name); !node.empty()) bytes_ -= node.mapped().bytes;
}

absl::Status SessionCalls::Prepare(const v1::Command::Prepare& prepare) {
  if (prepare.call() == 0) return absl::InvalidArgumentError("Prepare.call is 0; name it by another number");
  Erase(calls_, prepare.call());
  if (std::ssize(calls_) >= limits_.max_session_arrays) return TooManyOfSession("prepared calls", calls_.size());
  const int64_t bytes = kCallBytes + static_cast<int64_t>(prepare.ByteSizeLong());
  RETURN_IF_ERROR(Charge(bytes));
  absl::StatusOr<AttrDict> attrs = CallAttrsFromProto(prepare);
  calls_[prepare.call()] = {prepare.op(), attrs.ok() ? *std::move(attrs) : AttrDict(), attrs.status(), {}, bytes};
  return absl::OkStatus();
}

absl::StatusOr<PreparedOpPtr> SessionCalls::Find(uint64_t name, size_t num_inputs) {
  const auto it = calls_.find(name);
  if (it == calls_.end()) {
    return Invalid("there is no prepared call ", name, ": it was freed, or never made");
  }
  Prepared& prepared = it->second;
  for (const auto& [n, call] : prepared.made)
    if (n == num_inputs) return call;
  if (num_inputs > kMostInputs) {
    return Invalid("the call has ", num_inputs, " inputs, expected at most ", kMostInputs);
  }
  RETURN_IF_ERROR(prepared.status);
  RETURN_IF_ERROR(OfferedOp(prepared.op).status());
  ASSIGN_OR_RETURN(PreparedOpPtr call, PrepareOp(prepared.op, prepared.attrs, num_inputs));
  const int64_t bytes = kCallBytes + kArgumentBytes * static_cast<int64_t>(num_inputs + call->facts().num_outputs);
  RETURN_IF_ERROR(Charge(bytes));
  prepared.bytes += bytes;
  return prepared.made.emplace_back(num_inputs, std::move(call)).second;
}

absl::Status SessionCalls::Define(const v1::Command::DefineGraph& define) {
  if (define.graph() == 0) return absl::InvalidArgumentError("DefineGraph.graph is 0; name it by another number");
  Erase(graphs_, define.graph());
  if (std::ssize(graphs_) >= limits_.max_session_arrays) return TooManyOfSession("graphs", graphs_.size());
  absl::StatusOr<std::shared_ptr<CachedGraph>> graph = ToGraph(define, limits_.max_graph_nodes, Reservation(memory_), pay_);
  Defined& defined = graphs_[define.graph()];
  defined.status = graph.status();
  defined.large = define.definition().nodes_size() > kLargeNodes;
  if (!graph.ok()) return defined.status;
  const int64_t bytes =
      kCallBytes + static_cast<int64_t>(define.ByteSizeLong()) + kNodeBytes * CountNodes((*graph)->graph().outputs);
  defined.status = Charge(bytes);
  if (!defined.status.ok()) return defined.status;
  defined.graph = *std::move(graph);
  defined.bytes = bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<CachedGraph>> SessionCalls::FindGraph(uint64_t name) const {
  const auto it = graphs_.find(name);
  if (it != graphs_.end() && !it->second.status.ok()) return it->second.status;
  if (it != graphs_.end()) return it->second.graph;
  return Invalid("there is no graph ", name, ": it was freed, or never defined");
}

void SessionCalls::Free(const v1::Command::Free& free) {
  for (const uint64_t name : free.calls()) Erase(calls_, name);
  for (const uint64_t name : free.graphs()) Erase(graphs_, name);
}

void SessionCalls::ForgetGradients() {
  for (const auto& [name, defined] : graphs_)
    if (defined.graph != nullptr) defined.graph->ForgetCalls();
}

bool SessionCalls::IsLarge(uint64_t graph) const {
  const auto it = graphs_.find(graph);
  return it != graphs_.end() && it->second.large;
}

absl::StatusOr<v1::GraphType> InferGraph(const CachedGraph& graph, const v1::Command::InferGraph& infer,
                                         const std::shared_ptr<Budget>& memory) {
  Reservation meanwhile(memory);
  RETURN_IF_ERROR(meanwhile.Grow(kMakingNodeBytes * CountNodes(graph.graph().outputs)));
  Signatures known;
  const absl::flat_hash_set<std::string> inputs(graph.inputs().begin(), graph.inputs().end());
  for (const auto& [name, type] : infer.known()) {
    if (!inputs.contains(name)) {
      return Invalid("'", Excerpt(name), "' is no variable of the graph", DidYouMean(name, graph.inputs()));
    }
    absl::StatusOr<Signature> signature = ToSignature(type);
    if (!signature.ok()) return Annotate(signature.status(), absl::StrCat("variable '", Excerpt(name), "'"));
    known[name] = *signature;
  }
  const IndexedGraph indexed(graph.graph());
  ASSIGN_OR_RETURN(const Inferred inferred, infer.partial() ? InferPartially(indexed, known) : InferShapeType(indexed, known));
  absl::flat_hash_map<std::string, uint32_t> entries;
  for (const uint32_t id : indexed.variables()) entries[indexed[id].node->name()] = indexed[id].first_entry;
  v1::GraphType type;
  bool complete = true;
  const auto add = [&](uint32_t entry, v1::ArrayType* to) {
    TypeToProto(inferred.shapes[entry], inferred.types[entry], to);
    complete = complete && inferred.shapes[entry].known() && inferred.types[entry] != DType::kUnknown;
  };
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    v1::ArrayType* input = type.add_inputs();
    type.add_auxiliary(graph.is_auxiliary(i));
    const auto entry = entries.find(graph.inputs()[i]);
    if (entry != entries.end()) add(entry->second, input);  // Otherwise nothing reads it.
  }
  for (const IndexedGraph::Input& output : indexed.outputs()) add(output.entry, type.add_outputs());
  type.set_complete(complete);
  return type;
}

}  // namespace gluond::server
