// Indices that come from data: what to do with those that are out of range.

#ifndef OPS_KERNEL_INDEX_H_
#define OPS_KERNEL_INDEX_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/status_macros.h"
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
// indices[i]. On a GPU this waits for the stream.
template <class D>
absl::StatusOr<int64_t> IndexAt(const OpContext& ctx, const TBlob& indices, int64_t i);

#ifndef GLUOND_GPU

template <>
inline absl::StatusOr<int64_t> FirstOutside<cpu>(const OpContext&, const TBlob& indices, int64_t low, int64_t high) {
  const In<int64_t> index(indices);
  for (int64_t i = 0; i < indices.Size(); ++i) {
    if (index[i] < low || index[i] >= high) return i;
  }
  return -1;
}

template <>
inline absl::StatusOr<int64_t> IndexAt<cpu>(const OpContext&, const TBlob& indices, int64_t i) {
  return In<int64_t>(indices)[i];
}

#else

struct FindOutside {
  In<int64_t> index;
  int64_t low, high;
  unsigned long long* first;  // The position of the first bad one; at the start, that of none.
  HOST_DEVICE void operator()([[maybe_unused]] int64_t i) const {
#ifdef GLUOND_GPU_CODE
    if (index[i] < low || index[i] >= high) atomicMin(first, static_cast<unsigned long long>(i));
#endif
  }
};

template <>
inline absl::StatusOr<int64_t> FirstOutside<gpu>(const OpContext& ctx, const TBlob& indices, int64_t low,
                                                 int64_t high) {
  absl::StatusOr<void*> scratch = ctx.scratch->Get(sizeof(unsigned long long));
  if (!scratch.ok()) return scratch.status();
  const cudaStream_t stream = Stream(ctx);
  unsigned long long first = 0;
  RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(*scratch, 0xff, sizeof(first), stream), "a look at indices"));
  RETURN_IF_ERROR(ForEach<gpu>(
      ctx, indices.Size(), FindOutside{In<int64_t>(indices), low, high, static_cast<unsigned long long*>(*scratch)}));
  RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(&first, *scratch, sizeof(first), cudaMemcpyDeviceToHost, stream),
                             "a look at indices"));
  RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream), "a look at indices"));
  return static_cast<int64_t>(first);  // All ones are -1.
}

template <>
inline absl::StatusOr<int64_t> IndexAt<gpu>(const OpContext& ctx, const TBlob& indices, int64_t i) {
  const size_t bytes = static_cast<size_t>(SizeOf(indices.dtype));
  char element[sizeof(double)];
  const cudaStream_t stream = Stream(ctx);
  RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(element, static_cast<const char*>(indices.data) + bytes * i, bytes,
                                             cudaMemcpyDeviceToHost, stream), "a look at an index"));
  RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream), "a look at an index"));
  return LoadAs<int64_t>(indices.dtype, element, 0);
}

#endif

// OUT_OF_RANGE names the first of `indices` that is not in [-n, n). On a GPU this waits for the stream.
template <class D>
absl::Status CheckIndices(const OpContext& ctx, const TBlob& indices, int64_t n) {
  ASSIGN_OR_RETURN(const int64_t first, FirstOutside<D>(ctx, indices, -n, n));
  if (first < 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t index, IndexAt<D>(ctx, indices, first));
  return absl::OutOfRangeError(absl::StrCat("index ", index, " at position ", first, " is out of range; want ", -n,
                                            " to ", n - 1, ", or mode 'clip' or 'wrap'"));
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_INDEX_H_
