#include "engine/nn/bound_graph.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/passes/infer.h"
#include "engine/passes/validate.h"
#include "engine/runtime/await_fact.h"

namespace gluond {

struct BoundGraph::Compiled {
  std::vector<Signature> inputs;
  std::unique_ptr<Executor> executor;
  // By executor input: which of Call::inputs, or which parameter.
  struct Source {
    bool is_parameter;
    size_t index;
  };
  std::vector<Source> sources;
  bool ran = false;

  bool Fits(absl::Span<const Tensor> tensors) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (inputs[i].dtype != tensors[i].dtype() || inputs[i].shape != tensors[i].shape()) return false;
    }
    return true;
  }
};

BoundGraph::BoundGraph(std::vector<GraphOutput> outputs, BoundGraphOptions options, ParameterStore& parameters,
                       std::function<absl::Status()> initialize, Lane& lane, Allocator& allocator)
    : outputs_(std::move(outputs)), options_(std::move(options)), parameters_(parameters),
      initialize_(std::move(initialize)), lane_(lane), allocator_(allocator) {
  for (const GraphOutput& output : outputs_) {
    graph_.outputs.push_back(output.entry);
    if (output.kind == GraphOutput::kGradient) gradients_.push_back(output.parameter);
  }
}

BoundGraph::~BoundGraph() = default;

absl::StatusOr<std::unique_ptr<BoundGraph>> BoundGraph::Create(std::vector<GraphOutput> outputs,
                                                               BoundGraphOptions options, ParameterStore& parameters,
                                                               std::function<absl::Status()> initialize, Lane& lane,
                                                               Allocator& allocator) {
  std::unique_ptr<BoundGraph> graph(new BoundGraph(std::move(outputs), std::move(options), parameters,
                                                   std::move(initialize), lane, allocator));
  RETURN_IF_ERROR(CheckKernels(graph->graph_, lane.device().type));
  return graph;
}

// What the executor is compiled for. Shapes of parameters that the batch tells are stored, and these initialized.
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
  if (!incomplete) return known;
  const IndexedGraph indexed(graph_);
  ASSIGN_OR_RETURN(const Inferred inferred, InferShapeType(indexed, known));
  for (uint32_t id : indexed.variables()) {
    const absl::StatusOr<size_t> parameter = parameters_.Find(indexed[id].node->name());
    if (!parameter.ok()) continue;  // An input.
    const Shape& shape = inferred.shapes[indexed[id].first_entry];
    RETURN_IF_ERROR(parameters_.MergeShape(*parameter, shape));
    known[indexed[id].node->name()].shape = shape;
  }
  return known;
}

absl::StatusOr<std::unique_ptr<BoundGraph::Compiled>> BoundGraph::Compile(absl::Span<const Tensor> inputs) {
  ASSIGN_OR_RETURN(const Signatures signatures, CompleteSignatures(inputs));
  RETURN_IF_ERROR(initialize_());
  auto compiled = std::make_unique<Compiled>();
  for (const Tensor& input : inputs) compiled->inputs.push_back({input.shape(), input.dtype()});
  ASSIGN_OR_RETURN(compiled->executor,
                   Executor::Compile(graph_, signatures, {.is_train = options_.is_train}, lane_, allocator_));
  std::vector<std::string> uninitialized;
  for (const Executor::Variable& variable : compiled->executor->inputs()) {
    const auto it = std::find(options_.inputs.begin(), options_.inputs.end(), variable.name);
    if (it != options_.inputs.end()) {
      compiled->sources.push_back({false, static_cast<size_t>(it - options_.inputs.begin())});
      continue;
    }
    ASSIGN_OR_RETURN(const size_t parameter, parameters_.Find(variable.name));
    compiled->sources.push_back({true, parameter});
    if (!parameters_[parameter].initialized()) uninitialized.push_back(variable.name);
  }
  if (!uninitialized.empty()) {
    if (uninitialized.size() > 8) uninitialized.resize(8), uninitialized.push_back("...");
    return absl::FailedPreconditionError(absl::StrCat("parameters are not initialized: ",
                                                      absl::StrJoin(uninitialized, ", "),
                                                      ". Initialize the model, or upload their values"));
  }
  return compiled;
}

