#include "engine/nn/bound_graph.h"

#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/passes/constants.h"
#include "engine/passes/infer.h"
#include "engine/passes/validate.h"
#include "engine/runtime/await_fact.h"
#include "engine/runtime/cancellation_scope.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/posted.h"

namespace gluond {

BoundGraph::BoundGraph(std::vector<GraphOutput> outputs, BoundGraphOptions options, ParameterMemory& memory,
                       std::function<absl::Status()> initialize, ExecutorCache& cache, Lane& lane)
    : outputs_(std::move(outputs)),
      options_(std::move(options)),
      num_first_(outputs_.size()),
      num_variables_(options_.variables.size()),
      memory_(memory),
      parameters_(memory.store()),
      initialize_(std::move(initialize)),
      cache_(cache),
      lane_(lane) {
  auto graph = std::make_shared<Graph>();
  for (const GraphOutput& output : outputs_) {
    graph->outputs.push_back(output.entry);
    if (output.kind == GraphOutput::kGradient || output.kind == GraphOutput::kGradientSum) gradients_.push_back(output.parameter);
  }
  std::vector<bool> added;
  for (const GraphOutput& output : outputs_) {
    // The strand may be changing it. Such a graph is not used then (GraphTable).
    const bool adds =
        output.kind == GraphOutput::kGradient && parameters_.Get(parameters_[output.parameter].name)->grad_req == GradReq::kAdd;
    added.push_back(adds);
  }
  if (absl::c_linear_search(added, true)) added_ = std::make_shared<const std::vector<bool>>(std::move(added));
  if (!options_.is_train) {
    absl::flat_hash_set<std::string> names;
    for (size_t i = 0; i < parameters_.size(); ++i) names.insert(parameters_[i].name);
    constants_ = std::make_shared<const absl::flat_hash_set<std::string>>(UnwrittenBy(*graph, std::move(names)));
  }
  graph_ = std::move(graph);
}

absl::StatusOr<std::unique_ptr<BoundGraph>> BoundGraph::Create(std::vector<GraphOutput> outputs, BoundGraphOptions options,
                                                               ParameterMemory& memory, std::function<absl::Status()> initialize,
                                                               ExecutorCache& cache, Lane& lane) {
  std::unique_ptr<BoundGraph> graph(
      new BoundGraph(std::move(outputs), std::move(options), memory, std::move(initialize), cache, lane));
  RETURN_IF_ERROR(CheckKernels(*graph->graph_, lane.device().type));
  return graph;
}

absl::Status BoundGraph::AddRest() {
  if (options_.rest == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(GraphRest rest, options_.rest());
  auto graph = std::make_shared<Graph>(*graph_);
  for (const GraphOutput& output : rest.outputs) graph->outputs.push_back(output.entry);
  RETURN_IF_ERROR(CheckKernels(*graph, lane_.device().type));
  graph_ = std::move(graph);
  std::move(rest.outputs.begin(), rest.outputs.end(), std::back_inserter(outputs_));
  std::move(rest.variables.begin(), rest.variables.end(), std::back_inserter(options_.variables));
  options_.rest = nullptr;
  return absl::OkStatus();
}

ExecutorQuery BoundGraph::QueryFor(absl::Span<const Tensor> inputs) const {
  const bool pauses = num_first_ < outputs_.size();
  return {graph_,
          {.is_train = options_.is_train,
           .pause_after = pauses ? static_cast<uint32_t>(num_first_) : 0,
           .constants = skips_constants_ ? nullptr : constants_,
           .added = added_},
          inputs};
}

absl::StatusOr<Signatures> BoundGraph::CompleteSignatures(absl::Span<const Tensor> inputs) {
  Signatures known;
  for (size_t i = 0; i < inputs.size(); ++i) known[options_.inputs[i]] = {inputs[i].shape(), inputs[i].dtype()};
  const size_t count = parameters_.size();
  bool incomplete = false;
  for (size_t i = 0; i < count; ++i) {
    const Parameter& p = parameters_[i];
    known[p.name] = {p.shape, p.dtype};
    incomplete = incomplete || !p.shape.known();
  }
  if (incomplete) {
    for (const BoundVariable& variable : options_.variables) known[variable.name] = variable.signature();
    const IndexedGraph indexed(*graph_);
    ASSIGN_OR_RETURN(const Inferred inferred, InferShapeType(indexed, known));
    for (uint32_t id : indexed.variables()) {
      const absl::StatusOr<size_t> parameter = parameters_.Find(indexed[id].node->name());
      if (!parameter.ok()) continue;  // An input.
      const Shape& shape = inferred.shapes[indexed[id].first_entry];
      RETURN_IF_ERROR(memory_.mutable_store().MergeShape(*parameter, shape));
      known[indexed[id].node->name()].shape = shape;
    }
  }
  RETURN_IF_ERROR(initialize_());
  RETURN_IF_ERROR(AddRest());
  for (const BoundVariable& variable : options_.variables) known[variable.name] = variable.signature();
  return known;
}

absl::Status BoundGraph::FindSources() {
  sources_.clear();
  std::vector<std::string> uninitialized;
  absl::flat_hash_map<absl::string_view, size_t> inputs, variables;
  for (size_t i = 0; i < options_.inputs.size(); ++i) inputs.try_emplace(options_.inputs[i], i);
  for (size_t i = 0; i < options_.variables.size(); ++i) variables.try_emplace(options_.variables[i].name, i);
  for (const Executor::Variable& variable : executor_->inputs()) {
    if (const auto input = inputs.find(variable.name); input != inputs.end()) {
      sources_.push_back({Source::kInput, input->second});
      continue;
    }
    if (const auto other = variables.find(variable.name); other != variables.end()) {
      sources_.push_back({Source::kVariable, other->second});
      continue;
    }
    ASSIGN_OR_RETURN(const size_t parameter, parameters_.Find(variable.name));
    sources_.push_back({Source::kParameter, parameter});
    if (!parameters_[parameter].initialized) uninitialized.push_back(variable.name);
  }
  if (uninitialized.empty()) return absl::OkStatus();
  if (uninitialized.size() > 8) uninitialized.resize(8), uninitialized.push_back("...");
  return absl::FailedPreconditionError(absl::StrCat("parameters are not initialized: ", absl::StrJoin(uninitialized, ", "),
                                                    ". Initialize the model, or upload their values"));
}

absl::StatusOr<Tensor> BoundGraph::Draft(size_t parameter, ParameterMemory::Part part, bool copied) {
  drafts_.emplace_back(parameter, part);
  return memory_.Draft(parameter, part, copied);
}

absl::Status BoundGraph::FillRun(Request* request) {
  drafts_.clear();
  absl::flat_hash_map<size_t, const Tensor*> instead;
  for (const auto& [parameter, tensor] : request->instead) instead[parameter] = &tensor;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto [kind, index] = sources_[i];
    if (kind == Source::kVariable && index >= num_variables_) continue;  // Continue binds it.
    if (kind != Source::kParameter) {
      run_.inputs[i] = kind == Source::kInput ? request->inputs[index] : options_.variables[index].memory();
      continue;
    }
    if (const auto tensor = instead.find(index); tensor != instead.end()) {
      run_.inputs[i] = *tensor->second;
      continue;
    }
    const Executor::Variable& variable = executor_->inputs()[i];
    if (variable.mutated && options_.is_train) {
      ASSIGN_OR_RETURN(run_.inputs[i], Draft(index, ParameterMemory::Part::kValues));
      continue;
    }
    if (variable.mutated) RETURN_IF_ERROR(memory_.Own(index));
    run_.inputs[i] = parameters_[index].data;
  }
  run_.output_reqs.assign(outputs_.size(), kWriteTo);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const GraphOutput& output = outputs_[i];
    run_.outputs[i] = Tensor();  // A caller who has the last run's values keeps them.
    if (output.kind == GraphOutput::kUnwanted) run_.output_reqs[i] = kNullOp;
    if (output.kind == GraphOutput::kMemory && i < num_first_) run_.outputs[i] = output.memory();
    if (output.kind == GraphOutput::kGradientSum) {
      ASSIGN_OR_RETURN(run_.outputs[i], Draft(output.parameter, ParameterMemory::Part::kGradient, /*copied=*/false));
    }
    if (output.kind != GraphOutput::kGradient) continue;
    const LiveParameter& parameter = parameters_[output.parameter];
    if (parameter.grad_req == GradReq::kAdd) {
      run_.output_reqs[i] = kAddTo;
      ASSIGN_OR_RETURN(run_.outputs[i], Draft(output.parameter, ParameterMemory::Part::kGradient));
    } else {
      run_.outputs[i] = parameter.grad;
    }
  }
  run_.seed = request->random.seed;
  run_.random_run = request->random.runs;
  run_.cancellation = std::move(request->cancellation);
  run_.client_time = std::move(request->client_time);
  run_.on_output = std::move(request->on_output);
  run_.constants = options_.is_train ? nullptr : memory_.Constants();
  return absl::OkStatus();
}

