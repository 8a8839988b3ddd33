#include "server/custom/messages.h"

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/core/custom_spec.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/codec/tensor_codec.h"
#include "server/rpc/grpc_status.h"

namespace gluond::server {
namespace {

constexpr size_t kLongestType = 128, kLongestMessage = 2048, kLongestTraceback = 64 << 10;

// Memory for values that are not aligned in the message; they are as large as the message that brought them.
class HeapMemory final : public Allocator {
 public:
  Device device() const override { return {}; }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    constexpr std::align_val_t kAlignment{64};
    void* const data = ::operator new(bytes + 1, kAlignment);
    return std::make_shared<Buffer>(data, bytes, Device(), [data] { ::operator delete(data, kAlignment); });
  }
};

v1::Callback CallbackOf(const CustomOperator& op) {
  v1::Callback callback;
  callback.set_op_type(op.op_type);
  callback.mutable_attributes()->insert(op.attrs.begin(), op.attrs.end());
  return callback;
}

using Keep = std::shared_ptr<const void>;  // The type of ToCallback's `keep`.

void ValueOf(const TBlob& blob, const Keep& keep, v1::Tensor* proto, Attachments* attachments) {
  auto buffer = std::make_shared<Buffer>(blob.data, blob.bytes(), Device(), [keep] {});
  int64_t left = int64_t{1} << 40;
  (void)EncodeTensor(Tensor(std::move(buffer), 0, blob.shape, blob.dtype), v1::Tensor::RAW, &left, proto, attachments);
}

template <class List>
void ValuesOf(const std::vector<TBlob>& blobs, const Keep& keep, List* list, Attachments* attachments) {
  for (const TBlob& blob : blobs) ValueOf(blob, keep, list->Add(), attachments);
}

void OperandsOf(const std::vector<TBlob>& blobs, const Keep& keep, google::protobuf::RepeatedPtrField<v1::Callback::Operand>* list,
                Attachments* attachments) {
  for (const TBlob& blob : blobs) {
    v1::Callback::Operand* operand = list->Add();
    operand->set_absent(blob.data == nullptr && (!blob.shape.known() || blob.Size() > 0));
    if (!operand->absent()) ValueOf(blob, keep, operand->mutable_tensor(), attachments);
  }
}

// A client's value, and the tensor that it goes to.
struct Result {
  Tensor value;
  TBlob to;
  OpReqType req;
};

absl::StatusOr<Tensor> Decode(const v1::Tensor& proto, const Attachments& attachments, const TBlob& to) {
  HeapMemory host;
  if (proto.has_fill()) return absl::InvalidArgumentError("a value is a `fill`, expected raw or typed ones");
  ASSIGN_OR_RETURN(Tensor value, DecodeTensor(proto, attachments, host));
  if (value.shape() == to.shape && value.dtype() == to.dtype) return value;
  return Invalid("its client gave ", Name(value.dtype()), value.shape().ToString(), ", expected ", Name(to.dtype),
                 to.shape.ToString());
}

absl::Status AddResults(const google::protobuf::RepeatedPtrField<v1::Tensor>& list, const Attachments& attachments,
                        const std::vector<TBlob>& to, const std::vector<OpReqType>& req, absl::string_view what,
                        std::vector<Result>* results) {
  if (static_cast<size_t>(list.size()) != to.size()) {
    return Invalid("its client gave ", list.size(), " ", what, "s, expected ", to.size());
  }
  for (int i = 0; i < list.size(); ++i) {
    const auto n = static_cast<size_t>(i);
    const OpReqType request = req.empty() ? kWriteTo : req[n];
    if (request == kNullOp || to[n].bytes() == 0) continue;
    absl::StatusOr<Tensor> value = Decode(list[i], attachments, to[n]);
    if (!value.ok()) return Annotate(value.status(), absl::StrCat(what, " ", i));
    results->push_back({*std::move(value), to[n], request});
  }
  return absl::OkStatus();
}

void Write(const Result& result) {
  const TBlob& to = result.to;
  if (result.req != kAddTo) {
    std::memcpy(to.data, result.value.data(), to.bytes());
    return;
  }
  DispatchType(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const value = result.value.data<T>();
    for (int64_t i = 0; i < to.Size(); ++i) Assign(to.dptr<T>(), i, Convert<Acc<T>>(value[i]), /*add=*/true);
  });
}

// The text's first `limit` bytes at most, without a part of a character.
std::string Head(const std::string& text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return absl::StrCat(text.substr(0, limit), "...");
}

