// Images into blocks of channels and out of them, 8 channels of 8 elements at a time.

#include "ops/kernel/channel_blocks.h"

#include <algorithm>
#include <cstring>

#include "ops/kernel/launch.h"

namespace gluond::ops {
namespace {

using Vector = float __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8;

// Row i of the eight becomes column i.
void Transpose(Vector (&rows)[kLanes]) {
  Vector ones[kLanes], pairs[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    ones[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    ones[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < kLanes; i += 4) {
    for (int k = 0; k < 2; ++k) {
      pairs[i + 2 * k] = __builtin_shufflevector(ones[i + k], ones[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      pairs[i + 2 * k + 1] = __builtin_shufflevector(ones[i + k], ones[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < kLanes / 2; ++i) {
    rows[i] = __builtin_shufflevector(pairs[i], pairs[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    rows[i + 4] = __builtin_shufflevector(pairs[i], pairs[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

void Store(Vector v, bool add, float* to) {
  if (add) {
    Vector old;
    std::memcpy(&old, to, sizeof(old));
    v += old;
  }
  std::memcpy(to, &v, sizeof(v));
}

// y[j, i] = x[i, j] for i in [0, rows) and j in [0, columns), whose rows lie so far apart.
void TransposeAll(int64_t rows, int64_t columns, const float* x, int64_t x_step, bool add, float* y, int64_t y_step) {
  const int64_t whole_rows = rows / kLanes * kLanes, whole_columns = columns / kLanes * kLanes;
  for (int64_t i = 0; i < whole_rows; i += kLanes) {
    for (int64_t j = 0; j < whole_columns; j += kLanes) {
      Vector tile[kLanes];
      for (int64_t k = 0; k < kLanes; ++k) std::memcpy(&tile[k], x + (i + k) * x_step + j, sizeof(Vector));
      Transpose(tile);
      for (int64_t k = 0; k < kLanes; ++k) Store(tile[k], add, y + (j + k) * y_step + i);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) {
      float& to = y[j * y_step + i];
      to = x[i * x_step + j] + (add ? to : 0);
    }
  }
}

// Calls part(plane, begin, end) for parts of the planes' areas, spread over the threads.
template <class Part>
void ForEachPart(const OpContext& ctx, const BlockedSize& s, const Part& part) {
  constexpr int64_t kPart = 1024;
  const int64_t parts = (s.area - 1) / kPart + 1;
  Parallel(ctx, s.planes * parts, 1 + kGrain / (s.block * std::min(s.area, kPart)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * kPart;
      part(i / parts, first, std::min(first + kPart, s.area));
    }
  });
}

}  // namespace

void ToBlocked(const OpContext& ctx, const BlockedSize& s, const float* x, bool add, float* y) {
  ForEachPart(ctx, s, [&](int64_t plane, int64_t begin, int64_t end) {
    const int64_t at = plane * s.area * s.block;
    TransposeAll(s.block, end - begin, x + at + begin, s.area, add, y + at + begin * s.block, s.block);
  });
}

void FromBlocked(const OpContext& ctx, const BlockedSize& s, const float* x, bool add, float* y) {
  ForEachPart(ctx, s, [&](int64_t plane, int64_t begin, int64_t end) {
    const int64_t at = plane * s.area * s.block;
    TransposeAll(end - begin, s.block, x + at + begin * s.block, s.block, add, y + at + begin, s.area);
  });
}

}  // namespace gluond::ops
