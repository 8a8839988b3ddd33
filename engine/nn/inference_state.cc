#include "engine/nn/inference_state.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/affine.h"
#include "engine/core/convert.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/block_channels.h"
#include "engine/passes/fold_affine.h"
#include "engine/passes/simplify.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/posted.h"

namespace gluond {
namespace {

// Constants may take twice the bytes of the parameters, and so many more.
constexpr int64_t kFewBytes = 1 << 20;

using Values = absl::flat_hash_map<std::string, Tensor>;
using Names = absl::flat_hash_set<std::string>;

int64_t BytesOf(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const NamedTensor& each : tensors) bytes += static_cast<int64_t>(each.tensor.bytes());
  return bytes;
}

bool IsFinite(const Tensor& tensor) {
  if (!IsFloating(tensor.dtype())) return true;
  return DispatchType(tensor.dtype(), [&](auto t) {
    const auto* const values = tensor.data<decltype(t)>();
    return std::all_of(values, values + tensor.Size(), [](auto value) { return std::isfinite(Convert<double>(value)); });
  });
}

// The parameters whose values a prediction leaves as they are. A call with FAffine writes nothing then.
Names ConstantNames(const Graph& graph, const Values& values) {
  Names constants;
  for (const auto& [name, value] : values) constants.insert(name);
  PostOrderVisit(graph.outputs, [&](const NodePtr& node) {
    if (node->is_variable() || node->op()->GetAttr<FAffine>("FAffine") != nullptr) return;
    for (const uint32_t i : node->facts().mutated) constants.erase(node->inputs[i].node->name());
  });
  return constants;
}

// The entries of a graph that depend on constants alone, and are read by others.
class ConstantEntries {
 public:
  ConstantEntries(const IndexedGraph& graph, const Names& constants) : graph_(graph) {
    for (const IndexedGraph::IndexedNode& node : graph.nodes()) is_constant_.push_back(IsConstant(node, constants));
    Names names;
    for (const IndexedGraph::IndexedNode& node : graph.nodes()) names.insert(node.node->name());
    for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
      if (is_constant_[id]) continue;
      for (const IndexedGraph::Input& input : graph[id].inputs) Add(input, &names);
    }
  }

  const std::vector<NodeEntry>& entries() const { return entries_; }
  const std::vector<std::string>& names() const { return names_; }

  // The graph in which variables of these names stand for the entries.
  std::vector<NodeEntry> Replaced() const {
    std::vector<NodePtr> becomes;
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) {
      const IndexedGraph::IndexedNode& indexed = graph_[id];
      auto copy = std::make_shared<Node>();
      copy->attrs = indexed.node->attrs;
      for (const IndexedGraph::Input& input : indexed.inputs) {
        const auto variable = variables_.find(input.entry);
        copy->inputs.push_back(variable != variables_.end() && !is_constant_[id] ? variable->second
                                                                                 : NodeEntry{becomes[input.node], input.index});
      }
      becomes.push_back(indexed.node->is_variable() ? indexed.node : std::move(copy));
    }
    std::vector<NodeEntry> outputs;
    for (const IndexedGraph::Input& output : graph_.outputs()) outputs.push_back({becomes[output.node], output.index});
    return outputs;
  }

 private:
  bool IsConstant(const IndexedGraph::IndexedNode& indexed, const Names& constants) const {
    const Node& node = *indexed.node;
    if (node.is_variable()) return constants.contains(node.name());
    const OpFacts& facts = node.facts();
    return facts.pure && !facts.random && !facts.async && facts.mutated.empty() && facts.cpu_kernel != nullptr &&
           std::all_of(indexed.inputs.begin(), indexed.inputs.end(),
                       [this](const IndexedGraph::Input& input) { return is_constant_[input.node]; });
  }

  void Add(const IndexedGraph::Input& input, Names* names) {
    const Node& node = *graph_[input.node].node;
    if (!is_constant_[input.node] || node.is_variable() || variables_.contains(input.entry)) return;
    std::string name = absl::StrCat(Excerpt(node.name()), ".constant", entries_.size());
    while (!names->insert(name).second) name += "_";
    variables_[input.entry] = MakeVariable(name);
    entries_.push_back({graph_[input.node].node, input.index});
    names_.push_back(std::move(name));
  }

  const IndexedGraph& graph_;
  std::vector<bool> is_constant_;                       // By node.
  absl::flat_hash_map<uint32_t, NodeEntry> variables_;  // By entry.
  std::vector<NodeEntry> entries_;
  std::vector<std::string> names_;
};

