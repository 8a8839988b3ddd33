// Pooling of images in blocks of channels on a CPU: the elements of a block are pooled together, each with its own.

#include <algorithm>
#include <cstring>

#include "ops/kernel/cpu/pool_stretch.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/pool.h"

namespace gluond::ops {
namespace {

using namespace pool_internal;

using Vector = float __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8;

template <class V>
V Load(const float* x) {
  V v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}

// The outputs [begin, end) of all planes, a V of a block at a time. Windows with nothing in them are 0, the others are folded
// from `start` on.
template <class V, class Fold>
void FoldBlocks(const PoolSize& s, int64_t block, int64_t begin, int64_t end, float start, Fold fold, const float* x, bool add,
                float* y) {
  constexpr auto kStep = static_cast<int64_t>(sizeof(V) / sizeof(float));
  for (int64_t o = begin; o < end; ++o) {
    const int64_t plane = o / s.out_plane(), oy = o / s.out[2] % s.out[1], ox = o % s.out[2];
    const Extent rows = WindowExtent(s, 1, oy), columns = WindowExtent(s, 2, ox);
    const bool is_empty = rows.begin >= rows.end || columns.begin >= columns.end;
    const auto divisor = static_cast<float>(Divisor(s, WindowExtent(s, 0, 0), rows, columns));
    const float* const corner = x + ((plane * s.in[1] + rows.begin) * s.in[2] + columns.begin) * block;
    for (int64_t first = 0; first < block; first += kStep) {
      V found = V{} + (is_empty ? 0 : start);
      const float* row = corner + first;
      for (int64_t iy = rows.begin; iy < rows.end; ++iy, row += s.in[2] * block) {
        const float* from = row;
        for (int64_t ix = columns.begin; ix < columns.end; ++ix, from += block) found = fold(found, Load<V>(from));
      }
      float* const to = y + o * block + first;
      found /= divisor;
      if (add) found += Load<V>(to);
      std::memcpy(to, &found, sizeof(found));
    }
  }
}

template <class V>
void FoldAll(const OpContext& ctx, const PoolSize& s, int64_t block, const float* x, bool add, float* y) {
  const int64_t work = s.kernel[1] * s.kernel[2] * block + 1;
  Parallel(ctx, s.planes * s.out_plane(), std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    if (s.type == PoolType::kMax) {
      FoldBlocks<V>(s, block, begin, end, Lowest<float>(), Larger<V>(), x, add, y);
    } else {
      FoldBlocks<V>(s, block, begin, end, 0, Plus<V>(), x, add, y);
    }
  });
}

}  // namespace

void PoolForwardBlocked(const OpContext& ctx, const PoolSize& s, int64_t block, const float* x, bool add, float* y) {
  block % kLanes == 0 ? FoldAll<Vector>(ctx, s, block, x, add, y) : FoldAll<float>(ctx, s, block, x, add, y);
}

}  // namespace gluond::ops
