#include "gluond/ndarray.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/session/arithmetic.h"
#include "client/cpp/session/core.h"
#include "client/cpp/session/mode.h"
#include "client/cpp/session/pipeline.h"
#include "client/cpp/session/transfer.h"
#include "client/cpp/session/wire.h"
#include "gluond/autograd.h"
#include "gluond/status_macros.h"
#include "gluond/v1/command.pb.h"

namespace gluond::client {
namespace {

// The state of an array that is written; null: it cannot be, and holds the error.
ArrayState* Writable(const NDArray& array) {
  if (!array.is_defined() || array.state()->session == nullptr) return nullptr;
  ArrayState& state = *array.state();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (mode_of_thread.recording && (state.is_recorded || state.grad != nullptr)) {
    state.error = absl::FailedPreconditionError(
        "an array that autograd has recorded, or gives a gradient, was written while it records: Backward would need the old value. "
        "Write outside of Record, or make a new array");
    return nullptr;
  }
  state.is_recorded = false;
  return &state;
}

// A part of the array's kind, which the server is asked for where this program does not know it.
template <class Fact>
absl::StatusOr<Fact> Known(const NDArray& array, std::optional<Fact> ArrayState::*fact, Place place) {
  GLUOND_RETURN_IF_ERROR(Located(ErrorOf(array), place));
  ArrayState& state = *array.state();
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    if ((state.*fact).has_value()) return *(state.*fact);
  }
  GLUOND_ASSIGN_OR_RETURN(const Kind kind, Describe(*state.session, state.name, place));
  std::lock_guard<std::mutex> lock(state.mutex);
  state.shape = kind.shape;
  state.dtype = kind.dtype;
  return *(state.*fact);
}

// Assigns to an array that the server does not have yet: nothing is sent for what will be overwritten. False: it has.
bool AssignHere(const NDArray& array, const NDArray& values) {
  if (!array.is_defined() || !values.is_defined() || array.Is(values)) return false;
  ArrayState &to = *array.state(), &from = *values.state();
  std::scoped_lock lock(to.mutex, from.mutex);
  if (to.is_sent || to.session == nullptr || to.session != from.session || !from.error.ok()) return false;
  if (from.here.has_value() && from.here->dtype() == *to.dtype && from.here->shape() == *to.shape) {
    to.here = from.here;
    return true;
  }
  if (!from.is_sent || !from.dtype.has_value() || *from.dtype != *to.dtype) return false;
  to.is_sent = AssignTo(*to.session, to.name, from.name, to.device, false, Place{}).ok();
  if (to.is_sent) to.here.reset();
  return to.is_sent;
}

void Poison(const NDArray& array, absl::Status error, Place place) {
  if (!array.is_defined()) return;
  std::lock_guard<std::mutex> lock(array.state()->mutex);
  array.state()->error = Located(std::move(error), place);
}

std::vector<NDArray> AllFailed(int outputs, const absl::Status& error, Place place) {
  return std::vector<NDArray>(static_cast<size_t>(std::max(outputs, 1)), NDArray::Failed(error, place));
}

// The Invoke command.
absl::string_view InvokeCommand(uint64_t call, absl::Span<const NDArray> inputs, absl::Span<const NDArray> outputs,
                                const std::string& device) {
  using v1::Command;
  thread_local std::string message, packed, command;
  message.clear();
  command.clear();
  AppendNumber(Command::Invoke::kCallFieldNumber, call, &message);
  const auto names = [](int field, absl::Span<const NDArray> arrays) {
    if (arrays.empty()) return;
    packed.clear();
    for (const NDArray& array : arrays) AppendVarint(array.state()->name, &packed);
    AppendBytes(field, packed, &message);
  };
  names(Command::Invoke::kInputsFieldNumber, inputs);
  names(Command::Invoke::kOutputsFieldNumber, outputs);
  if (mode_of_thread.recording) AppendNumber(Command::Invoke::kRecordingFieldNumber, 1, &message);
  if (mode_of_thread.training) AppendNumber(Command::Invoke::kTrainingFieldNumber, 1, &message);
  if (!device.empty()) AppendBytes(Command::Invoke::kDeviceFieldNumber, device, &message);
  AppendBytes(Command::kInvokeFieldNumber, message, &command);
  return command;
}

NDArray Elementwise(const NDArray& a, const Operand& b, const char* with_array, const char* with_number) {
  if (b.array.is_defined()) return Invoke(with_array, {a, b.array}, {}, 1, b.place)[0];
  return Invoke(with_number, {a}, {{"scalar", b.number}}, 1, b.place)[0];
}

NDArray Reversed(double a, const Operand& b, const char* with_number) {
  return Invoke(with_number, {b.array}, {{"scalar", a}}, 1, b.place)[0];
}

NDArray& InPlace(NDArray& a, const Operand& b, const char* with_array, const char* with_number) {
  if (b.array.is_defined()) {
    InvokeInto(with_array, {a, b.array}, {}, {a}, b.place);
  } else {
    InvokeInto(with_number, {a}, {{"scalar", b.number}}, {a}, b.place);
  }
  return a;
}

}  // namespace

