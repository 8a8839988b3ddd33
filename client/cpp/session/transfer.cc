#include "client/cpp/session/transfer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/session/pipeline.h"
#include "client/cpp/session/wire.h"
#include "client/cpp/tensor_message.h"
#include "gluond/status_macros.h"
#include "gluond/v1/command.pb.h"
#include "gluond/v1/tensor.pb.h"

namespace gluond::client {
namespace {

// The bytes of a piece of a large array on its way here: it stays in the processor's cache while it is copied.
constexpr int64_t kPiece = int64_t{1} << 20;

absl::Status PutWhole(SessionCore& session, uint64_t name, DType dtype, const Shape& shape, absl::string_view bytes,
                      const std::string& device, Place place) {
  v1::Tensor head;
  head.set_dtype(ToProto(dtype));
  for (const int64_t size : shape) head.add_shape(size);
  std::string tensor = head.SerializeAsString();
  AppendHead(v1::Tensor::kRawFieldNumber, bytes.size(), &tensor);
  std::string put;
  put.reserve(bytes.size() + tensor.size() + device.size() + 40);
  AppendNumber(v1::Command::Put::kArrayFieldNumber, name, &put);
  if (!device.empty()) AppendBytes(v1::Command::Put::kDeviceFieldNumber, device, &put);
  AppendHead(v1::Command::Put::kTensorFieldNumber, tensor.size() + bytes.size(), &put);
  put += tensor;
  put.append(bytes.data(), bytes.size());
  return session.pipeline().Submit(CommandOf(v1::Command::kPutFieldNumber, absl::string_view(put)), place);
}

absl::Status PutInPieces(SessionCore& session, uint64_t name, DType dtype, const Shape& shape, absl::string_view bytes,
                         const std::string& device, size_t piece, Place place) {
  // Names are freed when the call has been given: the server has the values by then.
  std::vector<std::unique_ptr<ArrayState>> parts;
  v1::Command::Invoke join, reshape;
  const auto temporary = [&] {
    parts.push_back(std::make_unique<ArrayState>(session.shared_from_this(), session.NewArray()));
    return parts.back()->name;
  };
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    const absl::string_view part = bytes.substr(begin, piece);
    const uint64_t part_name = temporary();
    join.add_inputs(part_name);
    GLUOND_RETURN_IF_ERROR(
        PutWhole(session, part_name, dtype, {static_cast<int64_t>(part.size()) / ElementSize(dtype)}, part, device, place));
  }
  Value::Tuple sizes;
  for (const int64_t size : shape) sizes.emplace_back(size);
  GLUOND_ASSIGN_OR_RETURN(const auto joining, session.CallOf("Concat", {{"num_args", join.inputs_size()}, {"dim", 0}},
                                                             static_cast<size_t>(join.inputs_size()), 1, nullptr, place));
  GLUOND_ASSIGN_OR_RETURN(const auto reshaping, session.CallOf("Reshape", {{"shape", sizes}}, 1, 1, nullptr, place));
  join.set_call(joining->name);
  join.add_outputs(temporary());
  reshape.set_call(reshaping->name);
  reshape.add_inputs(join.outputs(0));
  reshape.add_outputs(name);
  GLUOND_RETURN_IF_ERROR(session.pipeline().Submit(CommandOf(v1::Command::kInvokeFieldNumber, join), place));
  return session.pipeline().Submit(CommandOf(v1::Command::kInvokeFieldNumber, reshape), place);
}

absl::StatusOr<Tensor> FetchInPieces(SessionCore& session, uint64_t name, Place place) {
  // The values of one moment: later writes do not matter.
  const ArrayState snapshot(session.shared_from_this(), session.NewArray());
  GLUOND_RETURN_IF_ERROR(AssignTo(session, snapshot.name, name, "", false, place));
  GLUOND_ASSIGN_OR_RETURN(Kind kind, Describe(session, snapshot.name, place));
  int64_t size = 1;
  for (const int64_t each : kind.shape) size *= each;
  const int64_t most = static_cast<int64_t>(session.pipeline().most_bytes()) / ElementSize(kind.dtype);
  const int64_t piece = std::min(kPiece / ElementSize(kind.dtype), most);
  std::vector<std::shared_ptr<Waiter>> waiters;
  for (int64_t begin = 0; begin < size; begin += piece) {
    v1::Command::Fetch fetch;
    fetch.add_arrays(snapshot.name);
    fetch.set_begin(static_cast<uint64_t>(begin));
    fetch.set_end(static_cast<uint64_t>(std::min(begin + piece, size)));
    GLUOND_ASSIGN_OR_RETURN(waiters.emplace_back(),
                            session.pipeline().Ask(CommandOf(v1::Command::kFetchFieldNumber, fetch), place));
  }
  std::string bytes;
  bytes.reserve(static_cast<size_t>(size * ElementSize(kind.dtype)));
  for (std::shared_ptr<Waiter>& waiter : waiters) {
    GLUOND_ASSIGN_OR_RETURN(const v1::Reply reply, session.pipeline().Await(waiter));
    waiter.reset();
    if (reply.tensors_size() == 1) bytes += reply.tensors(0).raw();
  }
  return Tensor::FromBytes(kind.dtype, std::move(kind.shape), std::move(bytes));
}

template <class T>
double As(const Tensor& tensor) {
  T value;
  std::memcpy(static_cast<void*>(&value), tensor.bytes().data(), sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

absl::Status Put(SessionCore& session, uint64_t name, DType dtype, const Shape& shape, absl::string_view bytes,
                 const std::string& device, Place place) {
  GLUOND_RETURN_IF_ERROR(CheckSize(dtype, shape, bytes.size()));
  const size_t most = session.pipeline().most_bytes() - shape.size() * 10 - device.size();
  if (bytes.size() <= most) return PutWhole(session, name, dtype, shape, bytes, device, place);
  const auto element = static_cast<size_t>(ElementSize(dtype));
  return PutInPieces(session, name, dtype, shape, bytes, device, most / element * element, place);
}

absl::StatusOr<Tensor> Fetch(SessionCore& session, uint64_t name, Place place) {
  v1::Command::Fetch fetch;
  fetch.add_arrays(name);
  auto reply = session.pipeline().Request(CommandOf(v1::Command::kFetchFieldNumber, fetch), place);
  if (absl::IsResourceExhausted(reply.status())) return FetchInPieces(session, name, place);
  if (!reply.ok()) return reply.status();
  if (reply->tensors_size() != 1) return absl::InternalError("the server's answer has no value; is it of another release?");
  return FromProto(std::move(*reply->mutable_tensors(0)));
}

absl::StatusOr<Kind> Describe(SessionCore& session, uint64_t name, Place place) {
  v1::Command::Describe describe;
  describe.add_arrays(name);
  GLUOND_ASSIGN_OR_RETURN(const v1::Reply reply,
                          session.pipeline().Request(CommandOf(v1::Command::kDescribeFieldNumber, describe), place));
  if (reply.arrays_size() != 1) return absl::InternalError("the server's answer has no type; is it of another release?");
  return Kind{{reply.arrays(0).shape().begin(), reply.arrays(0).shape().end()}, FromProto(reply.arrays(0).dtype())};
}

absl::Status AssignTo(SessionCore& session, uint64_t to, uint64_t from, const std::string& device, bool recording, Place place) {
  v1::Command::Assign assign;
  assign.set_to(to);
  assign.set_from(from);
  assign.set_device(device);
  assign.set_recording(recording);
  return session.pipeline().Submit(CommandOf(v1::Command::kAssignFieldNumber, assign), place);
}

double FirstOf(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return As<float>(tensor);
    case DType::kFloat64: return As<double>(tensor);
    case DType::kFloat16: return float(tensor.Values<Float16>()->front());
    case DType::kBfloat16: return float(tensor.Values<Bfloat16>()->front());
    case DType::kUint8:
    case DType::kBool: return As<uint8_t>(tensor);
    case DType::kInt8: return As<int8_t>(tensor);
    case DType::kInt32: return As<int32_t>(tensor);
    case DType::kInt64: return As<int64_t>(tensor);
  }
  return 0;
}

}  // namespace gluond::client
