#include "ops/kernel/cpu/unit_panels.h"

#include <cstring>
#include <type_traits>

#include "ops/kernel/cpu/onednn.h"

namespace gluond::ops {
namespace {

namespace panels_avx2 {
constexpr int kBytes = 32, kSums = 12;
#include "ops/kernel/cpu/panel_tile.h"
}  // namespace panels_avx2

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
namespace panels_avx512 {
constexpr int kBytes = 64, kSums = 24;
#include "ops/kernel/cpu/panel_tile.h"
}  // namespace panels_avx512
#pragma GCC pop_options

template <class C>
PanelLayout LayoutOf(const UnitMatrix& b) {
  const int64_t lanes = (HasAvx512() ? panels_avx512::kBytes : panels_avx2::kBytes) / sizeof(C), columns = b.groups * b.units;
  // A lone group has two vectors side by side.
  return b.groups == 1 ? PanelLayout{b.depth, b.units, columns, 2, lanes, 2 * lanes, lanes, lanes}
                       : PanelLayout{b.depth, b.units, columns, b.groups, lanes, lanes, 0, b.units};
}

// A square of elements, the rows of which become columns. Each round deals the rows of both halves out by turns.
template <class C>
void TransposeSquare(const C* from, int64_t from_pitch, C* to, int64_t to_pitch) {
  constexpr int kSide = 32 / sizeof(C);
  using Row __attribute__((vector_size(32))) = C;
  using Places __attribute__((vector_size(32))) = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  Places low = {}, high = {};
  for (int i = 0; i < kSide; ++i) {
    low[i] = i / 2 + i % 2 * kSide;
    high[i] = low[i] + kSide / 2;
  }
  Row rows[kSide], dealt[kSide];
  for (int i = 0; i < kSide; ++i) std::memcpy(&rows[i], from + i * from_pitch, sizeof(Row));
  for (int round = 1; round < kSide; round *= 2) {
    for (int i = 0; i < kSide / 2; ++i) {
      dealt[2 * i] = __builtin_shuffle(rows[i], rows[i + kSide / 2], low);
      dealt[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + kSide / 2], high);
    }
    std::copy_n(dealt, kSide, rows);
  }
  for (int i = 0; i < kSide; ++i) std::memcpy(to + i * to_pitch, &rows[i], sizeof(Row));
}

// `n` rows of `size` elements, which follow one another, become columns.
template <class C>
void Transpose(const C* from, int64_t n, int64_t size, C* to, int64_t pitch) {
  constexpr int64_t kSide = 32 / sizeof(C);
  for (int64_t row = 0; row < n; row += kSide) {
    for (int64_t k = 0; k < size; k += kSide) {
      if (row + kSide <= n && k + kSide <= size) {
        TransposeSquare(from + row * size + k, size, to + k * pitch + row, pitch);
        continue;
      }
      for (int64_t i = row; i < std::min(row + kSide, n); ++i) {
        for (int64_t j = k; j < std::min(k + kSide, size); ++j) to[j * pitch + i] = from[i * size + j];
      }
    }
  }
}

}  // namespace

template <class C>
UnitPanels<C>::UnitPanels(const UnitMatrix& matrix) : at_(LayoutOf<C>(matrix)) {}

template <class C>
void UnitPanels<C>::PackPanel(const C* b, bool transposed, int64_t panel, C* to) const {
  const int64_t pitch = at_.vectors * at_.lanes;
  for (int64_t v = 0; v < at_.vectors; ++v, to += at_.lanes) {
    const int64_t column = panel * at_.width + v * at_.vector_step;
    const int64_t n = std::clamp<int64_t>(at_.units - panel * at_.width - v * at_.unit_step, 0, at_.lanes);
    if (transposed) Transpose(b + column * at_.depth, n, at_.depth, to, pitch);
    for (int64_t k = 0; k < at_.depth; ++k) {
      if (!transposed) std::copy_n(b + k * at_.columns + column, n, to + k * pitch);
      std::fill(to + k * pitch + n, to + k * pitch + at_.lanes, C(0));
    }
  }
}

template <class C>
void UnitPanels<C>::Pack(const OpContext& ctx, const C* b, bool transposed, C* to) const {
  const int64_t panel_elements = elements() / count();
  Parallel(ctx, count(), 1 + kGrain / panel_elements, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) PackPanel(b, transposed, panel, to + panel * panel_elements);
  });
}

template <class C>
void UnitPanels<C>::Multiply(const C* packed, int64_t begin, int64_t end, const C* x, int64_t rows, bool add, C* y) const {
  (HasAvx512() ? panels_avx512::Multiply<C> : panels_avx2::Multiply<C>)(at_, packed, begin, end, x, rows, add, y);
}

template class UnitPanels<float>;
template class UnitPanels<double>;

}  // namespace gluond::ops
