#include "gluond/parameter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/gluon/parameter_state.h"
#include "client/cpp/gluon/symbol_node.h"
#include "client/cpp/session/pipeline.h"
#include "client/cpp/session/wire.h"
#include "client/cpp/tensor_message.h"
#include "client/cpp/value_message.h"
#include "gluond/status_macros.h"
#include "gluond/v1/command.pb.h"

namespace gluond::client {
namespace {

// So many elements at most in one command, so that large networks do not hold the session.
constexpr int kMostTargets = 256;

void Fill(const Component& from, v1::Component* to) {
  to->set_name(from.name);
  Fill(from.attributes, to->mutable_attributes());
}

}  // namespace

bool IsKnown(const Shape& shape) {
  return !shape.empty() && std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size > 0; });
}

void Attach(ParameterState& state, Place place) {
  const GradReq request = state.is_auxiliary ? GradReq::kNull : state.options.grad_req;
  if (request != GradReq::kNull) state.data.AttachGrad(request, place);
}

bool Fits(const Shape& own, const Shape& given) {
  if (own.empty()) return true;
  return std::equal(own.begin(), own.end(), given.begin(), given.end(), [](int64_t a, int64_t b) { return a <= 0 || a == b; });
}

Variable DescribeParameter(ParameterState& state, const std::string& name) {
  std::lock_guard<std::mutex> lock(state.mutex);
  Variable variable;
  variable.name = name;
  variable.kind = state.is_auxiliary ? Variable::Kind::kAuxiliary : Variable::Kind::kParameter;
  for (const int64_t size : state.options.shape) variable.shape.push_back(size > 0 ? size : -1);
  variable.dtype = state.options.dtype;
  if (!state.options.initializer.name.empty()) variable.initializer = state.options.initializer;
  if (state.is_auxiliary) return variable;
  variable.lr_mult = state.options.lr_mult;
  variable.wd_mult = state.options.wd_mult;
  variable.grad_req = static_cast<Variable::GradReq>(state.options.grad_req);
  return variable;
}

absl::Status Begin(SessionCore& session, absl::Span<const std::shared_ptr<ParameterState>> parameters, Place place) {
  for (size_t begin = 0; begin < parameters.size(); begin += kMostTargets) {
    // The parameters of one command share fallback and device.
    std::vector<std::shared_ptr<ParameterState>> left(
        parameters.begin() + static_cast<ptrdiff_t>(begin),
        parameters.begin() + static_cast<ptrdiff_t>(std::min(begin + kMostTargets, parameters.size())));
    while (!left.empty()) {
      v1::Command::Initialize initialize;
      std::vector<std::shared_ptr<ParameterState>> others;
      std::string device;
      std::string fallback;
      for (const std::shared_ptr<ParameterState>& each : left) {
        std::lock_guard<std::mutex> lock(each->mutex);
        v1::Component own;
        Fill(each->fallback, &own);
        if (initialize.targets().empty()) {
          *initialize.mutable_initializer() = own;
          device = each->device;
          fallback = own.SerializeAsString();
        } else if (each->device != device || own.SerializeAsString() != fallback) {
          others.push_back(each);
          continue;
        }
        const NDArray array = NewArray(session.shared_from_this());
        array.state()->shape = each->options.shape;
        array.state()->dtype = each->options.dtype;
        array.state()->device = device;
        v1::Command::Initialize::Target& target = *initialize.add_targets();
        target.set_array(array.state()->name);
        v1::Variable& variable = *target.mutable_variable();
        variable.set_name(each->path);
        for (const int64_t size : each->options.shape) variable.add_shape(size);
        variable.set_dtype(ToProto(each->options.dtype));
        Fill(each->options.initializer, variable.mutable_initializer());
        each->data = array;
        each->is_due = false;
      }
      initialize.set_device(device);
      GLUOND_RETURN_IF_ERROR(session.pipeline().Submit(CommandOf(v1::Command::kInitializeFieldNumber, initialize), place));
      left.swap(others);
    }
  }
  for (const std::shared_ptr<ParameterState>& each : parameters) {
    std::lock_guard<std::mutex> lock(each->mutex);
    Attach(*each, place);
  }
  return absl::OkStatus();
}

namespace gluon {
namespace {

// All that are not initialized, or all; those whose shapes are not known wait.
void InitializeAll(const std::vector<std::pair<std::string, Parameter>>& parameters, const Component& initializer,
                   const InitializeOptions& options, Place place) {
  std::vector<std::shared_ptr<ParameterState>> known;
  for (const auto& [path, parameter] : parameters) {
    ParameterState& state = *parameter.state();
    std::lock_guard<std::mutex> lock(state.mutex);
    state.path = path;
    if (state.data.is_defined() && !options.force_reinit) continue;
    state.fallback = initializer;
    state.device = options.device;
    state.is_due = true;
    if (IsKnown(state.options.shape)) {
      known.push_back(parameter.state());
    } else {
      state.data = NDArray();
    }
  }
  if (known.empty()) return;
  const auto session = SessionCore::Current();
  const absl::Status status = session.ok() ? Begin(**session, known, place) : session.status();
  if (status.ok()) return;
  for (const std::shared_ptr<ParameterState>& state : known) {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->data = NDArray::Failed(status, place);
  }
}

}  // namespace

Parameter::Parameter(std::string name, ParameterOptions options) : state_(std::make_shared<ParameterState>(std::move(name))) {
  state_->options = std::move(options);
}

const std::string& Parameter::name() const { return state_->name; }

Shape Parameter::shape() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->options.shape;
}