template <class List, class Values, class From>
absl::Status ListFrom(const List& list, Values* values, From from) {
  if (static_cast<size_t>(list.size()) > kMostCustomArrays) {
    return Invalid("its client tells of ", list.size(), " arrays, at most ", kMostCustomArrays, " are possible");
  }
  for (const v1::ArrayType& type : list) {
    ASSIGN_OR_RETURN(values->emplace_back(), from(type));
  }
  return absl::OkStatus();
}

template <class Inference, class From>
absl::Status InferenceFrom(const v1::CallbackResult& result, Inference* inference, From from) {
  if (!result.has_inferred()) return absl::InvalidArgumentError("its client did not answer with `inferred`");
  RETURN_IF_ERROR(ListFrom(result.inferred().arguments(), &inference->arguments, from));
  RETURN_IF_ERROR(ListFrom(result.inferred().outputs(), &inference->outputs, from));
  return ListFrom(result.inferred().auxiliary(), &inference->auxiliary, from);
}

}  // namespace

v1::Callback ToCallback(const CustomCall& call, const Keep& keep, Attachments* attachments) {
  v1::Callback callback = call.kind == CustomCall::kFunction ? v1::Callback() : CallbackOf(call.op);
  const auto fill_results = [&](google::protobuf::RepeatedPtrField<v1::Callback::Wanted>* results) {
    for (size_t i = 0; i < call.results.size(); ++i) {
      v1::Callback::Wanted* result = results->Add();
      TypeToProto(call.results[i].shape, call.results[i].dtype, result->mutable_type());
      result->set_wanted(call.requests[i] != kNullOp);
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
    fill_results(forward->mutable_outputs());
  } else if (call.kind == CustomCall::kBackward) {
    v1::Callback::BackwardCall* backward = callback.mutable_backward();
    backward->set_instance(call.instance);
    backward->set_training(call.training);
    backward->set_device(call.device.ToString());
    OperandsOf(call.out_grads, keep, backward->mutable_out_grads(), attachments);
    OperandsOf(call.arguments, keep, backward->mutable_arguments(), attachments);
    OperandsOf(call.outputs, keep, backward->mutable_outputs(), attachments);
    ValuesOf(call.auxiliary, keep, backward->mutable_auxiliary(), attachments);
    fill_results(backward->mutable_gradients());
  } else {
    v1::Callback::FunctionBackward* function = callback.mutable_function();
    function->set_function(call.instance);
    ValuesOf(call.out_grads, keep, function->mutable_out_grads(), attachments);
    fill_results(function->mutable_gradients());
  }
  return callback;
}

v1::Callback ToCallback(const CustomOperator& op, const ShapeVector& arguments) {
  v1::Callback callback = CallbackOf(op);
  auto* const infer = callback.mutable_infer_shape();
  for (const Shape& shape : arguments) TypeToProto(shape, DType::kUnknown, infer->add_arguments());
  return callback;
}

v1::Callback ToCallback(const CustomOperator& op, const TypeVector& arguments) {
  v1::Callback callback = CallbackOf(op);
  auto* const infer = callback.mutable_infer_type();
  for (const DType dtype : arguments) TypeToProto(Shape(), dtype, infer->add_arguments());
  return callback;
}

absl::Status WriteResults(const v1::CallbackResult& result, const Attachments& attachments, const CustomCall& call) {
  if (!result.has_computed()) return absl::InvalidArgumentError("its client did not answer with `computed`");
  std::vector<Result> results;
  RETURN_IF_ERROR(AddResults(result.computed().outputs(), attachments, call.results, call.requests,
                             call.kind == CustomCall::kForward ? "output" : "gradient", &results));
  if (!result.computed().auxiliary().empty()) {
    RETURN_IF_ERROR(AddResults(result.computed().auxiliary(), attachments, call.auxiliary, {}, "auxiliary state", &results));
  }
  for (const Result& one : results) Write(one);
  return absl::OkStatus();
}

absl::Status ShapesFrom(const v1::CallbackResult& result, CustomHost::Inference* shapes) {
  return InferenceFrom(result, shapes, ShapeOf);
}
absl::Status TypesFrom(const v1::CallbackResult& result, CustomHost::TypeInference* types) {
  return InferenceFrom(result, types, DTypeFromProto);
}

absl::Status FailureOf(const v1::CallbackResult& result, absl::string_view what) {
  const v1::CallbackResult::CallbackFailure& failure = result.failure();
  absl::Status status = WithInfo(FailedPrecondition(what, " failed in its client: ", Head(failure.type(), kLongestType), ": ",
                                                    Head(failure.message(), kLongestMessage)),
                                 reason::kOperatorFailed);
  status.SetPayload(kTraceback, absl::Cord(Head(failure.traceback(), kLongestTraceback)));
  return status;
}

}  // namespace gluond::server
