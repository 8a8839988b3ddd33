// Indices that come from data: what to do with those that are out of range.

#ifndef OPS_KERNEL_INDEX_H_
#define OPS_KERNEL_INDEX_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {

enum IndexMode { kClip, kWrap, kRaise };  // The nearest that is there; modulo n; an error.

// Requires: n > 0. NaN has become 0 on loading.
HOST_DEVICE int64_t ToRange(int64_t i, int64_t n, IndexMode mode) {
  if (mode == kWrap) {
    const int64_t r = i % n;
    return r < 0 ? r + n : r;
  }
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}

// The position of the first of `indices` that is not in [low, high), or -1. On a GPU this waits for the stream.
template <class D>
absl::StatusOr<int64_t> FirstOutside(const OpContext& ctx, const TBlob& indices, int64_t low, int64_t high);

#ifndef __CUDACC__

template <>
inline absl::StatusOr<int64_t> FirstOutside<cpu>(const OpContext&, const TBlob& indices, int64_t low, int64_t high) {
  const In<int64_t> index(indices);
  for (int64_t i = 0; i < indices.Size(); ++i) {
    if (index[i] < low || index[i] >= high) return i;
  }
  return -1;
}

#else

struct FindOutside {
  In<int64_t> index;
  int64_t low, high;
  unsigned long long* first;  // The position of the first bad one; at the start, that of none.
  HOST_DEVICE void operator()([[maybe_unused]] int64_t i) const {
#ifdef __CUDA_ARCH__
    if (index[i] < low || index[i] >= high) atomicMin(first, static_cast<unsigned long long>(i));
#endif
  }
};

template <>
inline absl::StatusOr<int64_t> FirstOutside<gpu>(const OpContext& ctx, const TBlob& indices, int64_t low,
                                                 int64_t high) {
  absl::StatusOr<void*> scratch = ctx.scratch->Get(sizeof(unsigned long long));
  if (!scratch.ok()) return scratch.status();
  cudaMemsetAsync(*scratch, 0xff, sizeof(unsigned long long), Stream(ctx));
  const absl::Status launched = ForEach<gpu>(
      ctx, indices.Size(), FindOutside{In<int64_t>(indices), low, high, static_cast<unsigned long long*>(*scratch)});
  if (!launched.ok()) return launched;
  unsigned long long first = 0;
  cudaMemcpyAsync(&first, *scratch, sizeof(first), cudaMemcpyDeviceToHost, Stream(ctx));
  const cudaError_t error = cudaStreamSynchronize(Stream(ctx));
  if (error != cudaSuccess) return absl::InternalError(cudaGetErrorString(error));
  return static_cast<int64_t>(first);  // All ones are -1.
}

#endif

// OUT_OF_RANGE names the first of `indices` that is not in [-n, n). On a GPU this waits for the stream.
template <class D>
absl::Status CheckIndices(const OpContext& ctx, const TBlob& indices, int64_t n) {
  const absl::StatusOr<int64_t> first = FirstOutside<D>(ctx, indices, -n, n);
  if (!first.ok() || *first < 0) return first.status();
  const std::string index = std::is_same_v<D, cpu> ? absl::StrCat(" ", In<int64_t>(indices)[*first]) : "";
  return absl::OutOfRangeError(absl::StrCat("index", index, " at position ", *first, " is out of range; want ", -n,
                                            " to ", n - 1, ", or mode 'clip' or 'wrap'"));
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_INDEX_H_
