#include "engine/nn/model_runs.h"

#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/gradients.h"
#include "engine/nn/graph_table.h"
#include "engine/nn/inputs.h"
#include "engine/runtime/sparing_memory.h"
#include "engine/runtime/transfer.h"

namespace gluond {
namespace {

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
                                          " (outputs: ", absl::StrJoin(known, ", "), ")"));
}

}  // namespace

ModelRuns::ModelRuns(const ModelDefinition& definition, const std::vector<ModelOutput>& outputs, const ModelOptions& options,
                     ParameterMemory& parameters, SparingMemory& allocator)
    : definition_(definition),
      outputs_(outputs),
      options_(options),
      memory_(parameters),
      parameters_(parameters.store()),
      random_{options.seed, 0},
      predict_random_{~options.seed, 0},
      allocator_(allocator),
      cache_(*options.lane, *options.allocator, static_cast<size_t>(options.max_compiled)),
      graphs_(std::make_unique<GraphTable<BoundGraph>>(std::max<size_t>(1, static_cast<size_t>(options.max_compiled)), parameters_,
                                                       *options.lane)) {
  allocator_.Spare(&cache_);
}

ModelRuns::~ModelRuns() { allocator_.Spare(nullptr); }

absl::StatusOr<std::unique_ptr<BoundGraph>> ModelRuns::Bind(std::vector<GraphOutput> outputs, BoundGraphOptions options) {
  return BoundGraph::Create(
      std::move(outputs), std::move(options), memory_, [this] { return memory_.InitializeDeferred(random_.seed); }, cache_,
      *options_.lane);
}

absl::StatusOr<std::vector<size_t>> ModelRuns::FindOutputs(const std::vector<std::string>& names) const {
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

absl::StatusOr<Tensor> ModelRuns::ToDevice(const Tensor& value, DType dtype) const {
  ASSIGN_OR_RETURN(Tensor converted, AsType(value, dtype, *options_.host_allocator));
  if (options_.lane->device().type == DeviceType::kCpu) return converted;
  return CopyTo(converted, options_.lane->lanes(), *options_.allocator);
}

absl::StatusOr<std::vector<Tensor>> ModelRuns::PrepareInputs(NamedTensors inputs) const {
  ASSIGN_OR_RETURN(std::vector<Tensor> tensors, MatchInputs(definition_.inputs, std::move(inputs)));
  for (size_t i = 0; i < tensors.size(); ++i) {
    ASSIGN_OR_RETURN(tensors[i], ToDevice(tensors[i], definition_.inputs[i].dtype));
  }
  return tensors;
}

absl::StatusOr<std::unique_ptr<BoundGraph>> ModelRuns::ForwardGraph(Mode mode, const std::vector<size_t>& outputs) {
  std::vector<GraphOutput> wanted;
  for (size_t i : outputs) wanted.push_back({definition_.outputs[i]});
  return Bind(std::move(wanted), {mode == Mode::kTrain, InputNames(definition_.inputs)});
}

// The forward outputs come first although they are unwanted: nodes that draw random numbers then have the same numbers
// as in the forward graph, and draw the same values.
absl::StatusOr<std::unique_ptr<BoundGraph>> ModelRuns::BackwardGraph(const std::vector<size_t>& heads) {
  std::vector<NodeEntry> ys, head_entries;
  std::vector<std::string> input_names = InputNames(definition_.inputs);
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
  return Bind(std::move(outputs), {true, std::move(input_names)});
}

std::shared_ptr<const ModelRuns::RememberedForward> ModelRuns::Remember(const std::vector<Tensor>& inputs) const {
  auto forward = std::make_shared<RememberedForward>();
  forward->inputs = inputs;
  forward->random = random_;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const LiveParameter& p = parameters_[i];
    if (p.auxiliary && p.initialized) forward->auxiliary.emplace_back(i, p.data);
  }
  return forward;
}

Task<absl::StatusOr<NamedTensors>> ModelRuns::Forward(NamedTensors inputs, std::vector<std::string> output_names, Mode mode,
                                                      CancellationPtr cancellation) {
  CO_ASSIGN_OR_RETURN(const std::vector<size_t> outputs, FindOutputs(output_names));
  BoundGraph::Request request;
  CO_ASSIGN_OR_RETURN(request.inputs, PrepareInputs(std::move(inputs)));
  const std::string purpose = absl::StrCat(mode == Mode::kTrain ? "train" : "predict", ":", absl::StrJoin(outputs, ","));
  const auto make = [&] { return ForwardGraph(mode, outputs); };
  CO_ASSIGN_OR_RETURN(const std::shared_ptr<BoundGraph> graph, co_await graphs_->Find(purpose, make, cancellation));
  request.cancellation = cancellation;
  request.client_time = std::make_shared<ClientTime>();
  std::shared_ptr<const RememberedForward> remembered;
  if (mode == Mode::kTrain) {
    CO_RETURN_IF_ERROR(co_await graph->Prepare(request.inputs, cancellation));  // Running means have their memory then.
    remembered = Remember(request.inputs);
    request.random = random_;
  } else {
    request.random = predict_random_;
    ++predict_random_.runs;
  }
  client_time_ = request.client_time;
  CO_RETURN_IF_ERROR(co_await graph->Run(std::move(request)));
  CO_ASSIGN_OR_RETURN(NamedTensors results, CollectOutputs(*graph, outputs));
  if (remembered != nullptr) {
    graph->Swap();
    forward_ = std::move(remembered);
    ++random_.runs;
  }
  co_return results;
}

