#include "engine/nn/model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/convert.h"
#include "engine/nn/initializer.h"
#include "engine/nn/inputs.h"
#include "engine/nn/strand.h"
#include "engine/passes/validate.h"
#include "engine/runtime/random_stream.h"

namespace gluond {

Model::Model(ModelDefinition definition, const ModelOptions& options)
    : definition_(std::move(definition)), options_(options), strand_(std::make_unique<Strand>(*options.lane)),
      random_{options.seed, 0},
      predict_random_{~options.seed, 0} {}

Model::~Model() = default;

absl::StatusOr<std::shared_ptr<Model>> Model::Create(ModelDefinition definition, const ModelOptions& options) {
  RETURN_IF_ERROR(Validate(Graph{definition.outputs}));
  RETURN_IF_ERROR(CheckKernels(Graph{definition.outputs}, options.lane->device().type));
  std::shared_ptr<Model> model(new Model(std::move(definition), options));
  for (const Parameter& parameter : model->definition_.parameters) {
    RETURN_IF_ERROR(model->parameters_.Add(parameter));
  }
  model->fresh_.resize(model->definition_.parameters.size());
  RETURN_IF_ERROR(model->CheckInputsAreOnlyRead());
  RETURN_IF_ERROR(model->InferAtDefinition());
  return model;
}

// An input's memory is the caller's.
absl::Status Model::CheckInputsAreOnlyRead() const {
  const absl::flat_hash_set<std::string> mutated = MutatedVariables(definition_.outputs);
  for (const ModelInput& input : definition_.inputs) {
    if (!mutated.contains(input.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("the input '", Excerpt(input.name), "' is written by an operator (a "
                                                   "running mean, for example); make it a parameter"));
  }
  return absl::OkStatus();
}

// Unknown batch sizes stay unknown; what follows from the rest is stored.
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
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", Excerpt(name), "' is neither an input nor a parameter"));
  }
  ASSIGN_OR_RETURN(const Inferred inferred, InferPartially(graph, known));
  for (uint32_t id : graph.variables()) {
    const absl::StatusOr<size_t> parameter = parameters_.Find(graph[id].node->name());
    if (parameter.ok()) RETURN_IF_ERROR(parameters_.MergeShape(*parameter, inferred.shapes[graph[id].first_entry]));
  }
  for (size_t i = 0; i < definition_.outputs.size(); ++i) {
    const uint32_t entry = graph.outputs()[i].entry;
    outputs_.push_back({definition_.output_names[i], {inferred.shapes[entry], inferred.types[entry]}});
  }
  return absl::OkStatus();
}

void Model::Enqueue(std::function<void(Finished)> work) { strand_->Enqueue(std::move(work)); }
void Model::Yield(std::function<void()> resume) { strand_->Yield(std::move(resume)); }
std::chrono::steady_clock::time_point Model::begun() const { return strand_->begun(); }

absl::StatusOr<std::unique_ptr<BoundGraph>> Model::Bind(std::vector<GraphOutput> outputs, BoundGraphOptions options) {
  return BoundGraph::Create(std::move(outputs), std::move(options), parameters_,
                            [this] { return InitializeDeferred(); }, *options_.lane, *options_.allocator);
}

void Model::Initialize(const InitializeOptions& options, OnStatus done) {
  Enqueue([self = shared_from_this(), options, done = std::move(done)](Finished finished) {
    self->options_.lane->GoOnBeside([self, options, done, finished = std::move(finished)] {
      const absl::Status status = self->InitializeNow(options);
      finished();
      done(status);
    });
  });
}

void Model::SetParameters(NamedTensors values, OnStatus done) {
  Enqueue([self = shared_from_this(), values = std::move(values), done = std::move(done)](Finished finished) {
    const absl::Status status = self->SetNow(values);
    finished();
    done(status);
  });
}

void Model::GetParameters(std::vector<std::string> names, OnTensors done) {
  Enqueue([self = shared_from_this(), names = std::move(names), done = std::move(done)](Finished finished) {
    auto tensors = self->ReadNow(names, /*gradients=*/false);
    finished();
    done(std::move(tensors));
  });
}

void Model::GetGradients(std::vector<std::string> names, OnTensors done) {
  Enqueue([self = shared_from_this(), names = std::move(names), done = std::move(done)](Finished finished) {
    auto tensors = self->ReadNow(names, /*gradients=*/true);
    finished();
    done(std::move(tensors));
  });
}