NDArray::NDArray(const Tensor& values, const std::string& device, Place place)
    : NDArray(FromMemory(values.dtype(), values.shape(), values.bytes().data(), values.bytes().size(), device, place)) {}

NDArray NDArray::Of(Shape shape, const std::vector<bool>& values, Place place) {
  const std::string bytes(values.begin(), values.end());
  return FromMemory(DType::kBool, std::move(shape), bytes.data(), bytes.size(), "", place);
}

NDArray NDArray::FromMemory(DType dtype, Shape shape, const void* data, size_t bytes, const std::string& device, Place place) {
  auto session = SessionCore::Current();
  if (!session.ok()) return Failed(session.status(), place);
  if (mode_of_thread.makes_local) {
    absl::StatusOr<Tensor> values = Tensor::FromBytes(dtype, std::move(shape), std::string(static_cast<const char*>(data), bytes));
    return values.ok() ? LocalArray(*session, *std::move(values), device) : Failed(values.status(), place);
  }
  NDArray array = NewArray(*session);
  const absl::Status status =
      Put(**session, array.state()->name, dtype, shape, absl::string_view(static_cast<const char*>(data), bytes), device, place);
  if (!status.ok()) return Failed(status, place);
  array.state_->shape = std::move(shape);
  array.state_->dtype = dtype;
  array.state_->device = device;
  return array;
}

NDArray NDArray::Zeros(const Shape& shape, const ArrayOptions& options, Place place) {
  NDArray array = Create("_zeros", {{"shape", TupleOf(shape)}, {"dtype", NameOf(options.dtype)}}, options.device, place);
  return array;
}

NDArray NDArray::Ones(const Shape& shape, const ArrayOptions& options, Place place) {
  return Create("_ones", {{"shape", TupleOf(shape)}, {"dtype", NameOf(options.dtype)}}, options.device, place);
}

NDArray NDArray::Full(const Shape& shape, double value, const ArrayOptions& options, Place place) {
  return Create("_full", {{"shape", TupleOf(shape)}, {"value", value}, {"dtype", NameOf(options.dtype)}}, options.device, place);
}

NDArray NDArray::Arange(double begin, double end, double step, const ArrayOptions& options, Place place) {
  return Create("_arange", {{"start", begin}, {"stop", end}, {"step", step}, {"dtype", NameOf(options.dtype)}}, options.device,
                place);
}

NDArray NDArray::Failed(absl::Status error, Place place) {
  return NDArray(std::make_shared<ArrayState>(Located(std::move(error), place)));
}

absl::Status NDArray::local_error() const { return ErrorOf(*this); }

absl::StatusOr<Tensor> NDArray::ToTensor(Place place) const {
  GLUOND_RETURN_IF_ERROR(Located(ErrorOf(*this), place));
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->here.has_value()) return *state_->here;
  }
  return Fetch(*state_->session, state_->name, place);
}

