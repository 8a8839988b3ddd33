// A checkpoint's tensors: what ReadSafetensors takes, WriteSafetensors writes so that it reads the same again.

#include "engine/store/safetensors.h"

#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "tests/fuzz/fuzz.h"

namespace gluond::fuzz {
namespace {

// Metadata, and names, types and values of the tensors.
std::string Describe(const Safetensors& file) {
  std::string text;
  for (const auto& [key, value] : file.metadata) absl::StrAppend(&text, key.size(), key, "=", value, ";");
  for (const NamedTensor& named : file.tensors) {
    const Tensor& t = named.tensor;
    absl::StrAppend(&text, named.name.size(), named.name, Name(t.dtype()), t.shape().ToString());
    if (t.bytes() > 0) text.append(t.data<char>(), t.bytes());
  }
  return text;
}

void Check(absl::string_view bytes) {
  const auto budget = std::make_shared<Budget>("the fuzzer", 1 << 20, "--max_tensor_bytes");
  const std::unique_ptr<DeviceAllocator> memory = *DeviceAllocator::Create(Device(), budget);
  {
    const absl::StatusOr<Safetensors> file = ReadSafetensors(bytes, *memory);
    RequireCode(file.status(), {absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted});
    if (file.ok()) {
      std::string written;
      const absl::Status status = WriteSafetensors(file->tensors, file->metadata, [&](absl::string_view piece) {
        written.append(piece.data(), piece.size());
        return absl::OkStatus();
      });
      Require(status.ok(), status.ToString());
      const absl::StatusOr<Safetensors> again = ReadSafetensors(written, *memory);
      Require(again.ok() || absl::IsResourceExhausted(again.status()), again.status().ToString());
      Require(!again.ok() || Describe(*again) == Describe(*file), "tensors are read as they were written");
    }
  }
  Require(budget->used() == 0, "all memory is given back");
}

}  // namespace
}  // namespace gluond::fuzz

// A file as it is; or, since no mutation gets its length right, a header that ends with a line, and the tensors' bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  gluond::fuzz::Check(bytes);
  const size_t line = bytes.find('\n');
  if (line == absl::string_view::npos) return 0;
  const uint64_t length = line;
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file.append(bytes.data(), line);
  file.append(bytes.data() + line + 1, size - line - 1);
  gluond::fuzz::Check(file);
  return 0;
}
