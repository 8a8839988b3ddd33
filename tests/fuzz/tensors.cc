// Tensors from the wire: what is taken is sent back, in each form, so that it is the same when it is taken again; what is
// refused takes no memory.

#include <cstring>
#include <memory>

#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "gluond/v1/operator.pb.h"
#include "server/codec/tensors_codec.h"
#include "server/wire/wire_message.h"
#include "tests/fuzz/fuzz.h"

namespace gluond::fuzz {
namespace {

using Code = absl::StatusCode;

bool Equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// As `form`, and back.
absl::StatusOr<std::vector<Tensor>> SentBack(const std::vector<Tensor>& tensors, v1::Tensor::Encoding form, Allocator& memory) {
  v1::InvokeResponse response;
  server::Attachments attachments;
  const absl::Status status = server::EncodeTensors(tensors, form, 1 << 20, response.mutable_outputs(), &attachments);
  Require(status.ok() || absl::IsResourceExhausted(status), status.ToString());
  if (!status.ok()) return status;
  return server::DecodeTensors(response.outputs(), attachments, memory);
}

void CheckForms(const std::vector<Tensor>& tensors, Allocator& memory) {
  for (const auto form : {v1::Tensor::RAW, v1::Tensor::TYPED}) {
    const auto once = SentBack(tensors, form, memory);
    RequireCode(once.status(), {Code::kResourceExhausted});
    if (!once.ok()) continue;
    const auto twice = SentBack(*once, form, memory);  // A typed NaN has lost its payload, which comes of no client's loss.
    RequireCode(twice.status(), {Code::kResourceExhausted});
    Require(once->size() == tensors.size(), "as many tensors");
    for (size_t i = 0; i < tensors.size(); ++i) {
      Require(form == v1::Tensor::TYPED || Equal((*once)[i], tensors[i]), "raw bytes are what they were");
      Require(!twice.ok() || Equal((*twice)[i], (*once)[i]), "values are what they were");
    }
  }
  v1::InvokeResponse summary;
  server::Attachments none;
  Require(server::EncodeTensors(tensors, v1::Tensor::STATISTICS, 1 << 20, summary.mutable_outputs(), &none).ok(), "statistics");
}

void Run(const v1::InvokeRequest& input) {
  const auto budget = std::make_shared<Budget>("the fuzzer", 1 << 18, "--max_tensor_bytes");
  const std::unique_ptr<DeviceAllocator> memory = *DeviceAllocator::Create(Device(), budget);
  {
    v1::InvokeRequest request;
    server::Attachments attachments;
    if (!server::ParseMessage({grpc::Slice(input.SerializeAsString())}, &request, &attachments).ok()) return;
    const auto list = server::DecodeTensors(request.inputs(), attachments, *memory);
    RequireCode(list.status(), {Code::kInvalidArgument, Code::kResourceExhausted});
    if (list.ok()) CheckForms(*list, *memory);
    server::TensorMap map;
    for (const v1::Tensor& tensor : request.inputs()) map[std::to_string(map.size() % 3)] = tensor;
    const auto named = server::DecodeTensors("input", map, attachments, *memory);
    RequireCode(named.status(), {Code::kInvalidArgument, Code::kResourceExhausted});
    Require(!list.ok() || named.ok() || absl::IsResourceExhausted(named.status()), "a map of them is taken as a list is");
  }
  Require(budget->used() == 0, "all memory is given back");
}

}  // namespace
}  // namespace gluond::fuzz

STRUCTURED_FUZZ_TARGET(v1::InvokeRequest, Run, {})
