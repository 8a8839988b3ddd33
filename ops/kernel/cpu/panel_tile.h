// Rows times panels, for unit_panels.cc, which includes this part once for each set of instructions: kBytes are a vector's,
// and kSums are the vectors of sums that registers hold. Here functions are compiled for those instructions.

template <class C>
using Vector __attribute__((vector_size(kBytes))) = C;

template <class C>
constexpr int64_t kLanes = kBytes / sizeof(C);

// Sets or adds to `n` elements. A whole vector, which is the usual case, is stored at once.
template <class C>
void StoreSums(const Vector<C>& sums, int64_t n, bool add, C* to) {
  if (n == kLanes<C>) {
    Vector<C> before = {};
    if (add) std::memcpy(&before, to, sizeof(before));
    before += sums;
    std::memcpy(to, &before, sizeof(before));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = (add ? to[i] : C(0)) + sums[i];
  }
}

// Adds up kRows rows of x times kPanels panels in registers.
template <class C, int kVectors, int kRows, int kPanels>
void MultiplyTile(const PanelLayout& at, const C* packed, int64_t panel, const C* x, bool add, C* y) {
  constexpr int64_t kWidth = kVectors * kLanes<C>;
  const C* from = packed + panel * at.depth * kWidth;
  Vector<C> sums[kRows][kPanels][kVectors];
  for (auto& row : sums) {
    for (auto& panel_sums : row) std::fill_n(panel_sums, kVectors, Vector<C>{});
  }
  for (int64_t k = 0; k < at.depth; ++k, from += kWidth) {
    for (int p = 0; p < kPanels; ++p) {
      for (int v = 0; v < kVectors; ++v) {
        Vector<C> b;
        std::memcpy(&b, from + p * at.depth * kWidth + v * kLanes<C>, sizeof(b));
        for (int row = 0; row < kRows; ++row) sums[row][p][v] += x[row * at.depth + k] * b;
      }
    }
  }
  for (int row = 0; row < kRows; ++row, y += at.columns) {
    for (int p = 0; p < kPanels; ++p) {
      for (int v = 0; v < kVectors; ++v) {
        const int64_t units = std::clamp<int64_t>(at.units - (panel + p) * at.width - v * at.unit_step, 0, kLanes<C>);
        StoreSums<C>(sums[row][p][v], units, add, y + (panel + p) * at.width + v * at.vector_step);
      }
    }
  }
}

template <class C, int kVectors, int kRows>
void MultiplyRows(const PanelLayout& at, const C* packed, int64_t panel, const C* x, int64_t rows, bool add, C* y) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return MultiplyRows<C, kVectors, kRows - 1>(at, packed, panel, x, rows, add, y);
  }
  MultiplyTile<C, kVectors, kRows, 1>(at, packed, panel, x, add, y);
}

template <class C, int kVectors>
void MultiplyPanels(const PanelLayout& at, const C* packed, int64_t begin, int64_t end, const C* x, int64_t rows, bool add, C* y) {
  constexpr int64_t kRows = std::min(kSums / kVectors, 6), kPanels = 8 / kVectors;
  int64_t panel = begin;
  if (rows == 1) {  // The sums of one panel would wait for one another.
    for (; panel + kPanels <= end; panel += kPanels) MultiplyTile<C, kVectors, 1, kPanels>(at, packed, panel, x, add, y);
  }
  for (; panel < end; ++panel) {
    int64_t tiles = (rows - 1) / kRows + 1;
    for (int64_t row = 0; row < rows; --tiles) {
      const int64_t taken = (rows - row - 1) / tiles + 1;
      MultiplyRows<C, kVectors, kRows>(at, packed, panel, x + row * at.depth, taken, add, y + row * at.columns);
      row += taken;
    }
  }
}

template <class C>
void Multiply(const PanelLayout& at, const C* packed, int64_t begin, int64_t end, const C* x, int64_t rows, bool add, C* y) {
  switch (at.vectors) {
    case 2: return MultiplyPanels<C, 2>(at, packed, begin, end, x, rows, add, y);
    case 3: return MultiplyPanels<C, 3>(at, packed, begin, end, x, rows, add, y);
    default: return MultiplyPanels<C, 4>(at, packed, begin, end, x, rows, add, y);
  }
}
