// SortedOrder: which element of each row comes first, second, ... Equal elements keep their order; NaN is larger than
// any number, as for argmax.

#ifndef OPS_KERNEL_SORT_H_
#define OPS_KERNEL_SORT_H_

#include "absl/status/statusor.h"
#include "engine/core/op_attr_types.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/row_geometry.h"

namespace gluond::ops {

// True where a stands before b.
template <class C>
struct Precedes {
  bool ascending;
  HOST_DEVICE bool operator()(C a, C b) const { return ascending ? Less(a, b) : Less(b, a); }

 private:
  HOST_DEVICE static bool Less(C a, C b) { return a < b || (b != b && a == a); }
};

// One pass of a merge sort over rows of n keys, for one element: keys sorted in runs of `width` become sorted in runs
// of twice that. The element's place in the merged run is its place in its own run plus the number of the sibling run's
// elements that stand before it.
template <class C>
struct MergePass {
  int64_t n, width;
  const C* keys;
  const int64_t* from;
  int64_t* to;
  Precedes<C> precedes;

  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / n * n, at = i - row, begin = at / width * width;
    const bool left = at / width % 2 == 0;
    const int64_t sibling = left ? begin + width : begin - width;
    const C key = keys[row + from[i]];
    int64_t low = sibling < n ? sibling : n, high = sibling + width < n ? sibling + width : n;
    const int64_t first = low;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const C other = keys[row + from[row + middle]];
      // The left run's elements come before equal ones.
      const bool before = left ? precedes(other, key) : !precedes(key, other);
      (before ? low : high) = before ? middle + 1 : middle;
    }
    to[row + (left ? begin : sibling) + (at - begin) + (low - first)] = from[i];
  }
};

// order[row * rows.n + j] is the place in its row of the element that comes j-th, for j < k. Temporary space.
template <class D>
absl::StatusOr<const int64_t*> SortedOrder(const OpContext& ctx, const RowGeometry& rows, bool ascending, int64_t k,
                                           const TBlob& x);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_SORT_H_