DType Parameter::dtype() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->options.dtype;
}

bool Parameter::is_initialized() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->data.is_defined();
}

void Parameter::Initialize(const Component& initializer, const InitializeOptions& options, Place place) {
  InitializeAll({{state_->path, *this}}, initializer, options, place);
}

NDArray Parameter::data(Place place) const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->data.is_defined()) return state_->data;
  return NDArray::Failed(
      absl::FailedPreconditionError(
          state_->is_due
              ? absl::StrCat("the parameter '", state_->path, "' has no value yet: its shape ", ToString(state_->options.shape),
                             " is not known before the first batch; call the block with one, or give the shape")
              : absl::StrCat("the parameter '", state_->path, "' has no value: call Initialize of its block, or SetData, before")),
      place);
}

NDArray Parameter::grad(Place place) const {
  const NDArray value = data(place);
  const NDArray gradient = value.grad();
  if (gradient.is_defined()) return gradient;
  if (!value.local_error().ok()) return value;
  return NDArray::Failed(
      absl::FailedPreconditionError(absl::StrCat("the parameter '", state_->path, "' has no gradient: its grad_req is null")),
      place);
}

void Parameter::SetData(const NDArray& data, Place place) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->data.is_defined()) return state_->data.Assign(data, place);
  const absl::StatusOr<Shape> shape = data.shape(place);
  const absl::StatusOr<DType> dtype = data.dtype(place);
  absl::Status status = shape.ok() ? dtype.status() : shape.status();
  if (status.ok() && !Fits(state_->options.shape, *shape)) {
    status = absl::InvalidArgumentError(absl::StrCat("SetData: the parameter '", state_->path, "' has the shape ",
                                                     ToString(state_->options.shape), ", got ", ToString(*shape)));
  }
  if (!status.ok()) {
    state_->data = NDArray::Failed(status, place);
    return;
  }
  state_->options.shape = *shape;
  state_->data = *dtype == state_->options.dtype ? data.Copy(place) : data.AsType(state_->options.dtype, place);
  state_->is_due = false;
  Attach(*state_, place);
}

void Parameter::ZeroGrad(Place place) {
  NDArray gradient = grad(place);
  if (gradient.local_error().ok()) gradient.Assign(0, place);
}

GradReq Parameter::grad_req() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->options.grad_req;
}

void Parameter::set_grad_req(GradReq request) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->options.grad_req == request) return;
  state_->options.grad_req = request;
  if (state_->data.is_defined()) state_->data.AttachGrad(request, Place{});
}

double Parameter::lr_mult() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->options.lr_mult;
}

void Parameter::set_lr_mult(double lr_mult) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->options.lr_mult = lr_mult;
}

double Parameter::wd_mult() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->options.wd_mult;
}

void Parameter::set_wd_mult(double wd_mult) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->options.wd_mult = wd_mult;
}

void Parameter::Cast(DType dtype, Place place) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->options.dtype == dtype) return;
  state_->options.dtype = dtype;
  if (!state_->data.is_defined()) return;
  state_->data = state_->data.AsType(dtype, place);
  Attach(*state_, place);
}

Symbol Parameter::Var() const {
  auto node = std::make_shared<SymbolNode>();
  node->name = state_->name;
  node->parameter = state_;
  return Symbol(std::move(node), 0);
}

Constant::Constant(std::string name, const Tensor& value, Place place)
    : Parameter(std::move(name), {value.shape(), value.dtype(), {}, GradReq::kNull, 1, 1}) {
  SetData(NDArray(value, "", place), place);
}

ParameterDict::ParameterDict(std::string prefix)
    : prefix_(std::move(prefix)), parameters_(std::make_shared<std::vector<std::pair<std::string, Parameter>>>()) {}

const std::string& ParameterDict::prefix() const { return prefix_; }

Parameter ParameterDict::Get(const std::string& name, ParameterOptions options) {
  const Parameter known = Find(prefix_ + name);
  if (known.is_defined()) return known;
  Parameter made(prefix_ + name, std::move(options));
  Add(made.name(), made);
  return made;
}

Parameter ParameterDict::Find(const std::string& name) const {
  for (const auto& [known, parameter] : *parameters_) {
    if (known == name) return parameter;
  }
  return Parameter();
}

void ParameterDict::Add(const std::string& name, const Parameter& parameter) { parameters_->emplace_back(name, parameter); }

void ParameterDict::Initialize(const Component& initializer, const InitializeOptions& options, Place place) {
  InitializeAll(*parameters_, initializer, options, place);
}

void ParameterDict::ZeroGrad(Place place) {
  for (auto& [name, parameter] : *parameters_) parameter.ZeroGrad(place);
}

}  // namespace gluon
}  // namespace gluond::client
