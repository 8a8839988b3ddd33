// The runs of a model: Predict, Forward and Backward.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/convert.h"
#include "engine/nn/gradients.h"
#include "engine/nn/inputs.h"
#include "engine/nn/model.h"
#include "engine/nn/strand.h"

namespace gluond {
namespace {

constexpr size_t kMaxGraphs = 16;  // For different choices of outputs.

std::string HeadName(size_t output) { return absl::StrCat("__head_", output); }

std::vector<std::string> InputNames(const std::vector<ModelInput>& inputs) {
  std::vector<std::string> names;
  for (const ModelInput& input : inputs) names.push_back(input.name);
  return names;
}

}  // namespace

void Model::Predict(NamedTensors inputs, std::vector<std::string> outputs, CancellationPtr cancellation,
                    OnTensors done) {
  auto work = [self = shared_from_this(), inputs = std::move(inputs), outputs = std::move(outputs),
               cancellation = std::move(cancellation), done = std::move(done)](Finished finished) mutable {
    self->RunForward(std::move(inputs), std::move(outputs), Mode::kPredict, std::move(cancellation), std::move(done),
                     std::move(finished));
  };
  strand_->Enqueue(std::move(work), /*reader=*/true);
}

void Model::Forward(NamedTensors inputs, Mode mode, CancellationPtr cancellation, OnTensors done) {
  Enqueue([self = shared_from_this(), inputs = std::move(inputs), mode, cancellation = std::move(cancellation),
           done = std::move(done)](Finished finished) mutable {
    self->RunForward(std::move(inputs), {}, mode, std::move(cancellation), std::move(done), std::move(finished));
  });
}

void Model::Backward(NamedTensors head_gradients, std::vector<std::string> gradients, CancellationPtr cancellation,
                     OnBackward done) {
  Enqueue([self = shared_from_this(), head_gradients = std::move(head_gradients), gradients = std::move(gradients),
           cancellation = std::move(cancellation), done = std::move(done)](Finished finished) mutable {
    self->RunBackward(std::move(head_gradients), gradients, std::move(cancellation), std::move(done),
                      std::move(finished));
  });
}

absl::StatusOr<std::vector<size_t>> Model::FindOutputs(const std::vector<std::string>& names) const {
  std::vector<size_t> indices;
  std::vector<std::string> known;
  for (const ModelOutput& output : outputs_) known.push_back(output.name);
  if (names.empty()) {
    for (size_t i = 0; i < known.size(); ++i) indices.push_back(i);
  }
  for (const std::string& name : names) {
    size_t i = 0;
    while (i < known.size() && known[i] != name) ++i;
    if (i == known.size()) {
      return absl::NotFoundError(absl::StrCat("there is no output '", Excerpt(name), "'", DidYouMean(name, known),
                                              " Outputs: ", absl::StrJoin(known, ", ")));
    }
    indices.push_back(i);
  }
  return indices;
}

absl::StatusOr<std::vector<Tensor>> Model::PrepareInputs(NamedTensors inputs) {
  ASSIGN_OR_RETURN(std::vector<Tensor> tensors, MatchInputs(definition_.inputs, std::move(inputs)));
  for (size_t i = 0; i < tensors.size(); ++i) {
    ASSIGN_OR_RETURN(tensors[i], ToDevice(*options_.lane, tensors[i], definition_.inputs[i].dtype, *options_.allocator,
                                          *options_.host_allocator));
  }
  return tensors;
}

absl::StatusOr<BoundGraph*> Model::ForwardGraph(Mode mode, const std::vector<size_t>& outputs) {
  const std::string purpose =
      absl::StrCat(mode == Mode::kTrain ? "train" : "predict", ":", absl::StrJoin(outputs, ","));
  if (graphs_.size() > kMaxGraphs && !graphs_.contains(purpose)) graphs_.clear();
  std::unique_ptr<BoundGraph>& graph = graphs_[purpose];
  if (graph != nullptr) return graph.get();
  std::vector<GraphOutput> wanted;
  for (size_t i : outputs) wanted.push_back({definition_.outputs[i]});
  ASSIGN_OR_RETURN(graph, Bind(std::move(wanted), {mode == Mode::kTrain, InputNames(inputs()), options_.max_compiled}));
  return graph.get();
}

// The forward outputs come first although nobody wants them: nodes that draw random numbers are then numbered as in
// the forward graph, and draw the same.
absl::StatusOr<BoundGraph*> Model::BackwardGraph(const std::vector<size_t>& heads) {
  if (graphs_version_ != parameters_.version() || graphs_.size() > kMaxGraphs) graphs_.clear();
  graphs_version_ = parameters_.version();
  std::unique_ptr<BoundGraph>& graph = graphs_[absl::StrCat("backward:", absl::StrJoin(heads, ","))];
  if (graph != nullptr) return graph.get();
  std::vector<NodeEntry> ys, head_entries;
  std::vector<std::string> input_names = InputNames(inputs());
  for (size_t i : heads) {
    ys.push_back(definition_.outputs[i]);
    head_entries.push_back(MakeVariable(HeadName(i)));
    input_names.push_back(HeadName(i));
  }
  if (heads.empty()) {
    ys = definition_.outputs;
    head_entries.resize(ys.size());  // Ones.
  }
  ASSIGN_OR_RETURN(std::vector<GraphOutput> gradients, GradientOutputs(ys, head_entries, parameters_));
  std::vector<GraphOutput> outputs;
  for (const NodeEntry& y : definition_.outputs) outputs.push_back({y, GraphOutput::kUnwanted});
  outputs.insert(outputs.end(), gradients.begin(), gradients.end());
  ASSIGN_OR_RETURN(graph, Bind(std::move(outputs), {true, std::move(input_names), options_.max_compiled}));
  return graph.get();
}

absl::StatusOr<std::shared_ptr<const Model::RememberedForward>> Model::Remember(const std::vector<Tensor>& inputs) {
  auto forward = std::make_shared<RememberedForward>();
  forward->inputs = inputs;
  forward->random = random_;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (!p.auxiliary || !p.initialized()) continue;
    ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(*options_.allocator, p.shape, p.dtype));
    RETURN_IF_ERROR(options_.lane->driver().Copy(copy.data(), p.data.data(), copy.bytes(), options_.lane->stream()));
    forward->auxiliary.emplace_back(i, std::move(copy));
  }
  return forward;
}