absl::StatusOr<double> NDArray::Number(Place place) const {
  GLUOND_ASSIGN_OR_RETURN(const Tensor tensor, ToTensor(place));
  if (tensor.size() != 1) {
    return Located(
        absl::InvalidArgumentError(absl::StrCat("Item: the array has the shape ", ToString(tensor.shape()), "; want one element")),
        place);
  }
  return FirstOf(tensor);
}

absl::Status NDArray::CopyTo(void* data, size_t bytes, Place place) const {
  GLUOND_ASSIGN_OR_RETURN(const Tensor tensor, ToTensor(place));
  if (tensor.bytes().size() != bytes) {
    return Located(absl::InvalidArgumentError(absl::StrCat("CopyTo: the array has ", tensor.bytes().size(), " bytes (shape ",
                                                           ToString(tensor.shape()), ", ", ToString(tensor.dtype()),
                                                           "), and there is room for ", bytes)),
                   place);
  }
  if (bytes > 0) std::memcpy(data, tensor.bytes().data(), bytes);
  return absl::OkStatus();
}

absl::StatusOr<Shape> NDArray::shape(Place place) const { return Known(*this, &ArrayState::shape, place); }

absl::StatusOr<DType> NDArray::dtype(Place place) const { return Known(*this, &ArrayState::dtype, place); }

absl::Status NDArray::Wait(Place place) const {
  GLUOND_RETURN_IF_ERROR(Located(ErrorOf(*this), place));
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->is_sent) return absl::OkStatus();
  }
  return Describe(*state_->session, state_->name, place).status();
}

NDArray NDArray::Copy(Place place) const { return Invoke("_copy", {*this}, {}, 1, place)[0]; }

NDArray NDArray::AsType(DType dtype, Place place) const { return Invoke("Cast", {*this}, {{"dtype", NameOf(dtype)}}, 1, place)[0]; }

NDArray NDArray::To(const std::string& device, Place place) const {
  auto session = SessionOf("To", {*this});
  if (!session.ok()) return Failed(session.status(), place);
  NDArray moved = NewArray(*session);
  const absl::Status status = AssignTo(**session, moved.state()->name, state_->name, device, mode_of_thread.recording, place);
  if (!status.ok()) return Failed(status, place);
  moved.state_->is_recorded = mode_of_thread.recording;
  moved.state_->device = device;
  return moved;
}

NDArray NDArray::Reshape(const Shape& shape, Place place) const {
  return Invoke("Reshape", {*this}, {{"shape", TupleOf(shape)}}, 1, place)[0];
}

NDArray NDArray::T(Place place) const { return Invoke("transpose", {*this}, {}, 1, place)[0]; }
NDArray NDArray::Sum(Place place) const { return Invoke("sum", {*this}, {}, 1, place)[0]; }
NDArray NDArray::Mean(Place place) const { return Invoke("mean", {*this}, {}, 1, place)[0]; }

NDArray NDArray::At(std::initializer_list<Index> indices, Place place) const {
  const Cut cut = CutOf(indices);
  const NDArray part = Invoke("slice", {*this}, cut.ranges, 1, place)[0];
  return cut.dropped.empty() ? part : Invoke("squeeze", {part}, {{"axis", cut.dropped}}, 1, place)[0];
}

void NDArray::Assign(const NDArray& values, Place place) {
  if (AssignHere(*this, values)) return;
  ArrayState* const state = Writable(*this);
  if (state == nullptr) return;
  const auto session = SessionOf("Assign", {values});
  if (!session.ok()) return Poison(*this, session.status(), place);
  InvokeInto("_copy", {values}, {}, {*this}, place);
}

void NDArray::Assign(double value, Place place) {
  InvokeInto("_slice_assign_scalar", {*this}, {{"begin", Value::Tuple{Value()}}, {"end", Value::Tuple{Value()}}, {"scalar", value}},
             {*this}, place);
}

