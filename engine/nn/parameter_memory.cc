#include "engine/nn/parameter_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/nn/initializer.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/only_holder.h"

namespace gluond {

absl::Status ParameterMemory::Add(const Parameter& parameter) {
  fresh_.push_back(false);
  drafts_.emplace_back();
  return store_.Add(parameter);
}

absl::Status ParameterMemory::Zero(const Tensor& tensor) {
  return tensor.defined() ? lane_.driver().Zero(tensor.data(), tensor.bytes(), lane_.stream()) : absl::OkStatus();
}

absl::StatusOr<ParameterMemory::Memory> ParameterMemory::MemoryFor(size_t parameter, const Shape& shape) {
  const LiveParameter& p = store_[parameter];
  ForgetConstants();
  Memory memory;
  if (IsOnlyHolder(p.data.buffer())) {
    memory.data = p.data;
  } else {
    ASSIGN_OR_RETURN(memory.data, Tensor::Empty(*device_, shape, p.dtype));
  }
  ASSIGN_OR_RETURN(memory.grad, GradientOf(parameter, shape));
  return memory;
}

absl::StatusOr<Tensor> ParameterMemory::GradientOf(size_t parameter, const Shape& shape) {
  const LiveParameter& p = store_[parameter];
  if (p.grad_req == GradReq::kNull) return Tensor();
  if (p.grad.defined()) return p.grad;
  ASSIGN_OR_RETURN(Tensor grad, Tensor::Empty(*device_, shape, p.dtype));
  RETURN_IF_ERROR(Zero(grad));
  return grad;
}

absl::StatusOr<Tensor> ParameterMemory::Draft(size_t parameter, Part part, bool copied) {
  const Tensor& now = PartOf(parameter, part);
  Tensor& draft = DraftOf(parameter, part);
  if (!draft.defined() || !IsOnlyHolder(draft.buffer())) {
    ASSIGN_OR_RETURN(draft, Tensor::Empty(*device_, now.shape(), now.dtype()));
  }
  if (copied) RETURN_IF_ERROR(Copy(now.blob(), draft.blob(), lane_.lanes()));
  return draft;
}

absl::Status ParameterMemory::Fill(size_t parameter, const Spec& initializer, uint64_t seed) {
  const Parameter& p = store_[parameter];
  ASSIGN_OR_RETURN(const Tensor value, InitialValue(initializer, p.name, p.shape, p.dtype, seed, *host_));
  ASSIGN_OR_RETURN(Memory memory, MemoryFor(parameter, p.shape));
  RETURN_IF_ERROR(Copy(value.blob(), memory.data.blob(), lane_.lanes()));
  store_.SetTensors(parameter, std::move(memory.data), std::move(memory.grad));
  store_.SetDeferred(parameter, {});
  fresh_[parameter] = false;
  return Zero(store_[parameter].grad);
}

absl::Status ParameterMemory::ForgetGradients() {
  fresh_.assign(fresh_.size(), false);
  return ZeroGradients();
}

absl::Status ParameterMemory::ZeroGradients() {
  for (size_t i = 0; i < store_.size(); ++i) RETURN_IF_ERROR(ZeroGradient(i));
  return absl::OkStatus();
}

absl::Status ParameterMemory::ZeroGradient(size_t parameter) {
  const LiveParameter& p = store_[parameter];
  if (p.grad_req != GradReq::kAdd || !p.grad.defined() || IsOnlyHolder(p.grad.buffer())) return Zero(p.grad);
  ASSIGN_OR_RETURN(const Tensor zeros, Draft(parameter, Part::kGradient, /*copied=*/false));
  RETURN_IF_ERROR(Zero(zeros));
  Swap(parameter, Part::kGradient);
  return absl::OkStatus();
}

absl::Status ParameterMemory::Initialize(const Spec& initializer, bool again, uint64_t seed) {
  RETURN_IF_ERROR(Initializers().Find(initializer.type).status());
  for (size_t i = 0; i < store_.size(); ++i) {
    const Parameter& p = store_[i];
    if (p.initialized && !again) continue;
    const Spec& spec = p.initializer.type.empty() ? initializer : p.initializer;
    if (p.shape.known()) {
      RETURN_IF_ERROR(Fill(i, spec, seed));
    } else {
      store_.SetDeferred(i, spec);
    }
  }
  return absl::OkStatus();
}

absl::Status ParameterMemory::InitializeDeferred(uint64_t seed) {
  for (size_t i = 0; i < store_.size(); ++i) {
    const Parameter& p = store_[i];
    if (p.deferred.type.empty() || !p.shape.known()) continue;
    RETURN_IF_ERROR(Fill(i, Spec(p.deferred), seed));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<size_t>> ParameterMemory::FindFor(const NamedTensors& values) const {
  std::vector<size_t> indices;
  for (const NamedTensor& value : values) {
    ASSIGN_OR_RETURN(const size_t i, store_.Find(value.name));
    const Parameter& p = store_[i];
    Shape merged = p.shape;
    if (!ShapeAssign(&merged, value.tensor.shape()) || value.tensor.dtype() != p.dtype) {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", p.name, "' is ", Name(p.dtype), p.shape.ToString(), ", got ",
                                                     Name(value.tensor.dtype()), value.tensor.shape().ToString()));
    }
    if (std::find(indices.begin(), indices.end(), i) != indices.end()) {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", p.name, "' is given twice"));
    }
    indices.push_back(i);
  }
  return indices;
}

absl::Status ParameterMemory::Set(const NamedTensors& values) {
  ASSIGN_OR_RETURN(const std::vector<size_t> indices, FindFor(values));
  std::vector<Memory> memory;  // All allocated first, so that a failure changes nothing.
  for (size_t k = 0; k < values.size(); ++k) {
    ASSIGN_OR_RETURN(Memory one, MemoryFor(indices[k], values[k].tensor.shape()));
    memory.push_back(std::move(one));
  }
  for (size_t k = 0; k < values.size(); ++k) {
    RETURN_IF_ERROR(Copy(values[k].tensor.blob(), memory[k].data.blob(), lane_.lanes()));
  }
  for (size_t k = 0; k < values.size(); ++k) {
    RETURN_IF_ERROR(store_.MergeShape(indices[k], values[k].tensor.shape()));
    store_.SetTensors(indices[k], std::move(memory[k].data), std::move(memory[k].grad));
    store_.SetDeferred(indices[k], {});
  }
  return absl::OkStatus();
}

absl::Status ParameterMemory::Adopt(const NamedTensors& values, std::shared_ptr<ConstantTensors> constants) {
  ASSIGN_OR_RETURN(const std::vector<size_t> indices, FindFor(values));
  std::vector<Tensor> gradients;
  for (size_t k = 0; k < values.size(); ++k) {
    ASSIGN_OR_RETURN(Tensor gradient, GradientOf(indices[k], values[k].tensor.shape()));
    gradients.push_back(std::move(gradient));
  }
  for (size_t k = 0; k < values.size(); ++k) {
    RETURN_IF_ERROR(store_.MergeShape(indices[k], values[k].tensor.shape()));
    store_.SetTensors(indices[k], values[k].tensor, std::move(gradients[k]));
    store_.SetDeferred(indices[k], {});
  }
  ForgetConstants();
  shared_constants_ = std::move(constants);
  return absl::OkStatus();
}

std::shared_ptr<ConstantTensors> ParameterMemory::Constants() {
  if (shared_constants_ != nullptr) return shared_constants_;
  own_constants_->BeginRun();
  for (size_t i = 0; !has_own_constants_ && i < store_.size(); ++i) {
    if (store_[i].initialized) own_constants_->Add(store_[i].data);
  }
  has_own_constants_ = true;
  return own_constants_;
}

void ParameterMemory::ForgetConstants() {
  own_constants_->ForgetAll();
  has_own_constants_ = false;
}

NamedTensors ParameterMemory::Hold() const {
  NamedTensors tensors;
  for (size_t i = 0; i < store_.size(); ++i) {
    if (store_[i].initialized) tensors.push_back({store_[i].name, store_[i].data});
  }
  return tensors;
}

absl::StatusOr<NamedTensors> ParameterMemory::Hold(const std::vector<std::string>& names) const {
  NamedTensors tensors;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(Tensor tensor, Find(name, /*gradients=*/false));
    tensors.push_back({name, std::move(tensor)});
  }
  return tensors;
}

