// The plugin's entry, and the driver of one GPU.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "engine/core/device.h"
#include "ops/kernel/cuda_library.h"
#include "ops/kernel/cuda_plugin.h"

namespace gluond::ops {
namespace {

class CudaDriver final : public DeviceDriver {
 public:
  CudaDriver(int id, const cudaDeviceProp& properties)
      : id_(id),
        total_bytes_(static_cast<int64_t>(properties.totalGlobalMem)),
        description_(absl::StrCat(properties.name, ", ", total_bytes_ >> 30, " GiB")) {}

  std::string description() const override { return description_; }
  int64_t total_bytes() const override { return total_bytes_; }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    RETURN_IF_ERROR(Select());
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes == 0 ? 1 : bytes);
    if (error == cudaSuccess) return data;
    cudaGetLastError();  // So that the next kernel launch does not report it again.
    if (error == cudaErrorMemoryAllocation) {
      return absl::ResourceExhaustedError(
          absl::StrCat("gpu:", id_, " (", description_, ") has no ", bytes, " bytes left"));
    }
    return CudaStatus(error, absl::StrCat("gpu:", id_, ": allocating ", bytes, " bytes"));
  }
  void Free(void* data, size_t) override {
    if (Select().ok()) cudaFree(data);
  }

  absl::StatusOr<void*> CreateStream() override {
    RETURN_IF_ERROR(Select());
    cudaStream_t stream = nullptr;
    RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
    return static_cast<void*>(stream);
  }
  void DestroyStream(void* stream) override {
    if (Select().ok()) cudaStreamDestroy(static_cast<cudaStream_t>(stream));
  }
  absl::Status Synchronize(void* stream) override {
    RETURN_IF_ERROR(Select());
    return CudaStatus(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), absl::StrCat("gpu:", id_));
  }

  absl::Status CopyFromHost(void* to, const void* from, size_t bytes, void* stream) override {
    return CopyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream);
  }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes, void* stream) override {
    return CopyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream);
  }
  absl::Status Copy(void* to, const void* from, size_t bytes, void* stream) override {
    return CopyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  absl::Status Zero(void* to, size_t bytes, void* stream) override {
    if (bytes == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Select());
    return CudaStatus(cudaMemsetAsync(to, 0, bytes, static_cast<cudaStream_t>(stream)), "cudaMemset");
  }

 private:
  // CUDA's current device is a property of the thread.
  absl::Status Select() { return CudaStatus(cudaSetDevice(id_), "cudaSetDevice"); }

  absl::Status CopyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, void* stream) {
    if (bytes == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Select());
    return CudaStatus(cudaMemcpyAsync(to, from, bytes, kind, static_cast<cudaStream_t>(stream)), "cudaMemcpy");
  }

  const int id_;
  const int64_t total_bytes_;
  const std::string description_;
};

// Registers all GPUs, or none.
absl::Status RegisterAll() {
  int count = 0;
  RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&count), "looking for GPUs"));
  if (count == 0) return absl::UnavailableError("the CUDA driver finds no GPU");
  std::vector<std::unique_ptr<DeviceDriver>> drivers;
  for (int id = 0; id < count; ++id) {
    cudaDeviceProp properties;
    RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, id), absl::StrCat("gpu:", id)));
    drivers.push_back(std::make_unique<CudaDriver>(id, properties));
  }
  for (auto& driver : drivers) RegisterGpuDriver(std::move(driver));
  return absl::OkStatus();
}

}  // namespace
}  // namespace gluond::ops

extern "C" {

// Read from the file before it is loaded; see cuda_plugin.h.
__attribute__((visibility("default"), used)) extern const char gluond_cuda_build_id[] =
    GLUOND_CUDA_BUILD_MARK GLUOND_BUILD_ID ";";

__attribute__((visibility("default"))) int gluond_cuda_start(const char* build_id, char* message, size_t size) {
  if (std::strcmp(build_id, GLUOND_BUILD_ID) != 0) {
    std::snprintf(message, size, "the plugin is of build %s, the server of build %s", GLUOND_BUILD_ID, build_id);
    return 1;
  }
  const absl::Status status = gluond::ops::RegisterAll();
  if (status.ok()) return 0;
  std::snprintf(message, size, "%s", std::string(status.message()).c_str());
  return 1;
}

}  // extern "C"