// The values of the entries, which depend on `values` alone. RESOURCE_EXHAUSTED: they are much more than `most_bytes`.
Task<absl::StatusOr<std::vector<Tensor>>> Compute(const std::vector<NodeEntry>& entries, const Signatures& known,
                                                  const Values& values, int64_t most_bytes, Lane& lane, Allocator& allocator) {
  const Graph graph{entries};
  const IndexedGraph indexed(graph);
  CO_ASSIGN_OR_RETURN(const Inferred inferred, InferShapeType(indexed, known));
  for (const IndexedGraph::Input& output : indexed.outputs()) {
    CO_ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(inferred.shapes[output.entry], SizeOf(inferred.types[output.entry])));
    if ((most_bytes -= bytes) < 0) co_return absl::ResourceExhaustedError("constants would take too many bytes");
  }
  CO_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, Executor::Compile(graph, known, {}, lane, allocator));
  Run run = executor->NewRun();
  for (size_t i = 0; i < run.inputs.size(); ++i) run.inputs[i] = values.at(executor->inputs()[i].name);
  const absl::Status computed = co_await Callback<absl::Status>(
      [&executor, &run](Callback<absl::Status>::Done done) { executor->Start(std::move(run), std::move(done)); });
  co_await PostedAside(lane);
  CO_RETURN_IF_ERROR(computed);
  std::vector<Tensor> outputs = executor->run().outputs;
  if (!std::all_of(outputs.begin(), outputs.end(), IsFinite)) {
    co_return absl::FailedPreconditionError("a constant is not finite");
  }
  co_return outputs;
}

// The state with `outputs` in the place of its own, and with the values that those need.
absl::StatusOr<ModelState> WithOutputs(const ModelState& state, std::vector<NodeEntry> outputs, const Values& values) {
  ModelState made{state.definition, {}, state.random};
  absl::flat_hash_map<std::string, Parameter> parameters;
  for (Parameter& parameter : made.definition.parameters) parameters[parameter.name] = std::move(parameter);
  Names inputs;
  for (const ModelInput& input : made.definition.inputs) inputs.insert(input.name);
  made.definition.parameters.clear();
  made.definition.outputs = std::move(outputs);
  absl::Status status;
  PostOrderVisit(made.definition.outputs, [&](const NodePtr& node) {
    if (!node->is_variable() || inputs.contains(node->name())) return;
    const auto value = values.find(node->name());
    if (value == values.end()) {
      status = absl::InvalidArgumentError(absl::StrCat("parameter '", Excerpt(node->name()), "' has no value"));
      return;
    }
    Parameter parameter = parameters[node->name()];
    parameter.name = node->name();
    parameter.shape = value->second.shape();
    parameter.dtype = value->second.dtype();
    parameter.grad_req = GradReq::kNull;
    made.definition.parameters.push_back(std::move(parameter));
    made.parameters.push_back({node->name(), value->second});
  });
  RETURN_IF_ERROR(status);
  return made;
}

// The signatures of a state's variables. Requires: it has all its values.
Signatures SignaturesOf(const ModelState& state) {
  Signatures known;
  for (const NamedTensor& each : state.parameters) known[each.name] = {each.tensor.shape(), each.tensor.dtype()};
  for (const ModelInput& input : state.definition.inputs) known[input.name] = {input.shape, input.dtype};
  return known;
}

Task<absl::StatusOr<ModelState>> Fold(const ModelState& state, const Values& values, Device device, Lane& lane,
                                      Allocator& allocator) {
  const Signatures known = SignaturesOf(state);
  Graph graph{state.definition.outputs};
  const Names constants = ConstantNames(graph, values);
  CO_ASSIGN_OR_RETURN(graph, FoldAffine(graph, known, constants));
  if (device.type == DeviceType::kCpu) {
    CO_ASSIGN_OR_RETURN(graph, BlockChannels(graph, known));
  }
  const Graph folded = Simplify(graph);
  const IndexedGraph indexed(folded);
  const ConstantEntries found(indexed, constants);
  if (found.entries().empty()) co_return WithOutputs(state, folded.outputs, values);
  const int64_t most_bytes = 2 * BytesOf(state.parameters) + kFewBytes;
  CO_ASSIGN_OR_RETURN(const std::vector<Tensor> computed,
                      co_await Compute(found.entries(), known, values, most_bytes, lane, allocator));
  Values all = values;
  for (size_t i = 0; i < computed.size(); ++i) all[found.names()[i]] = computed[i];
  co_return WithOutputs(state, found.Replaced(), all);
}

}  // namespace

Task<absl::StatusOr<ModelState>> ForInference(ModelState state, Device device, Lane& lane, Allocator& allocator) {
  co_await PostedAside(lane);
  Values values;
  for (const NamedTensor& each : state.parameters) values[each.name] = each.tensor;
  absl::StatusOr<ModelState> folded = co_await Fold(state, values, device, lane, allocator);
  if (folded.ok()) co_return folded;
  co_return WithOutputs(state, state.definition.outputs, values);
}

}  // namespace gluond
