// Indices that come from data, and the rules for those that are out of range.

#ifndef OPS_KERNEL_INDEX_H_
#define OPS_KERNEL_INDEX_H_

#include <string>

#include "absl/status/statusor.h"
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

// OUT_OF_RANGE names the first of `indices` that is not in [-n, n). On a GPU this waits for the stream.
template <class D>
absl::Status CheckIndices(const OpContext& ctx, const TBlob& indices, int64_t n) {
  ASSIGN_OR_RETURN(const int64_t first, FirstOutside<D>(ctx, indices, -n, n));
  if (first < 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t index, IndexAt<D>(ctx, indices, first));
  return absl::OutOfRangeError(absl::StrCat("index ", index, " at position ", first, " is out of range; want ", -n, " to ", n - 1,
                                            ", or mode 'clip' or 'wrap'"));
}

}  // namespace gluond::ops

#include BACKEND(index.h)

#endif  // OPS_KERNEL_INDEX_H_
