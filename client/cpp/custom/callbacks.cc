#include "client/cpp/custom/callbacks.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cpp/custom/functions.h"
#include "client/cpp/session/mode.h"
#include "client/cpp/tensor_message.h"
#include "gluond/session.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

// Operator objects that are kept before their backward pass, and after it (for another pass over the same history).
constexpr size_t kMostWaitingOps = 1024, kMostUsedOps = 64;

// The modes in which a body runs: it records nothing, and what it makes stays here.
class InsideOp {
 public:
  InsideOp(const std::shared_ptr<SessionCore>& session, bool training) : before_(mode_of_thread), scope_(Session(session)) {
    mode_of_thread = {false, training, true};
  }
  ~InsideOp() { mode_of_thread = before_; }
  InsideOp(const InsideOp&) = delete;

 private:
  const Mode before_;
  const SessionScope scope_;
};

Shape ShapeOf(const google::protobuf::RepeatedField<int64_t>& shape) { return {shape.begin(), shape.end()}; }

absl::StatusOr<NDArray> ToArray(const v1::Tensor& proto, const std::shared_ptr<SessionCore>& session, const std::string& device) {
  v1::Tensor copy = proto;
  GLUOND_ASSIGN_OR_RETURN(Tensor tensor, FromProto(std::move(copy)));
  return LocalArray(session, std::move(tensor), device);
}

absl::StatusOr<std::vector<NDArray>> ToArrays(const google::protobuf::RepeatedPtrField<v1::Tensor>& protos,
                                              const std::shared_ptr<SessionCore>& session, const std::string& device) {
  std::vector<NDArray> arrays;
  for (const v1::Tensor& proto : protos) {
    GLUOND_ASSIGN_OR_RETURN(arrays.emplace_back(), ToArray(proto, session, device));
  }
  return arrays;
}

// Values that a backward pass may read.
absl::StatusOr<std::vector<NDArray>> Operands(const google::protobuf::RepeatedPtrField<v1::Callback::Operand>& operands,
                                              const char* what, const std::string& op, const std::shared_ptr<SessionCore>& session,
                                              const std::string& device) {
  std::vector<NDArray> arrays;
  for (const v1::Callback::Operand& operand : operands) {
    if (operand.absent()) {
      arrays.push_back(NDArray::Failed(
          absl::FailedPreconditionError(absl::StrCat(what, "[", arrays.size(), "] is not here: custom operator '", op,
                                                     "' has not declared that its backward pass reads it (need_top_grad, "
                                                     "DeclareBackwardDependency)")),
          Place{}));
      continue;
    }
    GLUOND_ASSIGN_OR_RETURN(arrays.emplace_back(), ToArray(operand.tensor(), session, device));
  }
  return arrays;
}

// Results, which begin as zeros.
absl::StatusOr<std::vector<NDArray>> Results(const google::protobuf::RepeatedPtrField<v1::Callback::Wanted>& wanted,
                                             const std::shared_ptr<SessionCore>& session, const std::string& device,
                                             std::vector<Req>* requests) {
  std::vector<NDArray> arrays;
  for (const v1::Callback::Wanted& each : wanted) {
    requests->push_back(each.wanted() ? Req::kWrite : Req::kNull);
    const DType dtype = FromProto(each.type().dtype());
    Shape shape = ShapeOf(each.type().shape());
    int64_t bytes = ElementSize(dtype);
    for (const int64_t size : shape) bytes *= size;
    GLUOND_ASSIGN_OR_RETURN(Tensor zeros,
                            Tensor::FromBytes(dtype, std::move(shape), std::string(static_cast<size_t>(bytes), '\0')));
    arrays.push_back(LocalArray(session, std::move(zeros), device));
  }
  return arrays;
}

// The values of results that somebody wants, in the kinds that they have.
absl::Status AddValues(const google::protobuf::RepeatedPtrField<v1::Callback::Wanted>& wanted, const std::vector<NDArray>& arrays,
                       google::protobuf::RepeatedPtrField<v1::Tensor>* tensors) {
  for (int i = 0; i < wanted.size(); ++i) {
    v1::Tensor& proto = *tensors->Add();
    if (!wanted[i].wanted()) continue;
    GLUOND_ASSIGN_OR_RETURN(const Tensor tensor, arrays[static_cast<size_t>(i)].ToTensor());
    proto = ToProto(tensor);
  }
  return absl::OkStatus();
}