Task<absl::Status> BoundGraph::Prepare(std::vector<Tensor> inputs, std::shared_ptr<Cancellation> cancellation) {
  if (options_.is_train) memory_.ForgetConstants();
  // An executor that is not idle was cancelled in an operator that has not returned: it cannot be reused.
  if (executor_ && executor_->idle() && executor_.key()->Answers(QueryFor(inputs))) co_return absl::OkStatus();
  executor_ = {}, run_ = {};
  executor_ = cache_.TakeIdle(QueryFor(inputs));
  if (!executor_) {
    absl::StatusOr<Signatures> signatures;
    while (true) {
      co_await RunAside(lane_);  // Inferring shapes and making first values takes long.
      {
        const CancellationScope scope(cancellation.get());
        signatures = CompleteSignatures(inputs);
      }
      co_await PostedTo(lane_);
      if (signatures.ok()) break;
      CO_RETURN_IF_ERROR(co_await Answer(signatures.status(), lane_, cancellation));
    }
    const ExecutorKeyPtr key = ExecutorKey::Make(QueryFor(inputs), *std::move(signatures));
    CO_ASSIGN_OR_RETURN(executor_, co_await Callback<absl::StatusOr<ExecutorLease>>(
                                       [&](ExecutorCache::Ready ready) { cache_.Checkout(key, std::move(ready), cancellation); }));
  }
  absl::Status found = FindSources();
  if (!found.ok()) executor_ = {};
  co_return found;
}

