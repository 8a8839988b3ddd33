#include "engine/nn/bound_graph.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/passes/constants.h"
#include "engine/passes/infer.h"
#include "engine/passes/validate.h"
#include "engine/runtime/await_fact.h"

namespace gluond {
BoundGraph::BoundGraph(std::vector<GraphOutput> outputs, BoundGraphOptions options, ParameterMemory& memory,
                       std::function<absl::Status()> initialize, ExecutorCache& cache, Lane& lane)
    : outputs_(std::move(outputs)),
      options_(std::move(options)),
      memory_(memory),
      parameters_(memory.store()),
      initialize_(std::move(initialize)),
      cache_(cache),
      lane_(lane) {
  auto graph = std::make_shared<Graph>();
  for (const GraphOutput& output : outputs_) {
    graph->outputs.push_back(output.entry);
    if (output.kind == GraphOutput::kGradient) gradients_.push_back(output.parameter);
  }
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
  if (!incomplete) {
    RETURN_IF_ERROR(initialize_());
    return known;
  }
  const IndexedGraph indexed(*graph_);
  ASSIGN_OR_RETURN(const Inferred inferred, InferShapeType(indexed, known));
  for (uint32_t id : indexed.variables()) {
    const absl::StatusOr<size_t> parameter = parameters_.Find(indexed[id].node->name());
    if (!parameter.ok()) continue;  // An input.
    const Shape& shape = inferred.shapes[indexed[id].first_entry];
    RETURN_IF_ERROR(memory_.mutable_store().MergeShape(*parameter, shape));
    known[indexed[id].node->name()].shape = shape;
  }
  RETURN_IF_ERROR(initialize_());
  return known;
}

absl::Status BoundGraph::FindSources(const Executor& executor, std::vector<Compiled::Source>* sources) const {
  std::vector<std::string> uninitialized;
  for (const Executor::Variable& variable : executor.inputs()) {
    const auto it = std::find(options_.inputs.begin(), options_.inputs.end(), variable.name);
    if (it != options_.inputs.end()) {
      sources->push_back({false, static_cast<size_t>(it - options_.inputs.begin())});
      continue;
    }
    ASSIGN_OR_RETURN(const size_t parameter, parameters_.Find(variable.name));
    sources->push_back({true, parameter});
    if (!parameters_[parameter].initialized) uninitialized.push_back(variable.name);
  }
  if (uninitialized.empty()) return absl::OkStatus();
  if (uninitialized.size() > 8) uninitialized.resize(8), uninitialized.push_back("...");
  return absl::FailedPreconditionError(absl::StrCat("parameters are not initialized: ", absl::StrJoin(uninitialized, ", "),
                                                    ". Initialize the model, or upload their values"));
}

absl::StatusOr<Tensor> BoundGraph::Draft(size_t parameter, ParameterMemory::Part part) {
  drafts_.emplace_back(parameter, part);
  return memory_.Draft(parameter, part);
}

absl::Status BoundGraph::FillRun(Request* request) {
  const std::vector<Compiled::Source>& sources = current_->sources;
  drafts_.clear();
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto [is_parameter, index] = sources[i];
    if (!is_parameter) {
      run_.inputs[i] = request->inputs[index];
      continue;
    }
    for (const auto& [parameter, tensor] : request->instead)
      if (parameter == index) run_.inputs[i] = tensor;
    if (run_.inputs[i].defined()) continue;
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
  run_.constants = options_.is_train ? nullptr : memory_.Constants();
  return absl::OkStatus();
}

Task<absl::Status> BoundGraph::Prepare(std::vector<Tensor> inputs, std::shared_ptr<Cancellation> cancellation) {
  if (options_.is_train) memory_.ForgetConstants();
  const Compiled* const known = compiled_.Find(inputs);
  // An executor that is not idle was cancelled in an operator that has not returned: it cannot be reused.
  if (known != current_ || (executor_ && !executor_->idle())) executor_ = {}, run_ = {};
  current_ = known;
  if (known != nullptr && !executor_) executor_ = cache_.TakeIdle(known->key);
  if (executor_) co_return absl::OkStatus();
  Compiled compiled;
  if (known != nullptr) {
    compiled.key = known->key;
  } else {
    absl::StatusOr<Signatures> signatures;
    while (true) {
      co_await RunAside(lane_);  // Inferring shapes and making first values takes long.
      signatures = CompleteSignatures(inputs);
      co_await BackOn(lane_);
      if (signatures.ok()) break;
      CO_RETURN_IF_ERROR(co_await Answer(signatures.status(), lane_, cancellation));
    }
    compiled.key = ExecutorKey::Make(graph_, *std::move(signatures), {.is_train = options_.is_train, .constants = constants_});
  }
  CO_ASSIGN_OR_RETURN(ExecutorLease lease, co_await CheckOut(compiled.key, cancellation));
  if (known == nullptr) {
    CO_RETURN_IF_ERROR(FindSources(*lease, &compiled.sources));
    current_ = &compiled_.Insert(inputs, std::move(compiled));
  }
  executor_ = std::move(lease);
  co_return absl::OkStatus();
}

// Values that follow from constants take memory. Where there is none, a program without them predicts the same, up to rounding.
Task<absl::Status> BoundGraph::Run(Request request) {
  if (options_.is_train) co_return co_await RunOnce(std::move(request));
  const absl::Status status = co_await RunOnce(request);
  Compiled* const with = absl::IsResourceExhausted(status) ? compiled_.Find(request.inputs) : nullptr;
  if (with == nullptr || with->key->options.constants == nullptr) co_return status;
  Compiled without = {ExecutorKey::Make(graph_, with->key->known, {}), {}};
  executor_ = {}, run_ = {};
  CO_ASSIGN_OR_RETURN(executor_, co_await CheckOut(without.key, request.cancellation));
  CO_RETURN_IF_ERROR(FindSources(*executor_, &without.sources));
  *with = std::move(without);
  current_ = with;
  co_return co_await RunOnce(std::move(request));
}

Callback<absl::StatusOr<ExecutorLease>> BoundGraph::CheckOut(const ExecutorKeyPtr& key,
                                                             const std::shared_ptr<Cancellation>& cancellation) {
  return Callback<absl::StatusOr<ExecutorLease>>(
      [=, this](ExecutorCache::Ready ready) { cache_.Checkout(key, std::move(ready), cancellation); });
}

Task<absl::Status> BoundGraph::RunOnce(Request request) {
  CO_RETURN_IF_ERROR(co_await Prepare(request.inputs, request.cancellation));
  if (run_.outputs.size() != outputs_.size()) run_ = executor_->NewRun();
  absl::Status status = FillRun(&request);
  if (status.ok()) {
    // A run that fails leaves gradients behind that belong to no pass.
    for (const size_t i : gradients_)
      if (parameters_[i].grad_req == GradReq::kWrite) memory_.set_fresh(i, false);
    status = co_await Callback<absl::Status>([&](Executor::Done done) { executor_->StartHere(std::move(run_), std::move(done)); });
    run_ = executor_->TakeRun();
    if (!executor_->idle()) executor_ = {};  // A client's late answer keeps it: it holds the parameters until then.
  }
  for (Tensor& input : run_.inputs) input = Tensor();  // The values' owner may write them in place now.
  for (size_t i = 0; i < run_.outputs.size(); ++i) {
    if (outputs_[i].kind == GraphOutput::kGradient) run_.outputs[i] = Tensor();
  }
  co_return status;
}

}  // namespace gluond