absl::StatusOr<NamedTensors> ModelRuns::CollectOutputs(const BoundGraph& graph, const std::vector<size_t>& outputs) const {
  NamedTensors tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor value = graph.output(i);
    if (options_.lane->device().type != DeviceType::kCpu) {
      ASSIGN_OR_RETURN(value, CopyTo(value, options_.lane->lanes(), *options_.host_allocator));
    }
    tensors.push_back({outputs_[outputs[i]].name, std::move(value)});
  }
  return tensors;
}

absl::Status ModelRuns::PrepareHeads(const NamedTensors& given, std::vector<size_t>* heads, std::vector<Tensor>* inputs) const {
  std::vector<std::string> names;
  for (const NamedTensor& head : given) names.push_back(head.name);
  ASSIGN_OR_RETURN(*heads, FindOutputs(names));
  for (size_t i = 0; i < given.size(); ++i) {
    const Signature& want = outputs_[(*heads)[i]].signature;
    Shape merged = want.shape;
    if (!ShapeAssign(&merged, given[i].tensor.shape())) {
      return absl::InvalidArgumentError(absl::StrCat("the head gradient of '", names[i], "' has shape ",
                                                     given[i].tensor.shape().ToString(), ", expected ", want.shape.ToString()));
    }
    const DType dtype = want.dtype == DType::kUnknown ? given[i].tensor.dtype() : want.dtype;
    ASSIGN_OR_RETURN(Tensor head, ToDevice(given[i].tensor, dtype));
    inputs->push_back(std::move(head));
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> ModelRuns::MemoryForGradients(const std::vector<std::string>& names) const {
  NamedTensors tensors;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const size_t i, parameters_.Find(name));
    const LiveParameter& p = parameters_[i];
    if (!p.grad.defined()) {
      return absl::FailedPreconditionError(
          absl::StrCat("parameter '", name, "' has no gradient: its grad_req is null, or it has no value yet"));
    }
    ASSIGN_OR_RETURN(Tensor memory, Tensor::Empty(*options_.host_allocator, p.shape, p.dtype));
    tensors.push_back({name, std::move(memory)});
  }
  return tensors;
}

Task<absl::StatusOr<BackwardReport>> ModelRuns::Backward(NamedTensors head_gradients, std::vector<std::string> gradients,
                                                         CancellationPtr cancellation) {
  if (forward_ == nullptr) {
    co_return absl::FailedPreconditionError(
        "there is no forward pass to go back from: call Forward in training mode first. A backward pass, and any "
        "change of parameters, uses it up");
  }
  std::vector<size_t> heads;
  BoundGraph::Request request;
  request.inputs = forward_->inputs;
  request.random = forward_->random;
  request.cancellation = cancellation;
  request.client_time = std::make_shared<ClientTime>();
  // A pass that fails leaves the remembered states as they are for the next try.
  for (const auto& [parameter, tensor] : forward_->auxiliary) {
    Tensor copy = tensor;
    CO_RETURN_IF_ERROR(Own(&copy, options_.lane->lanes(), *options_.allocator));
    request.instead.emplace_back(parameter, std::move(copy));
  }
  if (!head_gradients.empty()) CO_RETURN_IF_ERROR(PrepareHeads(head_gradients, &heads, &request.inputs));
  const std::string purpose = absl::StrCat("backward:", absl::StrJoin(heads, ","));
  const auto make = [&] { return BackwardGraph(heads); };
  CO_ASSIGN_OR_RETURN(const std::shared_ptr<BoundGraph> graph, co_await graphs_->Find(purpose, make, cancellation));
  CO_RETURN_IF_ERROR(co_await graph->Prepare(request.inputs, cancellation));
  BackwardReport report;
  CO_ASSIGN_OR_RETURN(report.gradients, MemoryForGradients(gradients));
  if (cancellation != nullptr) CO_RETURN_IF_ERROR(cancellation->Check());
  client_time_ = request.client_time;
  CO_RETURN_IF_ERROR(co_await graph->Run(request));
  graph->Swap();
  if (absl::Status status = CopyGradients(report.gradients); !status.ok()) {
    graph->Swap();
    co_return status;
  }
  // The pass has computed the states as Forward did; a client's own gradient may then have changed them.
  for (const auto& [parameter, tensor] : request.instead) memory_.mutable_store().data(parameter) = tensor;
  for (const size_t parameter : graph->gradients()) {
    memory_.set_fresh(parameter, true);
    report.written.push_back(parameters_[parameter].name);
  }
  ForgetForward();
  co_return report;
}

absl::Status ModelRuns::CopyGradients(const NamedTensors& to) const {
  for (const auto& [name, values] : to) {
    RETURN_IF_ERROR(Copy(parameters_[*parameters_.Find(name)].grad.blob(), values.blob(), options_.lane->lanes()));
  }
  return absl::OkStatus();
}

}  // namespace gluond
