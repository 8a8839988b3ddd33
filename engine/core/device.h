// A Device is a place where memory lies and kernels run; a DeviceDriver allocates, copies and waits there.
// The CPU's driver is always there. A plugin (ops/kernel, built by nvcc) registers the GPU's at load.

#ifndef ENGINE_CORE_DEVICE_H_
#define ENGINE_CORE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond {

enum class DeviceType : int8_t { kCpu = 1, kGpu = 2 };  // MXNet's dev_type numbers.

struct Device {
  DeviceType type = DeviceType::kCpu;
  int id = 0;

  // "cpu", "gpu:0".
  std::string ToString() const;
  // Accepts "cpu", "cpu:0", "gpu", "gpu:1", and MXNet's "cpu(0)", "gpu(1)". INVALID_ARGUMENT otherwise.
  static absl::StatusOr<Device> Parse(absl::string_view text);

  friend bool operator==(Device a, Device b) { return a.type == b.type && a.id == b.id; }
  friend bool operator!=(Device a, Device b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& os, Device d) { return os << d.ToString(); }
};

// Tags for templates and attribute keys, as in FCompute<cpu>.
struct cpu {
  static constexpr DeviceType kType = DeviceType::kCpu;
};
struct gpu {
  static constexpr DeviceType kType = DeviceType::kGpu;
};

// Memory and order of execution on one device. Thread-safe. `stream` is nullptr on a CPU, a cudaStream_t on
// a GPU; work on one stream runs in order.
class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;

  virtual std::string description() const = 0;  // "NVIDIA H100, 78 GiB", for people.
  virtual int64_t total_bytes() const = 0;
  // All processes' bytes on a GPU; this process's on the CPU.
  virtual int64_t used_bytes() const = 0;
  // UNAVAILABLE: the device has failed for good, with all that it held; every call for it fails with this.
  virtual absl::Status health() const { return absl::OkStatus(); }

  // At least 64-byte aligned. RESOURCE_EXHAUSTED when the device has no more.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  virtual void Free(void* data, size_t bytes) = 0;

  virtual absl::StatusOr<void*> CreateStream() = 0;
  virtual void DestroyStream(void* stream) = 0;
  // Returns when everything put on `stream` so far has run. Reports an error from there.
  virtual absl::Status Synchronize(void* stream) = 0;

  // To be called after `operators` were put on `stream`. Where many operators are under way, or a few long ones, the
  // call waits until the earlier ones have run. So the next user of the stream waits for some 20 ms of them at most.
  virtual absl::Status Pace(void* stream, size_t operators) = 0;

  // Copies between host and device, behind what is on `stream`. `from` may change as soon as CopyFromHost returns, and
  // CopyToHost waits until `to` is filled.
  virtual absl::Status CopyFromHost(void* to, const void* from, size_t bytes, void* stream) = 0;
  virtual absl::Status CopyToHost(void* to, const void* from, size_t bytes, void* stream) = 0;
  // These work within the device, on `stream`.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes, void* stream) = 0;
  virtual absl::Status Zero(void* to, size_t bytes, void* stream) = 0;
};

// The driver of `device`. UNAVAILABLE: no driver of that kind is registered, or the device is not there;
// the message lists the devices that are.
absl::StatusOr<DeviceDriver*> FindDriver(Device device);

// Called by a plugin at load, with the driver of GPU 0, 1, ... in order. Drivers live until exit.
void RegisterGpuDriver(std::unique_ptr<DeviceDriver> driver);
int NumGpus();

}  // namespace gluond

#endif  // ENGINE_CORE_DEVICE_H_
