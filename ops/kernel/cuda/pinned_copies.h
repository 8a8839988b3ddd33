// PinnedCopies: copies between the host and one GPU through pinned memory, the only kind that a GPU reads and writes by
// itself. Bytes for the device are put into a ring of blocks, so that the caller's memory is free at once and nobody
// waits. Bytes from the device are waited for block by block, while the next block is under way. Thread-safe.

#ifndef OPS_KERNEL_CUDA_PINNED_COPIES_H_
#define OPS_KERNEL_CUDA_PINNED_COPIES_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "engine/core/mutex.h"

#define GLUOND_RETURN_IF_CUDA(expression) \
  if (const cudaError_t error = (expression); error != cudaSuccess) return error

namespace gluond::ops {

class PinnedCopies {
 public:
  // Requires, as does ToHost: the stream's device is the current one.
  cudaError_t ToDevice(void* to, const void* from, size_t bytes, cudaStream_t stream) {
    MutexLock lock(down_.mu);
    GLUOND_RETURN_IF_CUDA(down_.Open());
    for (size_t done = 0, piece; done < bytes; done += piece) {
      if (down_.used == kBlock) {
        GLUOND_RETURN_IF_CUDA(cudaEventRecord(down_.ended[down_.current], stream));
        down_.current = (down_.current + 1) % down_.data.size();
        down_.used = 0;
        GLUOND_RETURN_IF_CUDA(cudaEventSynchronize(down_.ended[down_.current]));
      }
      piece = std::min(bytes - done, kBlock - down_.used);
      char* const block = down_.data[down_.current] + down_.used;
      std::memcpy(block, static_cast<const char*>(from) + done, piece);
      down_.used += (piece + kAlignment - 1) / kAlignment * kAlignment;
      GLUOND_RETURN_IF_CUDA(cudaMemcpyAsync(static_cast<char*>(to) + done, block, piece, cudaMemcpyHostToDevice, stream));
    }
    return cudaSuccess;
  }

  // Returns when `to` is filled.
  cudaError_t ToHost(void* to, const void* from, size_t bytes, cudaStream_t stream) {
    MutexLock lock(up_.mu);
    GLUOND_RETURN_IF_CUDA(up_.Open());
    const size_t pieces = (bytes + kBlock - 1) / kBlock;
    const auto size = [&](size_t i) { return std::min(kBlock, bytes - i * kBlock); };
    for (size_t begun = 0, done = 0; done < pieces; ++done) {
      for (; begun < std::min(pieces, done + up_.data.size()); ++begun) {
        const size_t block = begun % up_.data.size();
        GLUOND_RETURN_IF_CUDA(cudaMemcpyAsync(up_.data[block], static_cast<const char*>(from) + begun * kBlock, size(begun),
                                              cudaMemcpyDeviceToHost, stream));
        GLUOND_RETURN_IF_CUDA(cudaEventRecord(up_.ended[block], stream));
      }
      const size_t block = done % up_.data.size();
      GLUOND_RETURN_IF_CUDA(cudaEventSynchronize(up_.ended[block]));
      std::memcpy(static_cast<char*>(to) + done * kBlock, up_.data[block], size(done));
    }
    return cudaSuccess;
  }

 private:
  static constexpr size_t kBlock = size_t{2} << 20;
  static constexpr size_t kAlignment = 256;

  // Blocks, each with the event behind its last copy.
  template <size_t count>
  struct Blocks {
    Blocks() = default;
    // Requires: no copy is under way.
    ~Blocks() {
      for (const cudaEvent_t event : ended)
        if (event != nullptr) cudaEventDestroy(event);
      for (char* const block : data)
        if (block != nullptr) cudaFreeHost(block);
    }
    // Makes them where they are not there.
    cudaError_t Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
      for (; made < count; ++made) {
        if (data[made] == nullptr) {
          GLUOND_RETURN_IF_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&data[made]), kBlock, cudaHostAllocDefault));
        }
        GLUOND_RETURN_IF_CUDA(cudaEventCreateWithFlags(&ended[made], cudaEventDisableTiming));
      }
      return cudaSuccess;
    }

    Mutex mu;
    std::array<char*, count> data ABSL_GUARDED_BY(mu){};
    std::array<cudaEvent_t, count> ended ABSL_GUARDED_BY(mu){};
    size_t made ABSL_GUARDED_BY(mu) = 0;
    size_t current ABSL_GUARDED_BY(mu) = 0;  // The block that is being filled,
    size_t used ABSL_GUARDED_BY(mu) = 0;     // and how much of it is.
  };

  Blocks<4> down_;
  Blocks<2> up_;
};

}  // namespace gluond::ops

#undef GLUOND_RETURN_IF_CUDA

#endif  // OPS_KERNEL_CUDA_PINNED_COPIES_H_