void Model::ZeroGradients(OnStatus done) {
  Enqueue([self = shared_from_this(), done = std::move(done)](Finished finished) {
    Lane& lane = *self->options_.lane;
    absl::Status status;
    for (size_t i = 0; i < self->parameters_.size() && status.ok(); ++i) {
      const Tensor& grad = self->parameters_[i].grad;
      if (grad.defined()) status = lane.driver().Zero(grad.data(), grad.bytes(), lane.stream());
    }
    finished();
    done(status);
  });
}

void Model::Configure(std::string name, ParameterOptions options, OnStatus done) {
  Enqueue([self = shared_from_this(), name = std::move(name), options, done = std::move(done)](Finished finished) {
    const absl::Status status = self->ConfigureNow(name, options);
    finished();
    done(status);
  });
}

void Model::Snapshot(std::function<void(absl::StatusOr<ModelState>)> done) {
  Enqueue([self = shared_from_this(), done = std::move(done)](Finished finished) {
    auto state = self->SnapshotNow();
    finished();
    done(std::move(state));
  });
}

void Model::Restore(ModelState state, OnStatus done, std::function<absl::Status()> then) {
  Enqueue([self = shared_from_this(), state = std::move(state), done = std::move(done),
           then = std::move(then)](Finished finished) {
    absl::Status status = self->RestoreNow(state);
    if (status.ok() && then != nullptr) status = then();
    finished();
    done(status);
  });
}

absl::StatusOr<ModelState> Model::SnapshotNow() {
  ModelState state{definition_, {}, random_};
  state.definition.parameters = parameters_.List();  // With inferred shapes and present multipliers.
  for (Parameter& parameter : state.definition.parameters) parameter.data = parameter.grad = Tensor();
  ASSIGN_OR_RETURN(state.parameters, ReadNow({}, /*gradients=*/false));
  return state;
}

absl::Status Model::RestoreNow(const ModelState& state) {
  RETURN_IF_ERROR(SetNow(state.parameters));
  for (const Parameter& p : state.definition.parameters) {
    const absl::StatusOr<size_t> i = parameters_.Find(p.name);
    if (i.ok() && !parameters_[*i].initialized()) parameters_.SetDeferred(*i, p.deferred);
  }
  for (size_t i = 0; i < parameters_.size(); ++i) RETURN_IF_ERROR(ForgetGradient(i));
  random_ = state.random;
  return options_.lane->driver().Synchronize(options_.lane->stream());
}

// What a parameter has, and what it still needs: data as it comes, a gradient of zeros. The parameter gets it from
// SetTensors when its values are there: it must not show what the memory held before.
absl::StatusOr<Model::Memory> Model::MemoryOf(size_t parameter, const Shape& shape) {
  const Parameter& p = parameters_[parameter];
  Memory memory = {p.data, p.grad};
  if (!memory.data.defined()) {
    ASSIGN_OR_RETURN(memory.data, Tensor::Empty(*options_.allocator, shape, p.dtype));
  }
  if (p.grad_req == GradReq::kNull) {
    memory.grad = Tensor();
  } else if (!memory.grad.defined()) {
    ASSIGN_OR_RETURN(memory.grad, Tensor::Empty(*options_.allocator, shape, p.dtype));
    RETURN_IF_ERROR(
        options_.lane->driver().Zero(memory.grad.data(), memory.grad.bytes(), options_.lane->stream()));
  }
  return memory;
}

// Values are made on the host, so that they are the same on every device.
absl::Status Model::Fill(size_t parameter, const Spec& initializer) {
  const Parameter& p = parameters_[parameter];
  Lane& lane = *options_.lane;
  ASSIGN_OR_RETURN(Tensor values, Tensor::Empty(*options_.host_allocator, p.shape, DType::kFloat32));
  const InitializerTarget target = {p.name, p.shape, RandomStream(random_.seed, RandomDomain::kParameter, NameHash(p.name)),
                                    absl::MakeSpan(values.data<float>(), static_cast<size_t>(values.Size()))};
  RETURN_IF_ERROR(Annotate(Initializers().Make(initializer.type, initializer.attrs, target),
                           absl::StrCat("parameter '", p.name, "'")));
  ASSIGN_OR_RETURN(Memory memory, MemoryOf(parameter, p.shape));
  ASSIGN_OR_RETURN(Tensor converted, Tensor::Empty(*options_.host_allocator, p.shape, p.dtype));
  ConvertValues(values.data(), DType::kFloat32, converted.data(), p.dtype, values.Size());
  RETURN_IF_ERROR(CopyFromHost(lane, converted, memory.data));
  parameters_.SetTensors(parameter, std::move(memory.data), std::move(memory.grad));
  parameters_.SetDeferred(parameter, {});
  return ForgetGradient(parameter);
}