void Model::RunForward(NamedTensors inputs, std::vector<std::string> output_names, Mode mode,
                       CancellationPtr cancellation, OnTensors done, Finished finished) {
  const bool train = mode == Mode::kTrain;
  std::vector<size_t> outputs;
  BoundGraph* graph = nullptr;
  BoundGraph::Call call;
  std::shared_ptr<const RememberedForward> remembered;
  const auto prepare = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(outputs, FindOutputs(output_names));
    ASSIGN_OR_RETURN(call.inputs, PrepareInputs(std::move(inputs)));
    ASSIGN_OR_RETURN(graph, ForwardGraph(mode, outputs));
    if (train) {
      forward_.reset();
      RETURN_IF_ERROR(graph->Prepare(call.inputs));  // Running means have their memory now.
      ASSIGN_OR_RETURN(remembered, Remember(call.inputs));
    }
    return absl::OkStatus();
  };
  if (absl::Status status = prepare(); !status.ok()) {
    finished();
    return done(std::move(status));
  }
  call.random = train ? random_ : predict_random_;
  if (!train) ++predict_random_.runs;
  call.cancellation = std::move(cancellation);
  graph->Start(std::move(call), [self = shared_from_this(), graph, outputs = std::move(outputs), remembered, train,
                                 done = std::move(done), finished = std::move(finished)](absl::Status status) {
    absl::StatusOr<NamedTensors> result =
        status.ok() ? self->CollectOutputs(*graph, outputs) : absl::StatusOr<NamedTensors>(status);
    if (train && result.ok()) {
      self->forward_ = remembered;
      ++self->random_.runs;
    }
    finished();
    done(std::move(result));
  });
}

absl::StatusOr<NamedTensors> Model::CollectOutputs(const BoundGraph& graph, const std::vector<size_t>& outputs) {
  NamedTensors tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor value = graph.output(i);
    if (options_.lane->device().type != DeviceType::kCpu) {
      ASSIGN_OR_RETURN(value, HostCopy(*options_.lane, value, *options_.host_allocator));
    }
    tensors.push_back({outputs_[outputs[i]].name, std::move(value)});
  }
  return tensors;
}