void NDArray::Set(std::initializer_list<Index> indices, const NDArray& values, Place place) {
  const Cut cut = CutOf(indices);
  NDArray shaped = values;
  for (const Value& axis : cut.dropped) shaped = Invoke("expand_dims", {shaped}, {{"axis", axis}}, 1, place)[0];
  InvokeInto("_slice_assign", {*this, shaped}, cut.ranges, {*this}, place);
}

void NDArray::Set(std::initializer_list<Index> indices, double value, Place place) {
  Cut cut = CutOf(indices);
  cut.ranges.emplace_back("scalar", value);
  InvokeInto("_slice_assign_scalar", {*this}, cut.ranges, {*this}, place);
}

void NDArray::AttachGrad(GradReq request, Place place) {
  const auto session = SessionOf("AttachGrad", {*this});
  if (!session.ok()) return;
  const NDArray gradient = request == GradReq::kNull ? NDArray() : NewArray(*session);
  v1::Command::Mark mark;
  v1::Command::Mark::Marked& marked = *mark.add_arrays();
  marked.set_variable(state_->name);
  if (gradient.is_defined()) marked.set_gradient(gradient.state()->name);
  marked.set_request(static_cast<v1::Variable::GradReq>(request));
  const absl::Status status = (*session)->pipeline().Submit(CommandOf(v1::Command::kMarkFieldNumber, mark), place);
  if (!status.ok()) return Poison(*this, status, place);
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->grad = gradient.state_;
  state_->request = request;
  state_->is_recorded = false;
}

NDArray NDArray::grad() const {
  if (!is_defined()) return NDArray();
  std::lock_guard<std::mutex> lock(state_->mutex);
  return NDArray(state_->grad);
}

NDArray NDArray::Detach(Place place) const {
  const auto session = SessionOf("Detach", {*this});
  if (!session.ok()) return Failed(session.status(), place);
  NDArray detached = NewArray(*session);
  const absl::Status status = AssignTo(**session, detached.state()->name, state_->name, "", false, place);
  return status.ok() ? detached : Failed(status, place);
}

void NDArray::Backward(const NDArray& head_gradient, bool retain_graph, bool train_mode, Place place) const {
  autograd::Backward({*this}, {head_gradient}, {retain_graph, train_mode}, place);
}

std::vector<NDArray> InvokeCustom(absl::string_view op, absl::Span<const NDArray> inputs, const Attributes& attributes, int outputs,
                                  const v1::CustomOperatorSpec* custom, Place place) {
  const auto session = inputs.empty() ? SessionCore::Current() : SessionOf(op, inputs);
  if (!session.ok()) return AllFailed(outputs, session.status(), place);
  const auto call = (*session)->CallOf(op, attributes, inputs.size(), outputs, custom, place);
  if (!call.ok()) return AllFailed(outputs, call.status(), place);
  std::vector<NDArray> results;
  results.reserve(static_cast<size_t>((*call)->outputs));
  for (int i = 0; i < (*call)->outputs; ++i) {
    results.push_back(NewArray(*session));
    results.back().state()->is_recorded = mode_of_thread.recording;
  }
  const absl::Status status = (*session)->pipeline().Submit(InvokeCommand((*call)->name, inputs, results, ""), place);
  return status.ok() ? results : AllFailed(outputs, status, place);
}

std::vector<NDArray> Invoke(absl::string_view op, absl::Span<const NDArray> inputs, const Attributes& attributes, int outputs,
                            Place place) {
  return InvokeCustom(op, inputs, attributes, outputs, nullptr, place);
}

NDArray Invoke1(absl::string_view op, absl::Span<const NDArray> inputs, const Attributes& attributes, Place place) {
  return Invoke(op, inputs, attributes, kAskOutputs, place)[0];
}

