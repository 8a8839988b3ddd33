// The runs of a model: Predict, Forward and Backward.

#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
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

absl::Status NoSuchOutput(absl::string_view name, const std::vector<ModelOutput>& outputs) {
  std::vector<std::string> known;
  for (const ModelOutput& output : outputs) known.push_back(output.name);
  return absl::NotFoundError(absl::StrCat("there is no output '", Excerpt(name), "'", DidYouMean(name, known),
                                          " Outputs: ", absl::StrJoin(known, ", ")));
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
    self->RunBackward(std::move(head_gradients), std::move(gradients), std::move(cancellation), std::move(done),
                      std::move(finished));
  });
}

absl::StatusOr<std::vector<size_t>> Model::FindOutputs(const std::vector<std::string>& names) const {
  std::vector<size_t> indices;
  if (names.empty()) {
    indices.resize(outputs_.size());
    std::iota(indices.begin(), indices.end(), size_t{0});
    return indices;
  }
  absl::flat_hash_map<absl::string_view, size_t> places;
  for (size_t i = 0; i < outputs_.size(); ++i) places.try_emplace(outputs_[i].name, i);
  for (const std::string& name : names) {
    const auto place = places.find(name);
    if (place == places.end()) return NoSuchOutput(name, outputs_);
    indices.push_back(place->second);
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
    ASSIGN_OR_RETURN(Tensor copy, Copied(p.data));
    forward->auxiliary.emplace_back(i, std::move(copy));
  }
  return forward;
}

absl::StatusOr<Tensor> Model::Copied(const Tensor& tensor) const {
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(*options_.allocator, tensor.shape(), tensor.dtype()));
  RETURN_IF_ERROR(options_.lane->driver().Copy(copy.data(), tensor.data(), copy.bytes(), options_.lane->stream()));
  return copy;
}

void Model::RunForward(NamedTensors inputs, std::vector<std::string> output_names, Mode mode,
                       CancellationPtr cancellation, OnTensors done, Finished finished) {
  ForwardPass pass;
  const auto prepare = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(pass.outputs, FindOutputs(output_names));
    ASSIGN_OR_RETURN(pass.call.inputs, PrepareInputs(std::move(inputs)));
    ASSIGN_OR_RETURN(pass.graph, ForwardGraph(mode, pass.outputs));
    return absl::OkStatus();
  };
  if (absl::Status status = prepare(); !status.ok()) {
    finished();
    return done(std::move(status));
  }
  pass.call.cancellation = std::move(cancellation);
  pass.call.client_time = std::make_shared<ClientTime>();
  pass.done = std::move(done);
  pass.finished = std::move(finished);
  if (mode == Mode::kPredict) {
    pass.call.random = predict_random_;
    ++predict_random_.runs;
    return StartForward(std::move(pass));
  }
  forward_.reset();
  BoundGraph* const graph = pass.graph;
  const std::vector<Tensor> batch = pass.call.inputs;
  graph->Prepare(batch, pass.call.cancellation, [self = shared_from_this(), pass](absl::Status status) mutable {
    if (status.ok()) {  // Running means have their memory now.
      absl::StatusOr<std::shared_ptr<const RememberedForward>> remembered = self->Remember(pass.call.inputs);
      status = remembered.status();
      if (status.ok()) pass.remembered = *std::move(remembered);
    }
    if (!status.ok()) {
      pass.finished();
      return pass.done(std::move(status));
    }
    pass.call.random = self->random_;
    self->StartForward(std::move(pass));
  });
}

