// The plugin's entry, and the driver of one GPU.

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "engine/core/device.h"
#include "engine/core/mutex.h"
#include "ops/kernel/cuda/library.h"
#include "ops/kernel/cuda/pinned_copies.h"
#include "ops/kernel/cuda/plugin.h"

namespace gluond::ops {
namespace {

// True of errors after which CUDA refuses every call for the device.
bool IsForGood(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown: return true;
    default: return false;
  }
}

// One GPU, with one stream. Memory comes from CUDA's pool for that stream, which keeps the memory that is given back.
// So nobody waits for the device to get or free memory, and freed memory is used again behind the work that is under
// way.
class CudaDriver final : public DeviceDriver {
 public:
  CudaDriver(int id, const cudaDeviceProp& properties)
      : id_(id),
        total_bytes_(static_cast<int64_t>(properties.totalGlobalMem)),
        description_(absl::StrCat(properties.name, ", ", total_bytes_ >> 30, " GiB")) {}

  std::string description() const override { return description_; }
  int64_t total_bytes() const override { return total_bytes_; }
  int64_t used_bytes() const override {
    size_t free = 0, total = 0;
    if (!health().ok() || cudaSetDevice(id_) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
    return static_cast<int64_t>(total - free);
  }
  absl::Status health() const override {
    if (!has_failed_.load(std::memory_order_acquire)) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("the device (", description_, ") has failed, and what it held is lost: ",
                                               cudaGetErrorString(failure_), "; restart the server"));
  }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    RETURN_IF_ERROR(Select());
    void* data = nullptr;
    cudaError_t error = cudaMallocAsync(&data, std::max<size_t>(1, bytes), stream_);
    if (error == cudaErrorMemoryAllocation) {  // Some may be on its way back, or kept in pieces of other sizes.
      (void)cudaGetLastError();
      RETURN_IF_ERROR(Check(cudaStreamSynchronize(stream_), "what was under way"));
      RETURN_IF_ERROR(Check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo"));
      error = cudaMallocAsync(&data, std::max<size_t>(1, bytes), stream_);
    }
    if (error != cudaErrorMemoryAllocation) {
      RETURN_IF_ERROR(Check(error, "cudaMallocAsync"));
      return data;
    }
    (void)cudaGetLastError();
    return absl::ResourceExhaustedError(absl::StrCat("the device (", description_, ") has no ", bytes, " bytes left; ",
                                                     used_bytes(), " are in use, by this process and all others"));
  }
  void Free(void* data, size_t) override {
    if (Select().ok()) Check(cudaFreeAsync(data, stream_), "cudaFreeAsync").IgnoreError();
  }

  absl::StatusOr<void*> CreateStream() override {
    RETURN_IF_ERROR(Select());
    return static_cast<void*>(stream_);
  }
  void DestroyStream(void*) override {}  // All share one stream.
  absl::Status Synchronize(void* stream) override {
    RETURN_IF_ERROR(Select());
    return Check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "what was under way");
  }

