#include "engine/core/device.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/core/mutex.h"

namespace gluond {
namespace {

class CpuDriver final : public DeviceDriver {
 public:
  std::string description() const override { return absl::StrCat(sysconf(_SC_NPROCESSORS_ONLN), " CPUs"); }
  int64_t total_bytes() const override { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }
  int64_t used_bytes() const override {
    std::ifstream statm("/proc/self/statm");
    int64_t size = 0, resident = 0;
    statm >> size >> resident;
    return resident * sysconf(_SC_PAGESIZE);
  }
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    const size_t rounded = (bytes + 63) / 64 * 64;  // aligned_alloc wants a multiple of the alignment.
    void* data = std::aligned_alloc(64, rounded == 0 ? 64 : rounded);
    if (data != nullptr) return data;
    return absl::ResourceExhaustedError(absl::StrCat("the host has no ", bytes, " bytes left"));
  }
  void Free(void* data, size_t) override { std::free(data); }
  absl::StatusOr<void*> CreateStream() override { return nullptr; }
  void DestroyStream(void*) override {}
  absl::Status Synchronize(void*) override { return absl::OkStatus(); }
  absl::Status Pace(void*, size_t) override { return absl::OkStatus(); }
  absl::Status CopyFromHost(void* to, const void* from, size_t bytes, void*) override { return Copy(to, from, bytes, nullptr); }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes, void*) override { return Copy(to, from, bytes, nullptr); }
  absl::Status Copy(void* to, const void* from, size_t bytes, void*) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Zero(void* to, size_t bytes, void*) override {
    if (bytes > 0) std::memset(to, 0, bytes);
    return absl::OkStatus();
  }
};

struct Drivers {
  Mutex mu;
  CpuDriver cpu;
  std::vector<std::unique_ptr<DeviceDriver>> gpus ABSL_GUARDED_BY(mu);  // Only grows.
};

Drivers& AllDrivers() {
  static Drivers& drivers = *new Drivers;  // Never destroyed: buffers may outlive static destructors.
  return drivers;
}

}  // namespace

std::string Device::ToString() const { return type == DeviceType::kCpu ? "cpu" : absl::StrCat("gpu:", id); }

absl::StatusOr<Device> Device::Parse(absl::string_view text) {
  Device device;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "gpu")) {
    device.type = DeviceType::kGpu;
  } else if (!absl::ConsumePrefix(&rest, "cpu")) {
    rest = "?";
  }
  if (rest.empty()) return device;
  const bool has_id = absl::ConsumePrefix(&rest, "(") ? absl::ConsumeSuffix(&rest, ")") : absl::ConsumePrefix(&rest, ":");
  if (has_id && absl::SimpleAtoi(rest, &device.id) && device.id >= 0) return device;
  return absl::InvalidArgumentError(absl::StrCat("'", text.substr(0, 40), "' is not a device; want 'cpu' or 'gpu:0'"));
}

absl::StatusOr<DeviceDriver*> FindDriver(Device device) {
  Drivers& drivers = AllDrivers();
  if (device.type == DeviceType::kCpu) return &drivers.cpu;
  MutexLock lock(drivers.mu);
  if (device.id >= 0 && device.id < static_cast<int>(drivers.gpus.size())) {
    return drivers.gpus[device.id].get();
  }
  return absl::UnavailableError(
      absl::StrCat("device ", device.ToString(), " is not here; this process has the CPU",
                   drivers.gpus.empty() ? std::string(" only") : absl::StrCat(" and gpu:0 to gpu:", drivers.gpus.size() - 1)));
}

void RegisterGpuDriver(std::unique_ptr<DeviceDriver> driver) {
  MutexLock lock(AllDrivers().mu);
  AllDrivers().gpus.push_back(std::move(driver));
}

int NumGpus() {
  MutexLock lock(AllDrivers().mu);
  return static_cast<int>(AllDrivers().gpus.size());
}

}  // namespace gluond