bool AreWritten(const std::vector<NDArray>& states, const std::vector<Tensor>& before) {
  for (size_t i = 0; i < states.size(); ++i) {
    std::lock_guard<std::mutex> lock(states[i].state()->mutex);
    const ArrayState& state = *states[i].state();
    if (!state.here.has_value() || state.here->shared_bytes() != before[i].shared_bytes()) return true;
  }
  return false;
}

absl::Status AddStates(const std::vector<NDArray>& states, const std::vector<Tensor>& before,
                       google::protobuf::RepeatedPtrField<v1::Tensor>* tensors) {
  if (!AreWritten(states, before)) return absl::OkStatus();
  for (const NDArray& state : states) {
    GLUOND_ASSIGN_OR_RETURN(const Tensor tensor, state.ToTensor());
    *tensors->Add() = ToProto(tensor);
  }
  return absl::OkStatus();
}

std::vector<Tensor> ValuesHere(const std::vector<NDArray>& arrays) {
  std::vector<Tensor> values;
  for (const NDArray& array : arrays) values.push_back(array.state()->here.value_or(Tensor()));
  return values;
}

struct Made {
  RegisteredOpPtr registered;
  std::unique_ptr<CustomOpProp> prop;
};

absl::StatusOr<Made> Make(const v1::Callback& callback) {
  Made made;
  made.registered = FindRegistered(callback.op_type());
  if (made.registered == nullptr) {
    return absl::NotFoundError(absl::StrCat("this program has no custom operator '", callback.op_type(), "'"));
  }
  GLUOND_ASSIGN_OR_RETURN(made.prop, MakeProp(*made.registered, {callback.attributes().begin(), callback.attributes().end()}));
  return made;
}

template <class Fact>
absl::Status CheckCount(const std::string& op, const char* method, const char* what, const std::vector<Fact>& got, size_t want) {
  if (got.size() == want) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(method, "() of custom operator '", op, "' must tell of ", want, " ", what, ", got ", got.size()));
}

void Add(const std::vector<CustomOpProp::MaybeShape>& shapes, google::protobuf::RepeatedPtrField<v1::ArrayType>* types) {
  for (const CustomOpProp::MaybeShape& shape : shapes) {
    v1::ArrayType& type = *types->Add();
    type.set_has_shape(shape.has_value());
    if (!shape.has_value()) continue;
    for (const int64_t size : *shape) type.add_shape(size);
  }
}

void Add(const std::vector<CustomOpProp::MaybeType>& dtypes, google::protobuf::RepeatedPtrField<v1::ArrayType>* types) {
  for (const CustomOpProp::MaybeType& dtype : dtypes) {
    v1::ArrayType& type = *types->Add();
    if (dtype.has_value()) type.set_dtype(ToProto(*dtype));
  }
}

template <class Facts>
absl::Status AddFacts(const Made& made, const char* method, const absl::StatusOr<Facts>& facts,
                      v1::CallbackResult::Inferred* inferred) {
  GLUOND_RETURN_IF_ERROR(facts.status());
  const std::string& op = made.registered->name;
  GLUOND_RETURN_IF_ERROR(CheckCount(op, method, "arguments", facts->arguments, made.prop->ListArguments().size()));
  GLUOND_RETURN_IF_ERROR(CheckCount(op, method, "outputs", facts->outputs, made.prop->ListOutputs().size()));
  GLUOND_RETURN_IF_ERROR(CheckCount(op, method, "auxiliary states", facts->auxiliary, made.prop->ListAuxiliaryStates().size()));
  Add(facts->arguments, inferred->mutable_arguments());
  Add(facts->outputs, inferred->mutable_outputs());
  Add(facts->auxiliary, inferred->mutable_auxiliary());
  return absl::OkStatus();
}

}  // namespace

