#include "engine/train/step_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/gradients.h"
#include "engine/nn/graph_table.h"
#include "engine/nn/loss.h"
#include "engine/train/shard_sums.h"

namespace gluond {
namespace {

// A client may step with other parameters each time, as a net with optional parts does. Each graph holds a program.
constexpr size_t kMostGraphs = 16;

std::string StepPurpose(bool train, bool weighted) {
  return absl::StrCat(train ? "train" : "evaluate", weighted ? ":weighted" : "");
}

// Values that the host reads, exactly, whatever their type.
NodeEntry Reported(const NodeEntry& x) { return MakeNode("Cast", "report", {x}, {{"dtype", "float64"}}); }

// x, which is of type `from`, as another type.
NodeEntry InType(const NodeEntry& x, DType from, DType to) {
  return from == to ? x : MakeNode("Cast", "gradient", {x}, {{"dtype", std::string(Name(to))}});
}

}  // namespace

StepGraphs::StepGraphs(Model& model, const TrainerOptions& options, const std::vector<ModelInput>& inputs, size_t prediction,
                       Updater& updater)
    : model_(model),
      trainer_(options),
      inputs_(inputs),
      prediction_(prediction),
      updater_(updater),
      graphs_(std::make_unique<GraphTable<StepGraph>>(kMostGraphs, model.parameters(), *model.options().lane)) {
  std::vector<std::string> names;
  for (const ModelInput& input : inputs_) names.push_back(input.name);
  for (size_t i = 0; i < model_.parameters().size(); ++i) names.push_back(model_.parameters()[i].name);
  prefix_ = UnusedPrefix(std::move(prefix_), names);
}

StepGraphs::~StepGraphs() = default;

absl::Status StepGraphs::MakeFirst() {
  ASSIGN_OR_RETURN(StepGraphPtr made, MakeStep(/*train=*/true, /*weighted=*/false));
  graphs_->Put(StepPurpose(/*train=*/true, /*weighted=*/false), std::move(made));
  return absl::OkStatus();
}

absl::StatusOr<NodeEntry> StepGraphs::AddLoss(bool train, bool weighted, Nodes* nodes) const {
  const NodeEntry& prediction = model_.definition().outputs[prediction_];
  NodeEntry loss = prediction;
  if (!trainer_.loss.type.empty()) {
    LossInputs inputs = {prediction, MakeVariable(kLabel), {}};
    if (weighted) inputs.sample_weight = MakeVariable(kSampleWeight);
    ASSIGN_OR_RETURN(loss, Losses().Make(trainer_.loss.type, trainer_.loss.attrs, inputs));
  }
  nodes->first = {{Reported(MakeNode("Reshape", "losses", {loss}, {{"shape", "(-1,)"}}))}};
  if (!trainer_.metrics.empty()) nodes->first.push_back({prediction});
  nodes->options.is_train = train;
  for (const ModelInput& input : Inputs(weighted)) nodes->options.inputs.push_back(input.name);
  return loss;
}

absl::StatusOr<StepGraphs::Nodes> StepGraphs::StepNodes(bool train, bool weighted, const ParameterStore& parameters) const {
  Nodes nodes;
  ASSIGN_OR_RETURN(const NodeEntry loss, AddLoss(train, weighted, &nodes));
  if (!train) return nodes;
  ASSIGN_OR_RETURN(std::vector<GraphOutput> made, GradientOutputs({loss}, {NodeEntry()}, parameters));
  for (GraphOutput& output : made) {
    // The strand may be changing it: Trainer::Create is no work of the strand. Such a graph is not used then (GraphTable).
    ASSIGN_OR_RETURN(const Parameter parameter, parameters.Get(parameters[output.parameter].name));
    if (parameter.grad_req == GradReq::kAdd) {
      nodes.options.variables.push_back(updater_.Gradient(output.parameter, prefix_));
      output = {MakeVariable(nodes.options.variables.back().name) + output.entry, GraphOutput::kGradientSum, output.parameter};
    }
    nodes.parameters.push_back(output.parameter);
    nodes.gradients.push_back(output.entry);
    nodes.first.push_back(std::move(output));
  }
  if (WantsNorm(trainer_) && !nodes.gradients.empty()) {
    const NodeEntry squares = Reported(MakeNode("multi_sum_sq", "gradient_norm", nodes.gradients));
    NodeEntry& report = nodes.first.front().entry;
    report = MakeNode("Concat", "report", {report, squares}, {{"dim", "0"}});
  }
  return nodes;
}

absl::StatusOr<StepGraphPtr> StepGraphs::MakeStep(bool train, bool weighted) const {
  ASSIGN_OR_RETURN(Nodes nodes, StepNodes(train, weighted, model_.parameters()));
  return Bind(std::move(nodes));
}

absl::StatusOr<StepGraphPtr> StepGraphs::MakeUpdate(std::vector<size_t> parameters) const {
  Nodes nodes;
  nodes.options.is_train = true;
  nodes.parameters = std::move(parameters);
  for (const size_t i : nodes.parameters) {
    nodes.options.variables.push_back(updater_.Gradient(i, prefix_));
    nodes.gradients.push_back(MakeVariable(nodes.options.variables.back().name));
  }
  AddSquares(&nodes);
  return Bind(std::move(nodes));
}

void StepGraphs::AddSquares(Nodes* nodes) const {
  const bool has_squares = WantsNorm(trainer_) && !nodes->gradients.empty();
  nodes->first.push_back({has_squares ? Reported(MakeNode("multi_sum_sq", "gradient_norm", nodes->gradients))
                                      : MakeNode("_zeros", "report", {}, {{"shape", "(1,)"}, {"dtype", "float64"}})});
}

absl::StatusOr<StepGraphPtr> StepGraphs::MakeShard(bool weighted, const ShardSums& sums) const {
  Nodes nodes;
  ASSIGN_OR_RETURN(const NodeEntry loss, AddLoss(/*train=*/true, weighted, &nodes));
  ASSIGN_OR_RETURN(std::vector<GraphOutput> made, GradientOutputs({loss}, {NodeEntry()}, model_.parameters()));
  std::reverse(made.begin(), made.end());  // Backward makes the last layer's first.
  auto shard = std::make_shared<StepGraph>();
  for (const GraphOutput& output : made) {
    const size_t item = shard->parameters.size();
    const DType type = model_.parameters()[output.parameter].dtype;
    nodes.first.push_back({InType(output.entry, type, ShardSums::SumType(type)), GraphOutput::kMemory, output.parameter,
                           [&sums, item] { return sums.Part(item); }});
    shard->parameters.push_back(output.parameter);
  }
  ASSIGN_OR_RETURN(shard->graph, model_.runs().Bind(std::move(nodes.first), std::move(nodes.options)));
  return shard;
}

absl::StatusOr<StepGraphPtr> StepGraphs::MakeUpdateOfSums(std::vector<size_t> parameters, const ShardSums& sums) const {
  Nodes nodes;
  std::vector<GraphOutput> old_and_new;
  nodes.options.is_train = true;
  nodes.parameters = std::move(parameters);
  for (size_t item = 0; item < nodes.parameters.size(); ++item) {
    const size_t i = nodes.parameters[item];
    const LiveParameter& p = model_.parameters()[i];
    const Signature signature = {p.shape, ShardSums::SumType(p.dtype)};
    nodes.options.variables.push_back(
        {absl::StrCat(prefix_, p.name, "/sum"), [signature] { return signature; }, [&sums, item] { return sums.Sum(item); }});
    NodeEntry gradient = InType(MakeVariable(nodes.options.variables.back().name), signature.dtype, p.dtype);
    if (p.grad_req == GradReq::kAdd) {
      nodes.options.variables.push_back(updater_.Gradient(i, prefix_));
      gradient = MakeVariable(nodes.options.variables.back().name) + gradient;
      old_and_new.push_back({gradient, GraphOutput::kGradientSum, i});
    }
    nodes.gradients.push_back(std::move(gradient));
  }
  AddSquares(&nodes);
  nodes.first.insert(nodes.first.end(), old_and_new.begin(), old_and_new.end());
  return Bind(std::move(nodes));
}

absl::StatusOr<StepGraphPtr> StepGraphs::Bind(Nodes nodes) const {
  auto made = std::make_shared<StepGraph>();
  std::vector<GraphOutput> first = nodes.first;
  BoundGraphOptions options = std::move(nodes.options);
  if (!nodes.parameters.empty()) {
    options.rest = [this, nodes = std::move(nodes), &numbers = made->numbers]() -> absl::StatusOr<GraphRest> {
      JointUpdate joint(prefix_);
      ASSIGN_OR_RETURN(GraphRest rest, Rest(nodes, model_.parameters(), &joint));
      ASSIGN_OR_RETURN(numbers, updater_.MakeNumbers(joint, &rest));
      return rest;
    };
  }
  ASSIGN_OR_RETURN(made->graph, model_.runs().Bind(std::move(first), std::move(options)));
  return made;
}

absl::StatusOr<GraphRest> StepGraphs::Rest(const Nodes& nodes, const ParameterStore& parameters, JointUpdate* joint) const {
  std::vector<NodeEntry> first;
  for (const GraphOutput& output : nodes.first) first.push_back(output.entry);
  return updater_.Build(parameters, nodes.parameters, nodes.gradients, first, joint);
}

std::vector<ModelInput> StepGraphs::Inputs(bool weighted) const {
  std::vector<ModelInput> inputs = inputs_;
  if (!weighted && !trainer_.loss.type.empty()) inputs.pop_back();
  return inputs;
}

Task<absl::StatusOr<StepGraphPtr>> StepGraphs::OfStep(bool train, bool weighted, std::shared_ptr<Cancellation> cancellation) {
  return graphs_->Find(
      StepPurpose(train, weighted), [this, train, weighted] { return MakeStep(train, weighted); }, std::move(cancellation));
}

Task<absl::StatusOr<StepGraphPtr>> StepGraphs::OfUpdate(std::vector<size_t> parameters,
                                                        std::shared_ptr<Cancellation> cancellation) {
  std::string purpose = absl::StrCat("update:", absl::StrJoin(parameters, ","));
  return graphs_->Find(
      std::move(purpose), [this, parameters = std::move(parameters)] { return MakeUpdate(parameters); }, std::move(cancellation));
}

Task<absl::StatusOr<StepGraphPtr>> StepGraphs::OfShard(bool weighted, const ShardSums& sums,
                                                       std::shared_ptr<Cancellation> cancellation) {
  return graphs_->Find(
      weighted ? "shard:weighted" : "shard", [this, weighted, &sums] { return MakeShard(weighted, sums); },
      std::move(cancellation));
}

Task<absl::StatusOr<StepGraphPtr>> StepGraphs::OfSums(std::vector<size_t> parameters, const ShardSums& sums,
                                                      std::shared_ptr<Cancellation> cancellation) {
  std::string purpose = absl::StrCat("sums:", absl::StrJoin(parameters, ","));
  return graphs_->Find(
      std::move(purpose), [this, parameters = std::move(parameters), &sums] { return MakeUpdateOfSums(parameters, sums); },
      std::move(cancellation));
}

}  // namespace gluond
