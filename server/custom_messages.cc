#include "server/custom_messages.h"

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/half.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/dtype_switch.h"
#include "server/tensor_codec.h"

namespace gluond::server {
namespace {

constexpr size_t kLongestMessage = 2048, kLongestTraceback = 64 << 10;

// For values that do not lie as they must; they are as large as the message that brought them.
class HeapMemory final : public Allocator {
 public:
  Device device() const override { return {}; }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    constexpr std::align_val_t kAlignment{64};
    void* const data = ::operator new(bytes + 1, kAlignment);
    return std::make_shared<Buffer>(data, bytes, Device(), [data] { ::operator delete(data, kAlignment); });
  }
};

void AddAttributes(const CustomOperator& op, v1::Callback* callback) {
  callback->set_op_type(op.op_type);
  for (const auto& [name, text] : op.attrs) (*callback->mutable_attributes())[name] = text;
}

void TypeOf(const TBlob& blob, v1::ArrayType* type) {
  type->set_has_shape(true);
  for (const int64_t dim : blob.shape.dims()) type->add_shape(dim);
  type->set_dtype(ToProto(blob.dtype));
}

// The run's memory, and the run itself, stay as long as the tensor does.
void ValueOf(const TBlob& blob, const Completion& keep, v1::Tensor* proto, Attachments* attachments) {
  auto buffer = std::make_shared<Buffer>(blob.data, blob.bytes(), Device(), [keep] {});
  int64_t left = int64_t{1} << 40;
  (void)EncodeTensor(Tensor(std::move(buffer), 0, blob.shape, blob.dtype), v1::RAW, &left, proto, attachments);
}

template <class List>
void ValuesOf(const std::vector<TBlob>& blobs, const Completion& keep, List* list, Attachments* attachments) {
  for (const TBlob& blob : blobs) ValueOf(blob, keep, list->Add(), attachments);
}

void OperandsOf(const std::vector<TBlob>& blobs, const Completion& keep,
                google::protobuf::RepeatedPtrField<v1::Callback::Operand>* list, Attachments* attachments) {
  for (const TBlob& blob : blobs) {
    v1::Callback::Operand* operand = list->Add();
    operand->set_absent(blob.data == nullptr && (!blob.shape.known() || blob.Size() > 0));
    if (!operand->absent()) ValueOf(blob, keep, operand->mutable_tensor(), attachments);
  }
}

absl::Status Write(const Tensor& value, const TBlob& to, OpReqType req) {
  if (value.shape() != to.shape || value.dtype() != to.dtype) {
    return absl::InvalidArgumentError(absl::StrCat("its client gave ", Name(value.dtype()), value.shape().ToString(),
                                                   ", expected ", Name(to.dtype), to.shape.ToString()));
  }
  if (req == kNullOp || to.bytes() == 0) return absl::OkStatus();
  if (req != kAddTo) {
    std::memcpy(to.data, value.data(), to.bytes());
    return absl::OkStatus();
  }
  DTypeSwitch(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    using W = typename Wide<T>::Type;
    for (int64_t i = 0; i < to.Size(); ++i) {
      T* const y = to.dptr<T>() + i;
      *y = static_cast<T>(static_cast<W>(*y) + static_cast<W>(value.data<T>()[i]));
    }
  });
  return absl::OkStatus();
}