void InvokeInto(absl::string_view op, absl::Span<const NDArray> inputs, const Attributes& attributes, absl::Span<const NDArray> out,
                Place place) {
  absl::Status status;
  for (const NDArray& each : out) {
    if (Writable(each) == nullptr) status = ErrorOf(each);
  }
  if (status.ok()) {
    std::vector<NDArray> all(inputs.begin(), inputs.end());
    all.insert(all.end(), out.begin(), out.end());
    const auto session = SessionOf(op, all);
    status = session.status();
    for (const NDArray& each : out) {
      std::lock_guard<std::mutex> lock(each.state()->mutex);
      if (status.ok()) each.state()->here.reset();
    }
    if (status.ok()) {
      const auto call = (*session)->CallOf(op, attributes, inputs.size(), static_cast<int>(out.size()), nullptr, place);
      status = call.status();
      if (status.ok()) status = (*session)->pipeline().Submit(InvokeCommand((*call)->name, inputs, out, ""), place);
    }
  }
  if (status.ok()) return;
  for (const NDArray& each : out) Poison(each, status, place);
}

NDArray Create(absl::string_view op, const Attributes& attributes, const std::string& device, Place place) {
  const auto session = SessionCore::Current();
  if (!session.ok()) return NDArray::Failed(session.status(), place);
  const auto call = (*session)->CallOf(op, attributes, 0, 1, nullptr, place);
  if (!call.ok()) return NDArray::Failed(call.status(), place);
  NDArray array = NewArray(*session);
  array.state()->device = device;
  const absl::Status status = (*session)->pipeline().Submit(InvokeCommand((*call)->name, {}, {array}, device), place);
  return status.ok() ? array : NDArray::Failed(status, place);
}

NDArray operator+(const NDArray& a, const Operand& b) { return Elementwise(a, b, "broadcast_add", "_plus_scalar"); }
NDArray operator-(const NDArray& a, const Operand& b) { return Elementwise(a, b, "broadcast_sub", "_minus_scalar"); }
NDArray operator*(const NDArray& a, const Operand& b) { return Elementwise(a, b, "broadcast_mul", "_mul_scalar"); }
NDArray operator/(const NDArray& a, const Operand& b) { return Elementwise(a, b, "broadcast_div", "_div_scalar"); }
NDArray operator==(const NDArray& a, const Operand& b) { return Elementwise(a, b, "broadcast_equal", "_equal_scalar"); }
NDArray operator!=(const NDArray& a, const Operand& b) { return Elementwise(a, b, "broadcast_not_equal", "_not_equal_scalar"); }
NDArray operator<(const NDArray& a, const Operand& b) { return Elementwise(a, b, "broadcast_lesser", "_lesser_scalar"); }
NDArray operator<=(const NDArray& a, const Operand& b) {
  return Elementwise(a, b, "broadcast_lesser_equal", "_lesser_equal_scalar");
}
NDArray operator>(const NDArray& a, const Operand& b) { return Elementwise(a, b, "broadcast_greater", "_greater_scalar"); }
NDArray operator>=(const NDArray& a, const Operand& b) {
  return Elementwise(a, b, "broadcast_greater_equal", "_greater_equal_scalar");
}
NDArray operator+(double a, const Operand& b) { return Reversed(a, b, "_plus_scalar"); }
NDArray operator-(double a, const Operand& b) { return Reversed(a, b, "_rminus_scalar"); }
NDArray operator*(double a, const Operand& b) { return Reversed(a, b, "_mul_scalar"); }
NDArray operator/(double a, const Operand& b) { return Reversed(a, b, "_rdiv_scalar"); }
NDArray operator-(const NDArray& a) { return Invoke("negative", {a}, {}, 1, Place{})[0]; }
NDArray& operator+=(NDArray& a, const Operand& b) { return InPlace(a, b, "broadcast_add", "_plus_scalar"); }
NDArray& operator-=(NDArray& a, const Operand& b) { return InPlace(a, b, "broadcast_sub", "_minus_scalar"); }
NDArray& operator*=(NDArray& a, const Operand& b) { return InPlace(a, b, "broadcast_mul", "_mul_scalar"); }
NDArray& operator/=(NDArray& a, const Operand& b) { return InPlace(a, b, "broadcast_div", "_div_scalar"); }

}  // namespace gluond::client