void Model::StartForward(ForwardPass pass) {
  BoundGraph* const graph = pass.graph;
  BoundGraph::Call call = std::move(pass.call);
  client_time_ = call.client_time;
  graph->Start(std::move(call), [self = shared_from_this(), pass = std::move(pass)](absl::Status status) {
    absl::StatusOr<NamedTensors> result =
        status.ok() ? self->CollectOutputs(*pass.graph, pass.outputs) : absl::StatusOr<NamedTensors>(status);
    if (pass.remembered != nullptr && result.ok()) {
      self->forward_ = pass.remembered;
      ++self->random_.runs;
    }
    pass.finished();
    pass.done(std::move(result));
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

void Model::RunBackward(NamedTensors head_gradients, std::vector<std::string> gradients, CancellationPtr cancellation,
                        OnBackward done, Finished finished) {
  std::vector<size_t> heads;
  BackwardPass pass;
  const auto prepare = [&]() -> absl::Status {
    if (forward_ == nullptr) {
      return absl::FailedPreconditionError(
          "there is no forward pass to go back from: call Forward in training mode first. A backward pass, and any "
          "change of parameters, uses it up");
    }
    pass.call.inputs = forward_->inputs;
    pass.call.random = forward_->random;
    // A pass that fails leaves them as they are for the next try.
    for (const auto& [parameter, tensor] : forward_->auxiliary) {
      ASSIGN_OR_RETURN(Tensor copy, Copied(tensor));
      pass.call.instead.emplace_back(parameter, std::move(copy));
    }
    if (!head_gradients.empty()) RETURN_IF_ERROR(PrepareHeads(std::move(head_gradients), &heads, &pass.call.inputs));
    ASSIGN_OR_RETURN(pass.graph, BackwardGraph(heads));
    return absl::OkStatus();
  };
  if (absl::Status status = prepare(); !status.ok()) {
    finished();
    return done(std::move(status));
  }
  pass.call.cancellation = std::move(cancellation);
  pass.call.client_time = std::make_shared<ClientTime>();
  pass.done = std::move(done);
  pass.finished = std::move(finished);
  BoundGraph* const graph = pass.graph;
  const std::vector<Tensor> inputs = pass.call.inputs;
  graph->Prepare(inputs, pass.call.cancellation, [self = shared_from_this(), pass, gradients](absl::Status status) mutable {
    // Everything that can fail before a gradient changes.
    absl::StatusOr<NamedTensors> memory = NamedTensors();
    if (status.ok()) status = (memory = self->MemoryForGradients(gradients)).status();
    if (status.ok() && pass.call.cancellation != nullptr) status = pass.call.cancellation->Check();
    if (!status.ok()) {
      pass.finished();
      return pass.done(std::move(status));
    }
    pass.report.gradients = *std::move(memory);
    self->StartBackward(std::move(pass));
  });
}

void Model::StartBackward(BackwardPass pass) {
  BoundGraph* const graph = pass.graph;
  BoundGraph::Call call = pass.call;
  client_time_ = call.client_time;
  graph->Start(std::move(call), [self = shared_from_this(), pass = std::move(pass)](absl::Status status) mutable {
    bool adds = false;
    for (size_t parameter : pass.graph->gradients()) {
      const Parameter& p = self->parameters_[parameter];
      // What a run that was cut short has written is neither the last pass's gradient nor this one's.
      self->fresh_[parameter] = status.ok();
      pass.report.written.push_back(p.name);
      adds = adds || p.grad_req == GradReq::kAdd;
    }
    // A backward pass that failed can be tried again. One that may have added to some gradients can not: it would add
    // to them twice.
    if (status.ok() || adds) self->forward_.reset();
    if (status.ok()) status = self->EndBackward(pass);
    pass.finished();
    status.ok() ? pass.done(std::move(pass.report)) : pass.done(std::move(status));
  });
}

absl::Status Model::EndBackward(BackwardPass& pass) {
  Lane& lane = *options_.lane;
  // The states as this pass leaves them: computed as by Forward, and then perhaps changed by a client's own gradient.
  for (const auto& [parameter, tensor] : pass.call.instead) {
    void* const to = parameters_[parameter].data.data();
    RETURN_IF_ERROR(lane.driver().Copy(to, tensor.data(), tensor.bytes(), lane.stream()));
  }
  for (const auto& [name, values] : pass.report.gradients) {
    RETURN_IF_ERROR(CopyToHost(lane, parameters_[*parameters_.Find(name)].grad, values));
  }
  return absl::OkStatus();
}

}  // namespace gluond