absl::Status WriteAll(const google::protobuf::RepeatedPtrField<v1::Tensor>& list, const Attachments& attachments,
                      const std::vector<TBlob>& to, const std::vector<OpReqType>& req, absl::string_view what) {
  if (static_cast<size_t>(list.size()) != to.size()) {
    return absl::InvalidArgumentError(absl::StrCat("its client gave ", list.size(), " ", what, ", expected ", to.size()));
  }
  HeapMemory host;
  for (int i = 0; i < list.size(); ++i) {
    const auto n = static_cast<size_t>(i);
    if (!req.empty() && req[n] == kNullOp) continue;
    absl::Status status;
    if (list[i].has_fill()) {
      status = absl::InvalidArgumentError("a value is a `fill`, expected raw or typed ones");
    } else if (absl::StatusOr<Tensor> value = DecodeTensor(list[i], attachments, host); value.ok()) {
      status = Write(*value, to[n], req.empty() ? kWriteTo : req[n]);
    } else if (to[n].Size() > 0) {
      status = value.status();
    }
    if (!status.ok()) return Annotate(status, absl::StrCat(what, " ", i));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> KnownShape(const v1::ArrayType& type) {
  if (!type.has_shape()) return Shape();
  return ShapeFromProto(type.shape(), /*known=*/false);
}
absl::StatusOr<DType> KnownType(const v1::ArrayType& type) {
  if (!type.has_dtype()) return DType::kUnknown;
  return FromProto(type.dtype());
}

template <class Inference, class From>
absl::StatusOr<Inference> InferenceFrom(const v1::CallbackResult& result, From from) {
  if (!result.has_inferred()) return absl::InvalidArgumentError("its client did not answer with `inferred`");
  Inference inference;
  for (const auto& type : result.inferred().arguments()) {
    ASSIGN_OR_RETURN(inference.arguments.emplace_back(), from(type));
  }
  for (const auto& type : result.inferred().outputs()) {
    ASSIGN_OR_RETURN(inference.outputs.emplace_back(), from(type));
  }
  for (const auto& type : result.inferred().auxiliary()) {
    ASSIGN_OR_RETURN(inference.auxiliary.emplace_back(), from(type));
  }
  return inference;
}

}  // namespace

v1::Callback ToCallback(const CustomCall& call, Attachments* attachments) {
  v1::Callback callback;
  const Completion& keep = call.completion;
  if (call.kind != CustomCall::kFunction) AddAttributes(call.op, &callback);
  const auto fill_results = [&](auto* types, auto* wanted) {
    for (size_t i = 0; i < call.results.size(); ++i) {
      TypeOf(call.results[i], types->Add());
      wanted->Add(call.requests[i] != kNullOp);
    }
  };
  if (call.kind == CustomCall::kForward) {
    v1::Callback::Forward* forward = callback.mutable_forward();
    forward->set_instance(call.instance);
    forward->set_keep(call.keep);
    forward->set_training(call.training);
    forward->set_device(call.device.ToString());
    ValuesOf(call.arguments, keep, forward->mutable_arguments(), attachments);
    ValuesOf(call.auxiliary, keep, forward->mutable_auxiliary(), attachments);
    fill_results(forward->mutable_outputs(), forward->mutable_wanted());
  } else if (call.kind == CustomCall::kBackward) {
    v1::Callback::BackwardCall* backward = callback.mutable_backward();
    backward->set_instance(call.instance);
    backward->set_training(call.training);
    backward->set_device(call.device.ToString());
    OperandsOf(call.out_grads, keep, backward->mutable_out_grads(), attachments);
    OperandsOf(call.arguments, keep, backward->mutable_arguments(), attachments);
    OperandsOf(call.outputs, keep, backward->mutable_outputs(), attachments);
    ValuesOf(call.auxiliary, keep, backward->mutable_auxiliary(), attachments);
    fill_results(backward->mutable_gradients(), backward->mutable_wanted());
  } else {
    v1::Callback::FunctionBackward* function = callback.mutable_function();
    function->set_function(call.instance);
    ValuesOf(call.out_grads, keep, function->mutable_out_grads(), attachments);
    fill_results(function->mutable_gradients(), function->mutable_wanted());
  }
  return callback;
}

v1::Callback ToCallback(const CustomOperator& op, const ShapeVector& arguments) {
  v1::Callback callback;
  AddAttributes(op, &callback);
  callback.mutable_infer_shape();
  for (const Shape& shape : arguments) {
    v1::ArrayType* type = callback.mutable_infer_shape()->add_arguments();
    type->set_has_shape(shape.rank_known());
    for (const int64_t dim : shape.dims()) type->add_shape(dim);
  }
  return callback;
}

v1::Callback ToCallback(const CustomOperator& op, const TypeVector& arguments) {
  v1::Callback callback;
  AddAttributes(op, &callback);
  callback.mutable_infer_type();
  for (const DType dtype : arguments) {
    v1::ArrayType* type = callback.mutable_infer_type()->add_arguments();
    if (dtype != DType::kUnknown) type->set_dtype(ToProto(dtype));
  }
  return callback;
}

absl::Status WriteResults(const v1::CallbackResult& result, const Attachments& attachments, const CustomCall& call) {
  if (!result.has_computed()) return absl::InvalidArgumentError("its client did not answer with `computed`");
  const bool is_forward = call.kind == CustomCall::kForward;
  RETURN_IF_ERROR(WriteAll(result.computed().outputs(), attachments, call.results, call.requests,
                           is_forward ? "output" : "gradient"));
  if (!is_forward || result.computed().auxiliary().empty()) return absl::OkStatus();
  return WriteAll(result.computed().auxiliary(), attachments, call.auxiliary, {}, "auxiliary state");
}

absl::StatusOr<CustomHost::Inference> ShapesFrom(const v1::CallbackResult& result) {
  return InferenceFrom<CustomHost::Inference>(result, KnownShape);
}
absl::StatusOr<CustomHost::TypeInference> TypesFrom(const v1::CallbackResult& result) {
  return InferenceFrom<CustomHost::TypeInference>(result, KnownType);
}

absl::Status FailureOf(const v1::CallbackResult& result, absl::string_view what) {
  const v1::CallbackResult::CallbackFailure& failure = result.failure();
  absl::Status status = absl::UnknownError(absl::StrCat(what, " failed in its client: ", failure.type(), ": ",
                                                        failure.message().substr(0, kLongestMessage)));
  status.SetPayload(kTraceback, absl::Cord(failure.traceback().substr(0, kLongestTraceback)));
  return status;
}

}  // namespace gluond::server