absl::StatusOr<NamedTensors> ParameterMemory::Read(std::vector<std::string> names, bool gradients) const {
  if (names.empty()) {
    for (size_t i = 0; i < store_.size(); ++i) {
      const LiveParameter& p = store_[i];
      if ((gradients ? p.grad : p.data).defined()) names.push_back(p.name);
    }
  }
  NamedTensors tensors;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const Tensor tensor, Find(name, gradients));
    ASSIGN_OR_RETURN(Tensor copy, CopyTo(tensor, lane_.lanes(), *host_));
    tensors.push_back({name, std::move(copy)});
  }
  return tensors;
}

absl::StatusOr<Tensor> ParameterMemory::Find(const std::string& name, bool gradients) const {
  ASSIGN_OR_RETURN(const size_t i, store_.Find(name));
  const Tensor& tensor = gradients ? store_[i].grad : store_[i].data;
  if (tensor.defined()) return tensor;
  return absl::FailedPreconditionError(
      gradients ? absl::StrCat("parameter '", name, "' has no gradient: its grad_req is null, or it has no value yet")
                : absl::StrCat("parameter '", name, "' is not initialized; initialize the model, or upload it"));
}

absl::Status ParameterMemory::Configure(const std::string& name, const ParameterOptions& options) {
  ASSIGN_OR_RETURN(const size_t i, store_.Find(name));
  const LiveParameter& p = store_[i];
  const ParameterOptions before = {p.grad_req, p.lr_mult, p.wd_mult};
  RETURN_IF_ERROR(store_.Configure(name, options));
  if (p.initialized) {
    absl::StatusOr<Tensor> grad = GradientOf(i, p.shape);
    if (!grad.ok()) {  // Without memory for the gradient, grad_req goes back to its old value.
      RETURN_IF_ERROR(store_.Configure(name, before));
      return grad.status();
    }
    store_.SetTensors(i, p.data, *std::move(grad));
  }
  if (p.grad_req == GradReq::kNull) fresh_[i] = false;
  if (p.grad_req != GradReq::kAdd) drafts_[i].grad = Tensor();
  return absl::OkStatus();
}

}  // namespace gluond