  absl::Status Pace(void* stream, size_t operators) override {
    MutexLock lock(pace_mu_);
    unmarked_ += operators;
    if (unmarked_ < operators_per_mark_) return health();
    unmarked_ = 0;
    RETURN_IF_ERROR(Select());
    cudaEvent_t& mark = marks_[next_mark_++ % marks_.size()];
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(mark == nullptr ? Check(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming), "cudaEventCreate")
                                    : Check(cudaEventSynchronize(mark), "what was under way"));
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > kLongWait) operators_per_mark_ = std::max<size_t>(1, operators_per_mark_ / 2);
    if (waited < kLongWait / 10) operators_per_mark_ = std::min(kMostPerMark, operators_per_mark_ * 2);
    return Check(cudaEventRecord(mark, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
  }

  absl::Status CopyFromHost(void* to, const void* from, size_t bytes, void* stream) override {
    if (bytes == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Select());
    return Check(copies_.ToDevice(to, from, bytes, static_cast<cudaStream_t>(stream)), "a copy from the host");
  }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes, void* stream) override {
    if (bytes == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Select());
    return Check(copies_.ToHost(to, from, bytes, static_cast<cudaStream_t>(stream)), "a copy to the host");
  }
  absl::Status Copy(void* to, const void* from, size_t bytes, void* stream) override {
    if (bytes == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Select());
    return Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)), "a copy");
  }
  absl::Status Zero(void* to, size_t bytes, void* stream) override {
    if (bytes == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Select());
    return Check(cudaMemsetAsync(to, 0, bytes, static_cast<cudaStream_t>(stream)), "cudaMemset");
  }

 private:
  // CUDA's current device is a property of the thread. Nothing is asked of a device that has failed, and nothing is
  // made on one that nobody uses.
  absl::Status Select() {
    RETURN_IF_ERROR(health());
    RETURN_IF_ERROR(Check(cudaSetDevice(id_), "cudaSetDevice"));
    MutexLock lock(open_mu_);
    if (stream_ != nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(Check(cudaDeviceGetDefaultMemPool(&pool_, id_), "cudaDeviceGetDefaultMemPool"));
    uint64_t kept = std::numeric_limits<uint64_t>::max();
    RETURN_IF_ERROR(Check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept), "cudaMemPoolSetAttribute"));
    return Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }

  // The first error that is for good is kept.
  absl::Status Check(cudaError_t error, absl::string_view what) {
    if (error == cudaSuccess) return absl::OkStatus();
    if (!IsForGood(error)) return CudaStatus(error, what);
    {
      MutexLock lock(mu_);
      if (!has_failed_.load(std::memory_order_relaxed)) failure_ = error;
      has_failed_.store(true, std::memory_order_release);
    }
    return health();
  }

  const int id_;
  const int64_t total_bytes_;
  const std::string description_;
  Mutex open_mu_;  // Guards the two that follow, until they are made.
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
  PinnedCopies copies_;
  // The work between two marks takes about kLongWait, and a client waits for twice that at most.
  static constexpr size_t kMostPerMark = 64;
  static constexpr std::chrono::milliseconds kLongWait{10};
  Mutex pace_mu_;
  std::array<cudaEvent_t, 2> marks_ ABSL_GUARDED_BY(pace_mu_){};
  size_t next_mark_ ABSL_GUARDED_BY(pace_mu_) = 0;
  size_t unmarked_ ABSL_GUARDED_BY(pace_mu_) = 0;
  size_t operators_per_mark_ ABSL_GUARDED_BY(pace_mu_) = kMostPerMark;
  Mutex mu_;
  cudaError_t failure_ = cudaSuccess;     // Set under mu_, once, before
  std::atomic<bool> has_failed_ = false;  // this is.
};

// The least GPU and driver for the plugin's code: see GENCODE in bazel/cuda.bzl, and CUDA's release notes.
constexpr int kLeastCapability = 8;
constexpr absl::string_view kLeastDriver = "580";

// Registers all GPUs, or none.
absl::Status RegisterAll() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    return absl::UnavailableError(absl::StrCat("the CUDA driver is too old; it must be of version ", kLeastDriver, " or newer"));
  }
  RETURN_IF_ERROR(CudaStatus(error, "looking for GPUs"));
  if (count == 0) return absl::UnavailableError("CUDA finds no GPU");
  std::vector<std::unique_ptr<DeviceDriver>> drivers;
  for (int id = 0; id < count; ++id) {
    cudaDeviceProp properties;
    RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, id), absl::StrCat("gpu:", id)));
    if (properties.major < kLeastCapability) {
      return absl::UnavailableError(absl::StrCat("gpu:", id, " (", properties.name, ") has CUDA compute capability ",
                                                 properties.major, ".", properties.minor, ", and ", kLeastCapability,
                                                 ".0 or more is needed; CUDA_VISIBLE_DEVICES can "
                                                 "leave it out"));
    }
    drivers.push_back(std::make_unique<CudaDriver>(id, properties));
  }
  for (auto& driver : drivers) RegisterGpuDriver(std::move(driver));
  return absl::OkStatus();
}

}  // namespace
}  // namespace gluond::ops

extern "C" {

// Read from the file before it is loaded; see plugin.h.
__attribute__((visibility("default"), used)) extern const char gluond_cuda_build_id[] = GLUOND_CUDA_BUILD_MARK GLUOND_BUILD_ID ";";

__attribute__((visibility("default"))) int gluond_cuda_start(const char* build_id, char* message, size_t size) {
  if (std::strcmp(build_id, GLUOND_BUILD_ID) != 0) {
    std::snprintf(message, size, "the plugin is of build %s, the server of build %s", GLUOND_BUILD_ID, build_id);
    return 1;
  }
  static const absl::Status status = gluond::ops::RegisterAll();  // Once, however often a program starts the plugin.
  if (status.ok()) return 0;
  std::snprintf(message, size, "%s", std::string(status.message()).c_str());
  return 1;
}

}  // extern "C"