absl::Status Callbacks::Infer(const v1::Callback& callback, v1::CallbackResult* result, OwnError* error) {
  GLUOND_ASSIGN_OR_RETURN(const Made made, Make(callback));
  const bool of_shapes = callback.has_infer_shape();
  const auto& arguments = of_shapes ? callback.infer_shape().arguments() : callback.infer_type().arguments();
  std::vector<CustomOpProp::MaybeShape> shapes;
  std::vector<CustomOpProp::MaybeType> types;
  bool all_known = true;
  for (const v1::ArrayType& type : arguments) {
    shapes.push_back(type.has_shape() ? CustomOpProp::MaybeShape(ShapeOf(type.shape())) : std::nullopt);
    types.push_back(type.has_dtype() ? CustomOpProp::MaybeType(FromProto(type.dtype())) : std::nullopt);
    all_known = all_known &&
                (of_shapes ? type.has_shape() && std::count(type.shape().begin(), type.shape().end(), -1) == 0 : type.has_dtype());
  }
  v1::CallbackResult::Inferred inferred;
  const absl::Status status = Guarded(absl::StrCat(callback.op_type(), of_shapes ? ".InferShape" : ".InferType"), error, [&] {
    return of_shapes ? AddFacts(made, "InferShape", made.prop->InferShape(shapes), &inferred)
                     : AddFacts(made, "InferType", made.prop->InferType(types), &inferred);
  });
  if (!status.ok()) {
    if (all_known) return status;
    // The rule needs more than is known so far; it will be asked again.
    inferred.Clear();
    *inferred.mutable_arguments() = arguments;
    GLUOND_RETURN_IF_ERROR(Guarded(absl::StrCat(callback.op_type(), "'s prop"), error, [&] {
      for (size_t i = made.prop->ListOutputs().size(); i > 0; --i) inferred.add_outputs();
      for (size_t i = made.prop->ListAuxiliaryStates().size(); i > 0; --i) inferred.add_auxiliary();
      return absl::OkStatus();
    }));
  }
  *result->mutable_inferred() = std::move(inferred);
  return absl::OkStatus();
}

absl::Status Callbacks::Forward(const v1::Callback& callback, const std::shared_ptr<SessionCore>& session,
                                v1::CallbackResult* result, OwnError* error) {
  const v1::Callback::Forward& asked = callback.forward();
  GLUOND_ASSIGN_OR_RETURN(const Made made, Make(callback));
  GLUOND_ASSIGN_OR_RETURN(std::vector<NDArray> arguments, ToArrays(asked.arguments(), session, asked.device()));
  GLUOND_ASSIGN_OR_RETURN(std::vector<NDArray> states, ToArrays(asked.auxiliary(), session, asked.device()));
  std::vector<Req> requests;
  GLUOND_ASSIGN_OR_RETURN(std::vector<NDArray> outputs, Results(asked.outputs(), session, asked.device(), &requests));
  const std::vector<Tensor> before = ValuesHere(states);
  OperatorContext context;
  context.device = asked.device();
  for (const auto* arrays : {&arguments, &states}) {
    for (const NDArray& array : *arrays) {
      context.shapes.push_back(*array.state()->shape);
      context.dtypes.push_back(*array.state()->dtype);
    }
  }
  const InsideOp inside(session, asked.training());
  std::shared_ptr<CustomOp> op;
  GLUOND_RETURN_IF_ERROR(Guarded(absl::StrCat(callback.op_type(), ".CreateOperator"), error, [&] {
    op = made.prop->CreateOperator(context);
    return op == nullptr ? absl::InvalidArgumentError("there is no operator") : absl::OkStatus();
  }));
  v1::CallbackResult::Computed& computed = *result->mutable_computed();
  GLUOND_RETURN_IF_ERROR(Guarded(absl::StrCat(callback.op_type(), ".Forward"), error, [&]() -> absl::Status {
    GLUOND_RETURN_IF_ERROR(op->Forward({asked.training(), requests, arguments, outputs, states}));
    GLUOND_RETURN_IF_ERROR(AddValues(asked.outputs(), outputs, computed.mutable_outputs()));
    return AddStates(states, before, computed.mutable_auxiliary());
  }));
  if (asked.keep()) Add(asked.instance(), std::move(op));
  return absl::OkStatus();
}

absl::Status Callbacks::Backward(const v1::Callback& callback, const std::shared_ptr<SessionCore>& session,
                                 v1::CallbackResult* result, OwnError* error) {
  const v1::Callback::BackwardCall& asked = callback.backward();
  const std::string& name = callback.op_type();
  GLUOND_ASSIGN_OR_RETURN(const std::shared_ptr<CustomOp> op, Find(asked.instance(), name));
  GLUOND_ASSIGN_OR_RETURN(const auto out_grads, Operands(asked.out_grads(), "out_grad", name, session, asked.device()));
  GLUOND_ASSIGN_OR_RETURN(const auto arguments, Operands(asked.arguments(), "in_data", name, session, asked.device()));
  GLUOND_ASSIGN_OR_RETURN(const auto outputs, Operands(asked.outputs(), "out_data", name, session, asked.device()));
  GLUOND_ASSIGN_OR_RETURN(std::vector<NDArray> states, ToArrays(asked.auxiliary(), session, asked.device()));
  std::vector<Req> requests;
  GLUOND_ASSIGN_OR_RETURN(std::vector<NDArray> gradients, Results(asked.gradients(), session, asked.device(), &requests));
  const std::vector<Tensor> before = ValuesHere(states);
  const InsideOp inside(session, asked.training());
  v1::CallbackResult::Computed& computed = *result->mutable_computed();
  return Guarded(absl::StrCat(name, ".Backward"), error, [&]() -> absl::Status {
    GLUOND_RETURN_IF_ERROR(op->Backward({requests, out_grads, arguments, outputs, gradients, states}));
    GLUOND_RETURN_IF_ERROR(AddValues(asked.gradients(), gradients, computed.mutable_outputs()));
    return AddStates(states, before, computed.mutable_auxiliary());
  });
}