// As if no backward pass had been.
absl::Status Model::ForgetGradient(size_t parameter) {
  fresh_[parameter] = false;
  const Tensor& grad = parameters_[parameter].grad;
  if (!grad.defined()) return absl::OkStatus();
  return options_.lane->driver().Zero(grad.data(), grad.bytes(), options_.lane->stream());
}

absl::Status Model::InitializeNow(const InitializeOptions& options) {
  RETURN_IF_ERROR(Initializers().Find(options.initializer.type).status());
  ForgetForward();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (p.initialized() && !options.force_reinit) continue;
    const Spec& spec = p.initializer.type.empty() ? options.initializer : p.initializer;
    if (p.shape.known()) {
      RETURN_IF_ERROR(Fill(i, spec));
    } else {
      parameters_.SetDeferred(i, spec);
    }
  }
  return absl::OkStatus();
}

absl::Status Model::InitializeDeferred() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (p.deferred.type.empty() || !p.shape.known()) continue;
    RETURN_IF_ERROR(Fill(i, Spec(p.deferred)));
  }
  return absl::OkStatus();
}

absl::Status Model::SetNow(const NamedTensors& values) {
  std::vector<size_t> indices;
  for (const NamedTensor& value : values) {
    ASSIGN_OR_RETURN(const size_t i, parameters_.Find(value.name));
    const Parameter& p = parameters_[i];
    Shape merged = p.shape;
    if (!ShapeAssign(&merged, value.tensor.shape()) || value.tensor.dtype() != p.dtype) {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", p.name, "' is ", Name(p.dtype), p.shape.ToString(),
                                                     ", got ", Name(value.tensor.dtype()),
                                                     value.tensor.shape().ToString()));
    }
    if (std::find(indices.begin(), indices.end(), i) != indices.end()) {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", p.name, "' is given twice"));
    }
    indices.push_back(i);
  }
  std::vector<Memory> memory;  // All of it first, so that nothing is half done when there is no more.
  for (size_t k = 0; k < values.size(); ++k) {
    ASSIGN_OR_RETURN(Memory one, MemoryOf(indices[k], values[k].tensor.shape()));
    memory.push_back(std::move(one));
  }
  ForgetForward();
  for (size_t k = 0; k < values.size(); ++k) {
    RETURN_IF_ERROR(CopyFromHost(*options_.lane, values[k].tensor, memory[k].data));
  }
  for (size_t k = 0; k < values.size(); ++k) {
    RETURN_IF_ERROR(parameters_.MergeShape(indices[k], values[k].tensor.shape()));
    parameters_.SetTensors(indices[k], std::move(memory[k].data), std::move(memory[k].grad));
    parameters_.SetDeferred(indices[k], {});
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> Model::ReadNow(std::vector<std::string> names, bool gradients) {
  if (names.empty()) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& p = parameters_[i];
      if ((gradients ? p.grad : p.data).defined()) names.push_back(p.name);
    }
  }
  NamedTensors tensors;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const size_t i, parameters_.Find(name));
    const Tensor& tensor = gradients ? parameters_[i].grad : parameters_[i].data;
    if (!tensor.defined()) {
      return absl::FailedPreconditionError(
          gradients
              ? absl::StrCat("parameter '", name, "' has no gradient: its grad_req is null, or it has no value yet")
              : absl::StrCat("parameter '", name, "' is not initialized; initialize the model, or upload it"));
    }
    ASSIGN_OR_RETURN(Tensor copy, HostCopy(*options_.lane, tensor, *options_.host_allocator));
    tensors.push_back({name, std::move(copy)});
  }
  return tensors;
}

absl::Status Model::ConfigureNow(const std::string& name, const ParameterOptions& options) {
  ASSIGN_OR_RETURN(const size_t i, parameters_.Find(name));
  const Parameter& p = parameters_[i];
  const ParameterOptions before = {p.grad_req, p.lr_mult, p.wd_mult};
  RETURN_IF_ERROR(parameters_.Configure(name, options));
  if (p.initialized()) {
    absl::StatusOr<Memory> memory = MemoryOf(i, p.shape);
    if (!memory.ok()) {  // A gradient that is asked for has memory, or is not asked for.
      RETURN_IF_ERROR(parameters_.Configure(name, before));
      return memory.status();
    }
    parameters_.SetTensors(i, std::move(memory->data), std::move(memory->grad));
  }
  if (p.grad_req == GradReq::kNull) fresh_[i] = false;
  return absl::OkStatus();
}

}  // namespace gluond
