#include "engine/nn/model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/infer.h"
#include "engine/passes/validate.h"
#include "engine/runtime/posted.h"
#include "engine/runtime/sparing_memory.h"
#include "engine/runtime/transfer.h"

namespace gluond {
namespace {

// More bytes are copied beside the lane.
constexpr size_t kLargeCopy = 1 << 20;

// On a CPU the host's memory is the device's, too.
ModelOptions WithAllocator(ModelOptions options, const std::shared_ptr<Allocator>& allocator) {
  if (options.host_allocator == options.allocator) options.host_allocator = allocator;
  options.allocator = allocator;
  return options;
}

}  // namespace

Model::Model(ModelDefinition definition, const ModelOptions& options)
    : definition_(std::move(definition)),
      memory_of_device_(std::make_shared<SparingMemory>(options.allocator)),
      options_(WithAllocator(options, memory_of_device_)),
      memory_(*options_.lane, options_.allocator, options_.host_allocator, memory_of_device_->constants()),
      runs_(definition_, outputs_, options_, memory_, *memory_of_device_),
      strand_(*options.lane) {}

absl::StatusOr<std::shared_ptr<Model>> Model::Create(ModelDefinition definition, const ModelOptions& options) {
  {
    const NodeOrder order(Graph{definition.outputs});
    RETURN_IF_ERROR(Validate(order));
    RETURN_IF_ERROR(CheckKernels(order, options.lane->device().type));
  }
  std::shared_ptr<Model> model(new Model(std::move(definition), options));
  for (const Parameter& parameter : model->definition_.parameters) {
    RETURN_IF_ERROR(model->memory_.Add(parameter));
  }
  RETURN_IF_ERROR(model->CheckInputsAreOnlyRead());
  RETURN_IF_ERROR(model->InferAtDefinition());
  return model;
}

// An input's memory belongs to the caller, so no operator may write it.
absl::Status Model::CheckInputsAreOnlyRead() const {
  const absl::flat_hash_set<std::string> mutated = MutatedVariables(PostOrder(definition_.outputs));
  for (const ModelInput& input : definition_.inputs) {
    if (!mutated.contains(input.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("the input '", Excerpt(input.name),
                                                   "' is written by an operator (a "
                                                   "running mean, for example); make it a parameter"));
  }
  return absl::OkStatus();
}

// Unknown batch sizes stay unknown; all shapes that follow from the rest are stored.
absl::Status Model::InferAtDefinition() {
  const IndexedGraph graph(Graph{definition_.outputs});
  Signatures known;
  for (const Parameter& p : definition_.parameters) known[p.name] = {p.shape, p.dtype};
  for (const ModelInput& input : definition_.inputs) {
    if (!known.try_emplace(input.name, Signature{input.shape, input.dtype}).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", Excerpt(input.name), "' names an input and a parameter"));
    }
  }
  for (uint32_t id : graph.variables()) {
    const std::string& name = graph[id].node->name();
    if (known.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("variable '", Excerpt(name), "' is neither an input nor a parameter"));
  }
  const absl::StatusOr<Inferred> inferred = InferPartially(graph, known);
  if (options_.clients_are_away && absl::IsUnavailable(inferred.status())) {
    for (const std::string& name : definition_.output_names) outputs_.push_back({name, {}});
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(inferred.status());
  for (uint32_t id : graph.variables()) {
    const absl::StatusOr<size_t> parameter = parameters().Find(graph[id].node->name());
    if (!parameter.ok()) continue;
    RETURN_IF_ERROR(memory_.mutable_store().MergeShape(*parameter, inferred->shapes[graph[id].first_entry]));
  }
  for (size_t i = 0; i < definition_.outputs.size(); ++i) {
    const uint32_t entry = graph.outputs()[i].entry;
    outputs_.push_back({definition_.output_names[i], {inferred->shapes[entry], inferred->types[entry]}});
  }
  return absl::OkStatus();
}

// The closures hold the model, so that it outlives its work.

void Model::Initialize(const InitializeOptions& options, OnStatus done) {
  const auto initialize = [](Model& model, InitializeOptions options) -> Task<absl::Status> {
    co_await RunAside(*model.options_.lane);  // Making values takes long.
    absl::Status status = model.memory_.Initialize(options.initializer, options.force_reinit, model.runs_.random().seed);
    if (!absl::IsNotFound(status)) model.runs_.ForgetForward();
    co_await PostedTo(*model.options_.lane);
    co_return status;
  };
  strand_.Run<absl::Status>([self = shared_from_this(), initialize, options] { return initialize(*self, options); },
                            std::move(done));
}

void Model::SetParameters(NamedTensors values, OnStatus done) {
  const auto set = [](Model& model, NamedTensors values) -> Task<absl::Status> {
    size_t bytes = 0;
    for (const NamedTensor& value : values) bytes += value.tensor.bytes();
    const bool takes_long = bytes > kLargeCopy;
    if (takes_long) co_await RunAside(*model.options_.lane);
    absl::Status status = model.memory_.Set(values);
    if (status.ok()) model.runs_.ForgetForward();
    if (takes_long) co_await PostedTo(*model.options_.lane);
    co_return status;
  };
  strand_.Run<absl::Status>([self = shared_from_this(), set, values = std::move(values)] { return set(*self, values); },
                            std::move(done));
}

void Model::AdoptParameters(NamedTensors values, std::shared_ptr<ConstantTensors> constants, OnStatus done) {
  strand_.Do<absl::Status>(
      [self = shared_from_this(), values = std::move(values), constants = std::move(constants)] {
        absl::Status status = self->memory_.Adopt(values, constants);
        if (status.ok()) self->runs_.ForgetForward();
        return status;
      },
      std::move(done));
}

void Model::GetParameters(std::vector<std::string> names, OnTensors done) {
  strand_.Do<absl::StatusOr<NamedTensors>>(
      [self = shared_from_this(), names = std::move(names)] { return self->memory_.Values(names); }, std::move(done));
}

void Model::GetGradients(std::vector<std::string> names, OnTensors done) {
  strand_.Do<absl::StatusOr<NamedTensors>>(
      [self = shared_from_this(), names = std::move(names)] { return self->memory_.Gradients(names); }, std::move(done));
}

void Model::ZeroGradients(OnStatus done) {
  strand_.Do<absl::Status>([self = shared_from_this()] { return self->memory_.ZeroGradients(); }, std::move(done));
}

void Model::Configure(std::string name, ParameterOptions options, OnStatus done) {
  strand_.Do<absl::Status>(
      [self = shared_from_this(), name = std::move(name), options] { return self->memory_.Configure(name, options); },
      std::move(done));
}

void Model::Predict(NamedTensors inputs, std::vector<std::string> outputs, CancellationPtr cancellation, OnTensors done) {
  strand_.Run<absl::StatusOr<NamedTensors>>(
      [self = shared_from_this(), inputs = std::move(inputs), outputs = std::move(outputs),
       cancellation = std::move(cancellation)]() mutable {
        return self->runs_.Forward(std::move(inputs), std::move(outputs), Mode::kPredict, std::move(cancellation));
      },
      std::move(done), /*reader=*/true);
}

void Model::Forward(NamedTensors inputs, Mode mode, CancellationPtr cancellation, OnTensors done) {
  strand_.Run<absl::StatusOr<NamedTensors>>(
      [self = shared_from_this(), inputs = std::move(inputs), mode, cancellation = std::move(cancellation)]() mutable {
        return self->runs_.Forward(std::move(inputs), {}, mode, std::move(cancellation));
      },
      std::move(done));
}

void Model::Backward(NamedTensors head_gradients, std::vector<std::string> gradients, CancellationPtr cancellation,
                     OnBackward done) {
  strand_.Run<absl::StatusOr<BackwardReport>>(
      [self = shared_from_this(), head_gradients = std::move(head_gradients), gradients = std::move(gradients),
       cancellation = std::move(cancellation)]() mutable {
        return self->runs_.Backward(std::move(head_gradients), std::move(gradients), std::move(cancellation));
      },
      std::move(done));
}

void Model::Snapshot(std::function<void(absl::StatusOr<ModelState>)> done) {
  using Held = absl::StatusOr<ModelState>;
  strand_.Do<Held>([self = shared_from_this()] { return Held(self->SnapshotNow()); },
                   [self = shared_from_this(), done = std::move(done)](Held held) {
                     if (!held.ok()) return done(held.status());
                     const auto state = std::make_shared<ModelState>(*std::move(held));
                     self->BringToHost({&state->parameters}, [state, done](const absl::Status& status) {
                       status.ok() ? done(std::move(*state)) : done(status);
                     });
                   });
}

void Model::BringToHost(std::vector<NamedTensors*> tensors, OnStatus done) {
  if (options_.lane->device().type == DeviceType::kCpu) return done(absl::OkStatus());
  const auto copy = [this, tensors = std::move(tensors)]() -> absl::Status {
    for (NamedTensors* const list : tensors) {
      for (NamedTensor& each : *list) {
        ASSIGN_OR_RETURN(each.tensor, CopyTo(each.tensor, options_.lane->lanes(), *options_.host_allocator));
      }
    }
    return absl::OkStatus();
  };
  options_.lane->PostAside([self = shared_from_this(), copy, done = std::move(done)] {
    self->options_.lane->Post([status = copy(), done] { done(status); });
  });
}

void Model::Restore(ModelState state, OnStatus done, std::function<absl::Status()> then) {
  const auto restore = [](Model& model, ModelState state, std::function<absl::Status()> then) -> Task<absl::Status> {
    co_await RunAside(*model.options_.lane);  // Copying all values takes long.
    const auto now = [&]() -> absl::Status {
      if (then == nullptr) return model.RestoreNow(state);
      const ModelState before = model.SnapshotNow();
      RETURN_IF_ERROR(model.RestoreNow(state));
      absl::Status status = then();
      if (!status.ok()) RETURN_IF_ERROR(model.RestoreNow(before));
      return status;
    };
    absl::Status status = now();
    co_await PostedTo(*model.options_.lane);
    co_return status;
  };
  strand_.Run<absl::Status>([self = shared_from_this(), restore, state = std::move(state),
                             then = std::move(then)] { return restore(*self, state, then); },
                            std::move(done));
}

ModelState Model::SnapshotNow() const {
  ModelState state{definition_, memory_.Hold(), runs_.random()};
  state.definition.parameters = parameters().List();  // With inferred shapes and present multipliers.
  return state;
}

absl::Status Model::RestoreNow(const ModelState& state) {
  RETURN_IF_ERROR(memory_.Set(state.parameters));
  runs_.ForgetForward();
  for (const Parameter& p : state.definition.parameters) {
    const absl::StatusOr<size_t> i = parameters().Find(p.name);
    if (i.ok() && !parameters()[*i].initialized) memory_.mutable_store().SetDeferred(*i, p.deferred);
  }
  RETURN_IF_ERROR(memory_.ForgetGradients());
  runs_.random() = state.random;
  return options_.lane->driver().Synchronize(options_.lane->stream());
}

}  // namespace gluond
