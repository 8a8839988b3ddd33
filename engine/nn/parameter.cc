#include "engine/nn/parameter.h"

#include <cmath>
#include <utility>

namespace gluond {

absl::string_view Name(GradReq req) {
  switch (req) {
    case GradReq::kNull: return "null";
    case GradReq::kWrite: return "write";
    case GradReq::kAdd: return "add";
  }
  return "unknown";
}

absl::StatusOr<GradReq> ParseGradReq(absl::string_view text) {
  for (GradReq req : {GradReq::kNull, GradReq::kWrite, GradReq::kAdd}) {
    if (text == Name(req)) return req;
  }
  return absl::InvalidArgumentError(absl::StrCat("grad_req is '", Excerpt(text), "'; want null, write or add"));
}

absl::Status ParameterStore::Add(Parameter parameter) {
  if (parameter.name.empty() || parameter.name.size() > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("a parameter's name has 1 to 1024 bytes, got ", parameter.name.size(), ": '", Excerpt(parameter.name), "'"));
  }
  if (parameter.auxiliary || !parameter.differentiable) parameter.grad_req = GradReq::kNull;
  MutexLock lock(mu_);
  if (!index_.try_emplace(parameter.name, parameters_.size()).second) {
    return absl::AlreadyExistsError(absl::StrCat("two parameters are named '", Excerpt(parameter.name), "'"));
  }
  parameter.initialized = false;
  parameters_.push_back(std::make_unique<LiveParameter>(LiveParameter{std::move(parameter), {}, {}}));
  return absl::OkStatus();
}

absl::StatusOr<size_t> ParameterStore::Find(absl::string_view name) const {
  MutexLock lock(mu_);
  const auto it = index_.find(name);
  if (it != index_.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& parameter : parameters_) names.push_back(parameter->name);
  return absl::NotFoundError(absl::StrCat("there is no parameter '", Excerpt(name), "'", DidYouMean(name, names)));
}

absl::StatusOr<Parameter> ParameterStore::Get(absl::string_view name) const {
  ASSIGN_OR_RETURN(const size_t index, Find(name));
  MutexLock lock(mu_);
  return *parameters_[index];
}

std::vector<Parameter> ParameterStore::List() const {
  MutexLock lock(mu_);
  std::vector<Parameter> list;
  for (const auto& parameter : parameters_) list.push_back(*parameter);
  return list;
}

size_t ParameterStore::size() const {
  MutexLock lock(mu_);
  return parameters_.size();
}

absl::Status ParameterStore::MergeShape(size_t index, const Shape& shape) {
  MutexLock lock(mu_);
  Parameter& parameter = *parameters_[index];
  const Shape before = parameter.shape;
  if (ShapeAssign(&parameter.shape, shape)) return absl::OkStatus();
  parameter.shape = before;
  return absl::InvalidArgumentError(
      absl::StrCat("parameter '", parameter.name, "' has shape ", before.ToString(), ", inferred ", shape.ToString()));
}

void ParameterStore::SetTensors(size_t index, Tensor data, Tensor grad) {
  MutexLock lock(mu_);
  parameters_[index]->initialized = true;
  parameters_[index]->data = std::move(data);
  parameters_[index]->grad = std::move(grad);
}

void ParameterStore::SetDeferred(size_t index, Spec deferred) {
  MutexLock lock(mu_);
  parameters_[index]->deferred = std::move(deferred);
}

absl::Status ParameterStore::Configure(absl::string_view name, const ParameterOptions& options) {
  ASSIGN_OR_RETURN(const size_t index, Find(name));
  MutexLock lock(mu_);
  Parameter& parameter = *parameters_[index];
  for (const auto& [what, value] : {std::pair("lr_mult", options.lr_mult), std::pair("wd_mult", options.wd_mult)}) {
    if (value.has_value() && !(*value >= 0 && std::isfinite(*value))) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", parameter.name, "': ", what, " is ", *value, "; want 0 or more, finite"));
    }
  }
  const GradReq req = options.grad_req.value_or(parameter.grad_req);
  if (req != GradReq::kNull && (parameter.auxiliary || !parameter.differentiable)) {
    return absl::InvalidArgumentError(absl::StrCat("parameter '", parameter.name, "' is ",
                                                   parameter.auxiliary ? "an auxiliary state" : "not differentiable",
                                                   ": its grad_req is null"));
  }
  if (req != parameter.grad_req) ++version_;
  parameter.grad_req = req;
  parameter.lr_mult = options.lr_mult.value_or(parameter.lr_mult);
  parameter.wd_mult = options.wd_mult.value_or(parameter.wd_mult);
  return absl::OkStatus();
}

uint64_t ParameterStore::version() const {
  MutexLock lock(mu_);
  return version_;
}

}  // namespace gluond
