#include "engine/nn/inference_state.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/compile/pipeline.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/constants.h"
#include "engine/passes/rewrite.h"
#include "engine/runtime/cancellation_scope.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/finite.h"
#include "engine/runtime/posted.h"

namespace gluond {
namespace {

using Values = absl::flat_hash_map<std::string, Tensor>;
using Names = absl::flat_hash_set<std::string>;

// The values of the entries, which follow from `values` alone.
Task<absl::StatusOr<std::vector<Tensor>>> Compute(const std::vector<NodeEntry>& entries, const Signatures& known,
                                                  const Values& values, Lane& lane, Allocator& allocator,
                                                  const std::shared_ptr<Cancellation>& cancellation) {
  const Graph graph{entries};
  absl::StatusOr<std::unique_ptr<Executor>> compiled;
  {
    const CancellationScope scope(cancellation.get());
    compiled = Executor::Compile(graph, known, {}, lane, allocator);
  }
  CO_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, std::move(compiled));
  Run run = executor->NewRun();
  run.cancellation = cancellation;
  for (size_t i = 0; i < run.inputs.size(); ++i) run.inputs[i] = values.at(executor->inputs()[i].name);
  const absl::Status computed = co_await Callback<absl::Status>(
      [&executor, &run](Callback<absl::Status>::Done done) { executor->Start(std::move(run), std::move(done)); });
  co_await PostedAside(lane);
  CO_RETURN_IF_ERROR(computed);
  std::vector<Tensor> outputs = executor->run().outputs;
  if (!AreFinite(outputs)) {
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

// Variables that stand for entries of a graph.
class StandIns {
 public:
  StandIns(const Graph& graph, const std::vector<NodeEntry>& entries) {
    Names names;
    PostOrderVisit(graph.outputs, [&names](const NodePtr& node) { names.insert(node->name()); });
    for (const NodeEntry& entry : entries) {
      std::string name = absl::StrCat(Excerpt(entry.node->name()), ".constant", names_.size());
      while (!names.insert(name).second) name += "_";
      variables_[{entry.node.get(), entry.index}] = MakeVariable(name);
      names_.push_back(std::move(name));
    }
  }

  const std::vector<std::string>& names() const { return names_; }

  absl::StatusOr<std::vector<NodeEntry>> In(const Graph& graph) const {
    const auto with_variables = [this](const NodePtr&, const NodePtr& node) { return WithInputs(node, For(node->inputs)); };
    ASSIGN_OR_RETURN(const Graph replaced, Rewrite(graph, with_variables));
    return For(replaced.outputs);
  }

 private:
  // No entry that has a variable changes: it follows from parameters, which stay.
  std::vector<NodeEntry> For(std::vector<NodeEntry> entries) const {
    for (NodeEntry& entry : entries) {
      const auto variable = variables_.find({entry.node.get(), entry.index});
      if (variable != variables_.end()) entry = variable->second;
    }
    return entries;
  }

  absl::flat_hash_map<std::pair<const Node*, uint32_t>, NodeEntry> variables_;
  std::vector<std::string> names_;
};

}  // namespace

Task<absl::StatusOr<InferenceState>> ForInference(ModelState state, Device device, Lane& lane, Allocator& allocator,
                                                  std::shared_ptr<Cancellation> cancellation) {
  co_await PostedAside(lane);
  Values values;
  for (const NamedTensor& each : state.parameters) values[each.name] = each.tensor;
  Names names;
  for (const auto& [name, value] : values) names.insert(name);
  const Graph given{state.definition.outputs};
  const auto constants = std::make_shared<const Names>(UnwrittenBy(given, std::move(names)));
  const Signatures known = SignaturesOf(state);
  InferenceState made;
  const bool keeps = !LeftOutPasses().Contains(kKeepConstants);
  Unit unit(given, known,
            {.device = device, .open_shapes = true, .checks_values = keeps, .constants = constants, .payer = &allocator});
  PassWatcher watcher(unit);
  absl::StatusOr<std::vector<NodeEntry>> entries = std::vector<NodeEntry>();
  {
    const CancellationScope scope(cancellation.get());
    made.why_not =
        RunPasses(Stage::kRewrite, LeftOutPasses(), &unit, [&](const Pass& pass, PassTurn turn) { watcher.After(pass, turn); });
    if (made.why_not.ok()) made.why_not = unit.inferred().status();
    if (made.why_not.ok() && keeps) entries = ConstantEntries(unit.indexed(), **unit.inferred(), *constants, DeviceType::kCpu);
  }
  if (made.why_not.ok()) {
    const StandIns stand_ins(unit.graph(), entries.value_or(std::vector<NodeEntry>()));
    absl::StatusOr<std::vector<Tensor>> computed = std::vector<Tensor>();
    if (!entries.ok()) computed = entries.status();
    if (entries.ok() && !entries->empty()) {
      computed = co_await Compute(*entries, known, values, lane, allocator, cancellation);
    }
    made.why_not = computed.status();
    if (computed.ok()) {
      for (size_t i = 0; i < computed->size(); ++i) values[stand_ins.names()[i]] = (*computed)[i];
      CO_ASSIGN_OR_RETURN(std::vector<NodeEntry> outputs, stand_ins.In(unit.graph()));
      CO_ASSIGN_OR_RETURN(made.state, WithOutputs(state, outputs, values));
      if (!computed->empty()) unit.note = absl::StrCat(computed->size(), " values that follow from parameters became parameters");
      CO_RETURN_IF_ERROR(unit.Replace(Graph{std::move(outputs)}));
      watcher.After({kKeepConstants, Stage::kRewrite, /*optional=*/true, Pass::For::kPredictions, nullptr},
                    keeps ? PassTurn::kRan : PassTurn::kLeftOut);
      made.history = watcher.Take();
      co_return made;
    }
  }
  if (cancellation != nullptr) CO_RETURN_IF_ERROR(cancellation->Check());  // That is no reason to keep the old graph.
  made.history = watcher.Take();
  made.history.TakeBack(made.why_not.message());
  CO_ASSIGN_OR_RETURN(made.state, WithOutputs(state, state.definition.outputs, values));
  co_return made;
}

}  // namespace gluond