absl::StatusOr<BoundGraph::Compiled*> BoundGraph::Find(absl::Span<const Tensor> inputs) {
  for (size_t i = compiled_.size(); i-- > 0;) {
    // One that is not idle was cancelled in an operator that has not come back: it is no use, and goes with the others.
    if (!compiled_[i]->Fits(inputs) || !compiled_[i]->executor->idle()) continue;
    std::rotate(compiled_.begin() + static_cast<ptrdiff_t>(i), compiled_.begin() + static_cast<ptrdiff_t>(i) + 1,
                compiled_.end());
    return compiled_.back().get();
  }
  if (static_cast<int>(compiled_.size()) >= options_.max_compiled) compiled_.erase(compiled_.begin());
  absl::StatusOr<std::unique_ptr<Compiled>> made = Compile(inputs);
  if (absl::IsResourceExhausted(made.status()) && !compiled_.empty()) {
    compiled_.clear();  // Their arenas are idle.
    made = Compile(inputs);
  }
  RETURN_IF_ERROR(made.status());
  compiled_.push_back(*std::move(made));
  return compiled_.back().get();
}

void BoundGraph::FillRun(const Compiled& compiled, Call* call, Run* run) const {
  for (size_t i = 0; i < compiled.sources.size(); ++i) {
    const Compiled::Source& source = compiled.sources[i];
    run->inputs[i] = source.is_parameter ? parameters_[source.index].data : call->inputs[source.index];
    if (!source.is_parameter) continue;
    for (const auto& [parameter, tensor] : call->instead) if (parameter == source.index) run->inputs[i] = tensor;
  }
  run->output_reqs.assign(outputs_.size(), kWriteTo);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const GraphOutput& output = outputs_[i];
    run->outputs[i] = Tensor();  // Whoever has the last run's values keeps them.
    if (output.kind == GraphOutput::kUnwanted) run->output_reqs[i] = kNullOp;
    if (output.kind != GraphOutput::kGradient) continue;
    const Parameter& parameter = parameters_[output.parameter];
    run->outputs[i] = parameter.grad;
    if (parameter.grad_req == GradReq::kAdd) run->output_reqs[i] = kAddTo;
  }
  run->seed = call->random.seed;
  run->random_run = call->random.runs;
  run->cancellation = std::move(call->cancellation);
  run->client_time = std::move(call->client_time);
}

void BoundGraph::Prepare(std::vector<Tensor> inputs, std::shared_ptr<Cancellation> cancellation,
                         std::function<void(absl::Status)> ready) {
  const absl::Status status = Find(inputs).status();
  if (status.ok()) return ready(status);
  const auto again = [this, inputs = std::move(inputs), cancellation, ready](const absl::Status& answered) {
    answered.ok() ? Prepare(inputs, cancellation, ready) : ready(answered);
  };
  if (!AwaitFactOnLane(status, lane_, cancellation, again)) ready(status);
}

void BoundGraph::Start(Call call, std::function<void(absl::Status)> done) {
  const absl::StatusOr<Compiled*> found = Find(call.inputs);
  if (found.ok()) return StartNow(**found, std::move(call), std::move(done));
  const auto again = [this, call, done](const absl::Status& answered) {
    answered.ok() ? Start(call, done) : done(answered);
  };
  if (!AwaitFactOnLane(found.status(), lane_, call.cancellation, again)) done(found.status());
}

void BoundGraph::StartNow(Compiled& compiled, Call call, std::function<void(absl::Status)> done) {
  Run run = compiled.ran ? compiled.executor->TakeRun() : compiled.executor->NewRun();
  compiled.ran = true;
  FillRun(compiled, &call, &run);
  compiled.executor->StartHere(std::move(run), std::move(done));
}

const Tensor& BoundGraph::output(size_t i) const { return compiled_.back()->executor->run().outputs[i]; }

int64_t BoundGraph::arena_bytes() const { return compiled_.empty() ? 0 : compiled_.back()->executor->arena_bytes(); }
int64_t BoundGraph::unshared_bytes() const {
  return compiled_.empty() ? 0 : compiled_.back()->executor->unshared_bytes();
}

}  // namespace gluond