absl::Status Callbacks::Function(const v1::Callback& callback, const std::shared_ptr<SessionCore>& session,
                                 v1::CallbackResult* result, OwnError* error) {
  const v1::Callback::FunctionBackward& asked = callback.function();
  GLUOND_ASSIGN_OR_RETURN(const std::vector<NDArray> heads, ToArrays(asked.out_grads(), session, ""));
  if (heads.size() != 1) return absl::InvalidArgumentError("a function has one result");
  std::vector<Req> requests;
  GLUOND_ASSIGN_OR_RETURN(std::vector<NDArray> gradients, Results(asked.gradients(), session, "", &requests));
  const InsideOp inside(session, /*training=*/true);
  return Guarded("a function's derivative", error, [&]() -> absl::Status {
    std::vector<bool> wanted;
    for (const Req req : requests) wanted.push_back(req != Req::kNull);
    GLUOND_ASSIGN_OR_RETURN(const std::vector<NDArray> found, FunctionGradients(asked.function(), heads[0], wanted));
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (wanted[i]) gradients[i].Assign(found[i]);
    }
    return AddValues(asked.gradients(), gradients, result->mutable_computed()->mutable_outputs());
  });
}

void Callbacks::Add(uint64_t number, std::shared_ptr<CustomOp> op) {
  std::list<Instance> forgotten;  // Freed without the lock: a program's own object may run any code.
  std::lock_guard<std::mutex> lock(mutex_);
  waiting_.push_back({number, std::move(op)});
  if (waiting_.size() > kMostWaitingOps) forgotten.splice(forgotten.end(), waiting_, waiting_.begin());
}

absl::StatusOr<std::shared_ptr<CustomOp>> Callbacks::Find(uint64_t number, const std::string& op_type) {
  std::list<Instance> forgotten;
  std::lock_guard<std::mutex> lock(mutex_);
  for (std::list<Instance>* instances : {&waiting_, &used_}) {
    // The latest are the likely ones.
    const auto found =
        std::find_if(instances->rbegin(), instances->rend(), [number](const Instance& each) { return each.number == number; });
    if (found == instances->rend()) continue;
    used_.splice(used_.end(), *instances, std::prev(found.base()));
    if (used_.size() > kMostUsedOps) forgotten.splice(forgotten.end(), used_, used_.begin());
    return used_.back().op;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the operator object of this forward pass of '", op_type, "' is gone: ", kMostWaitingOps,
                   " others have run since without a backward pass, or ", kMostUsedOps,
                   " have had theirs; or the process that had it has ended. Run the forward pass again"));
}

v1::CallbackResult Callbacks::Answer(const v1::Callback& callback, const std::shared_ptr<SessionCore>& session) {
  const absl::Time begin = absl::Now();
  v1::CallbackResult result;
  OwnError error;
  absl::Status status;
  if (session == nullptr) {
    status = absl::UnavailableError("the program's session has ended");
  } else if (callback.has_infer_shape() || callback.has_infer_type()) {
    status = Infer(callback, &result, &error);
  } else if (callback.has_forward()) {
    status = Forward(callback, session, &result, &error);
  } else if (callback.has_backward()) {
    status = Backward(callback, session, &result, &error);
  } else if (callback.has_function()) {
    status = Function(callback, session, &result, &error);
  } else {
    status = absl::UnimplementedError("the server asks for something that this client does not know; install a newer one");
  }
  if (!status.ok()) {
    result.Clear();
    v1::CallbackResult::CallbackFailure& failure = *result.mutable_failure();
    failure.set_type(error.type.empty() ? std::string(absl::StatusCodeToString(status.code())) : error.type);
    failure.set_message(error.message.empty() ? std::string(status.message()) : error.message);
  }
  result.set_call(callback.call());
  result.set_seconds(absl::ToDoubleSeconds(absl::Now() - begin));
  return result;
}

}  // namespace gluond::client