// The outputs that have head gradients, and these on the device.
absl::Status Model::PrepareHeads(NamedTensors given, std::vector<size_t>* heads, std::vector<Tensor>* inputs) {
  std::vector<std::string> names;
  for (const NamedTensor& head : given) names.push_back(head.name);
  ASSIGN_OR_RETURN(*heads, FindOutputs(names));
  for (size_t i = 0; i < given.size(); ++i) {
    const Signature& want = outputs_[(*heads)[i]].signature;
    Shape merged = want.shape;
    if (!ShapeAssign(&merged, given[i].tensor.shape())) {
      return absl::InvalidArgumentError(absl::StrCat("the head gradient of '", names[i], "' has shape ",
                                                     given[i].tensor.shape().ToString(), ", expected ",
                                                     want.shape.ToString()));
    }
    const DType dtype = want.dtype == DType::kUnknown ? given[i].tensor.dtype() : want.dtype;
    ASSIGN_OR_RETURN(Tensor head, ToDevice(*options_.lane, given[i].tensor, dtype, *options_.allocator,
                                           *options_.host_allocator));
    inputs->push_back(std::move(head));
  }
  return absl::OkStatus();
}

// Host memory for the gradients of these parameters, which have one.
absl::StatusOr<NamedTensors> Model::MemoryForGradients(const std::vector<std::string>& names) {
  NamedTensors tensors;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const size_t i, parameters_.Find(name));
    const Parameter& p = parameters_[i];
    if (!p.grad.defined()) {
      return absl::FailedPreconditionError(
          absl::StrCat("parameter '", name, "' has no gradient: its grad_req is null, or it has no value yet"));
    }
    ASSIGN_OR_RETURN(Tensor memory, Tensor::Empty(*options_.host_allocator, p.shape, p.dtype));
    tensors.push_back({name, std::move(memory)});
  }
  return tensors;
}

void Model::RunBackward(NamedTensors head_gradients, const std::vector<std::string>& gradients,
                        CancellationPtr cancellation, OnBackward done, Finished finished) {
  std::vector<size_t> heads;
  BoundGraph* graph = nullptr;
  BoundGraph::Call call;
  BackwardReport report;
  // Everything that can fail before a gradient changes.
  const auto prepare = [&]() -> absl::Status {
    if (forward_ == nullptr) {
      return absl::FailedPreconditionError(
          "there is no forward pass to go back from: call Forward in training mode first. A backward pass, and any "
          "change of parameters, uses it up");
    }
    call.inputs = forward_->inputs;
    call.instead = forward_->auxiliary;
    call.random = forward_->random;
    if (!head_gradients.empty()) RETURN_IF_ERROR(PrepareHeads(std::move(head_gradients), &heads, &call.inputs));
    ASSIGN_OR_RETURN(graph, BackwardGraph(heads));
    RETURN_IF_ERROR(graph->Prepare(call.inputs));
    ASSIGN_OR_RETURN(report.gradients, MemoryForGradients(gradients));
    return cancellation == nullptr ? absl::OkStatus() : cancellation->Check();
  };
  if (absl::Status status = prepare(); !status.ok()) {
    finished();
    return done(std::move(status));
  }
  call.cancellation = std::move(cancellation);
  graph->Start(std::move(call), [self = shared_from_this(), graph, report = std::move(report), done = std::move(done),
                                 finished = std::move(finished)](absl::Status status) mutable {
    bool adds = false;
    for (size_t parameter : graph->gradients()) {
      const Parameter& p = self->parameters_[parameter];
      // What a run that was cut short has written is neither the last pass's gradient nor this one's.
      self->fresh_[parameter] = status.ok();
      report.written.push_back(p.name);
      adds = adds || p.grad_req == GradReq::kAdd;
    }
    // A backward pass that failed can be tried again. One that may have added to some gradients can not: it would add
    // to them twice.
    if (status.ok() || adds) self->forward_.reset();
    for (size_t i = 0; i < report.gradients.size() && status.ok(); ++i) {
      const auto& [name, values] = report.gradients[i];
      status = CopyToHost(*self->options_.lane, self->parameters_[*self->parameters_.Find(name)].grad, values);
    }
    finished();
    status.ok() ? done(std::move(report)) : done(std::move(status));
  });
}

}  // namespace gluond
