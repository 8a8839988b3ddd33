// Non-maximum suppression goes through boxes in the order of their scores: a box stays unless a better box that stays
// suppresses it. Blocks of the order are done one after the other. First a block's boxes are compared with the boxes that stay
// of earlier blocks, by a group of threads for each box. Then they are compared with each other, by a group for each sample.
// Between blocks the run is asked whether it goes on.

#ifndef OPS_SUPPRESSION_H_
#define OPS_SUPPRESSION_H_

#include <algorithm>

#include "engine/core/interruption.h"
#include "ops/boxes.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {

// The boxes that stay, by places in their sample's order.
struct Stays {
  int64_t boxes;   // Places of a sample.
  int64_t* gone;   // By place: 1 where the box does not stay. Written as far as places are looked at.
  int64_t* kept;   // The places that stay, in order,
  int64_t* count;  // and by sample how many they are.

  static absl::StatusOr<Stays> Of(const OpContext& ctx, int64_t batch, int64_t boxes) {
    Stays s = {boxes, nullptr, nullptr, nullptr};
    ASSIGN_OR_RETURN(s.gone, Space<int64_t>(ctx, batch * boxes));
    ASSIGN_OR_RETURN(s.kept, Space<int64_t>(ctx, batch * boxes));
    ASSIGN_OR_RETURN(s.count, Space<int64_t>(ctx, batch));
    return s;
  }
};

// P is a sample's boxes in order. p.Valid(b, j) is false for a box that never stays. p.Between(b, k, j) tells how far
// two boxes overlap, and p.IsTooMuch(that) whether the earlier box suppresses the other.
template <class P>
struct CompareWithKept {
  static constexpr int64_t kAtOnce = 256;  // A box that is gone is not compared on.

  P p;
  Stays s;
  int64_t begin, places;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t i) const {
    const int64_t b = i / places, j = begin + i % places, first = b * s.boxes;
    bool gone = !p.Valid(b, j);
    for (int64_t k = 0; k < s.count[b] && !gone; k += kAtOnce) {
      const int64_t n = s.count[b] - k < kAtOnce ? s.count[b] - k : kAtOnce;
      gone = p.IsTooMuch(g.Max(n, [&](int64_t at) { return p.Between(b, s.kept[first + k + at], j); }));
    }
    if (g.first()) s.gone[first + j] = gone ? 1 : 0;
  }
};
template <class P>
struct CompareInBlock {
  P p;
  Stays s;
  int64_t begin, end;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t b) const {
    const int64_t first = b * s.boxes;
    int64_t n = s.count[b];
    for (int64_t j = begin; j < end; ++j) {
      if (s.gone[first + j] != 0) continue;
      if (g.first()) s.kept[first + n] = j;
      ++n;
      g.ForEach(end - j - 1, [&](int64_t k) {
        const int64_t later = j + 1 + k;
        if (s.gone[first + later] == 0 && p.IsTooMuch(p.Between(b, j, later))) s.gone[first + later] = 1;
      });
    }
    g.ForEach(0, [](int64_t) {});  // All have read the count.
    if (g.first()) s.count[b] = n;
  }
};

// Looks at the first `top` places of each sample's order.
template <class D, class P>
absl::Status Suppress(const OpContext& ctx, int64_t batch, int64_t top, const P& p, const Stays& s) {
  constexpr int64_t kBlock = 256;
  RETURN_IF_ERROR(ZeroBytes(D(), ctx, VectorOf(ctx, s.count, batch)));
  for (int64_t begin = 0; begin < top; begin += kBlock) {
    RETURN_IF_ERROR(CheckInterrupted());
    const int64_t end = std::min(begin + kBlock, top);
    const CompareWithKept<P> earlier = {p, s, begin, end - begin};
    RETURN_IF_ERROR(ForEachGroup<D>(ctx, batch * (end - begin), 16 * (begin + 1), earlier));
    RETURN_IF_ERROR(ForEachGroup<D>(ctx, batch, kBlock * kBlock, CompareInBlock<P>{p, s, begin, end}));
  }
  return absl::OkStatus();
}

}  // namespace gluond::ops

#endif  // OPS_SUPPRESSION_H_