// Values that follow from constants take memory. Where there is none, a program without them predicts the same, up to rounding.
Task<absl::Status> BoundGraph::Run(Request request) {
  if (options_.is_train) co_return co_await RunOnce(std::move(request));
  skips_constants_ = cache_.SkipsConstants(QueryFor(request.inputs));
  absl::Status status = co_await RunOnce(request);
  if (!IsByConstants(status)) co_return status;
  cache_.SkipConstants(QueryFor(request.inputs));
  skips_constants_ = true;
  co_return co_await RunOnce(std::move(request));
}

Task<absl::Status> BoundGraph::RunOnce(Request request) {
  CO_RETURN_IF_ERROR(co_await Prepare(request.inputs, request.cancellation));
  if (run_.inputs.size() != sources_.size() || run_.outputs.size() != outputs_.size()) run_ = executor_->NewRun();
  absl::Status status = FillRun(&request);
  if (status.ok()) {
    // A run that fails leaves gradients behind that belong to no pass.
    for (const size_t i : gradients_)
      if (parameters_[i].grad_req == GradReq::kWrite) memory_.set_fresh(i, false);
    status = co_await Callback<absl::Status>([&](Executor::Done done) { executor_->StartHere(std::move(run_), std::move(done)); });
    if (status.ok() && num_first_ < outputs_.size()) {
      paused_ = executor_->TakePaused(&run_.outputs);
      co_return status;
    }
    run_ = executor_->TakeRun();
    if (!executor_->idle()) executor_ = {};  // A client's late answer keeps it: it holds the parameters until then.
  }
  EndRun();
  co_return status;
}

absl::Status BoundGraph::ReadyRest() {
  if (!paused_.has_value()) return absl::OkStatus();
  gluond::Run rest = executor_->NewRun();
  for (size_t i = 0; i < rest.inputs.size(); ++i) {
    const auto [kind, index] = sources_[i];
    if (kind == Source::kVariable && index >= num_variables_) rest.inputs[i] = options_.variables[index].memory();
  }
  for (size_t i = num_first_; i < outputs_.size(); ++i) rest.outputs[i] = outputs_[i].memory();
  is_ready_ = true;
  absl::Status ready = executor_->Ready(*std::move(paused_), std::move(rest));
  if (ready.ok()) ready = lane_.ReserveScratch();
  if (!ready.ok()) Abandon();
  paused_.reset();
  return ready;
}

absl::Status BoundGraph::Continue() {
  if (!is_ready_) return absl::OkStatus();
  absl::Status result;
  executor_->Continue([&result](absl::Status status) { result = std::move(status); });
  Abandon();  // The run has ended.
  return result;
}

void BoundGraph::Abandon() {
  paused_.reset();
  if (std::exchange(is_ready_, false)) run_ = executor_->TakeRun();
  EndRun();
}

void BoundGraph::EndRun() {
  run_.on_output = nullptr;
  for (Tensor& input : run_.inputs) input = Tensor();  // The values' owner may write them in place now.
  for (size_t i = 0; i < run_.outputs.size(); ++i) {
    if (outputs_[i].kind != GraphOutput::kValue) run_.outputs[i] = Tensor();
  }
}

}  // namespace gluond
