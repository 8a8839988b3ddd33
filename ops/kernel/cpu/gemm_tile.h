// Products of rows with dots and with panels. gemm.cc includes this part once for each set of instructions, for which the functions
// here are compiled. kBytes are a vector's, and registers hold kSums vectors of sums.

template <class C>
using Vector __attribute__((vector_size(kBytes))) = C;

template <class C>
constexpr int64_t kLanes = kBytes / sizeof(C);

// A vector of `n` elements, and zeros after them.
template <class C>
Vector<C> LoadVector(const C* from, int64_t n = kLanes<C>) {
  Vector<C> loaded = {};
  std::memcpy(&loaded, from, static_cast<size_t>(n) * sizeof(C));
  return loaded;
}

// The sum of a vector's elements: halves are added until one element is left.
template <class C, int half, int... lane>
C SumOf(Vector<C> sums, std::integer_sequence<int, lane...> lanes) {
  sums += __builtin_shufflevector(sums, sums, (lane ^ half)...);
  if constexpr (half > 1) {
    return SumOf<C, half / 2>(sums, lanes);
  } else {
    return sums[0];
  }
}
template <class C>
C SumOf(Vector<C> sums) {
  return SumOf<C, kLanes<C> / 2>(sums, std::make_integer_sequence<int, kLanes<C>>());
}

// Rows of A times columns of B that lie dense: of each product, lane i has the terms i, i + kLanes and so on.
template <class C, int kRows, int kCols>
void MultiplyDotTile(const RowsPiece<C>& p, int64_t row, int64_t col) {
  const C *const a = p.a + row * p.depth, *const b = p.b + col * p.depth;
  Vector<C> sums[kRows][kCols];
  for (auto& row_sums : sums) std::fill_n(row_sums, kCols, Vector<C>{});
  const auto add = [&](int64_t k, int64_t n) __attribute__((always_inline)) {
    Vector<C> b_part[kCols];
    for (int j = 0; j < kCols; ++j) b_part[j] = LoadVector(b + j * p.depth + k, n);
    for (int i = 0; i < kRows; ++i) {
      const Vector<C> a_part = LoadVector(a + i * p.depth + k, n);
      for (int j = 0; j < kCols; ++j) sums[i][j] += a_part * b_part[j];
    }
  };
  int64_t k = 0;
  for (; k + kLanes<C> <= p.depth; k += kLanes<C>) add(k, kLanes<C>);
  if (k < p.depth) add(k, p.depth - k);
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) StoreSum(SumOf<C>(sums[i][j]), p, row + i, col + j);
  }
}

template <class C, int kRows, int kCols>
void MultiplyDotsOfRows(const RowsPiece<C>& p, int64_t row, int64_t rows, int64_t col) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return MultiplyDotsOfRows<C, kRows - 1, kCols>(p, row, rows, col);
  }
  MultiplyDotTile<C, kRows, kCols>(p, row, col);
}

template <class C>
void MultiplyDots(const RowsPiece<C>& p) {
  constexpr int64_t kRows = kSums / 5;  // Beside the sums, registers hold a vector of each column.
  int64_t col = 0;
  if (p.rows == 1) {
    for (; col + 8 <= p.cols; col += 8) MultiplyDotTile<C, 1, 8>(p, 0, col);
  }
  for (; col + 4 <= p.cols; col += 4) {
    for (int64_t row = 0; row < p.rows; row += kRows) MultiplyDotsOfRows<C, kRows, 4>(p, row, p.rows - row, col);
  }
  for (; col < p.cols; ++col) {
    for (int64_t row = 0; row < p.rows; row += kRows) MultiplyDotsOfRows<C, kRows, 1>(p, row, p.rows - row, col);
  }
}

// The vector's first `n` sums.
template <class C>
[[gnu::noinline]] void StoreFew(const Vector<C>& sums, const RowsPiece<C>& p, int64_t row, int64_t col, int64_t n) {
  for (int64_t i = 0; i < n; ++i) StoreSum(sums[i], p, row, col + i);
}

// Adds up kRows rows of A times a block of a panel of B in registers. `kept`: where each row's two vectors of sums are from block to
// block.
template <class C, int kRows, int kVectors>
[[gnu::noinline]] void MultiplyTile(const RowsPiece<C>& p, int64_t row, int64_t col, const C* b, int64_t k, int64_t depth,
                                    C* kept) {
  Vector<C> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = Vector<C>{};
  }
  if (k > 0) std::memcpy(sums, kept, sizeof(sums));
  const C* a = p.a + row * p.depth + k;
  for (int64_t i = 0; i < depth; ++i, ++a, b += 2 * kLanes<C>) {
    Vector<C> b_row[kVectors];
    for (int v = 0; v < kVectors; ++v) b_row[v] = LoadVector(b + v * kLanes<C>);
    for (int r = 0; r < kRows; ++r) {
      const C element = a[r * p.depth];
      for (int v = 0; v < kVectors; ++v) sums[r][v] += element * b_row[v];
    }
  }
  if (k + depth < p.depth) {
    std::memcpy(kept, sums, sizeof(sums));
    return;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = col + v * kLanes<C>;
      if (p.cols - at < kLanes<C>) {
        if (at < p.cols) StoreFew<C>(sums[r][v], p, row + r, at, p.cols - at);
        continue;
      }
      C* const c = p.c + (row + r) * p.pitch + at;
      Vector<C> value = sums[r][v];
      if (p.bias != nullptr) value += LoadVector(p.bias + at);
      if (p.add) value += LoadVector(c);
      std::memcpy(c, &value, sizeof(value));
    }
  }
}

template <class C, int kRows>
void MultiplyRows(const RowsPiece<C>& p, int64_t row, int64_t rows, int64_t col, const C* b, int64_t k, int64_t depth, C* kept) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return MultiplyRows<C, kRows - 1>(p, row, rows, col, b, k, depth, kept);
  }
  const bool half = p.cols - col <= kLanes<C>;
  (half ? MultiplyTile<C, kRows, 1> : MultiplyTile<C, kRows, 2>)(p, row, col, b, k, depth, kept);
}

// Rows of A times panels of B, [depth][2][kLanes] each. A block of a panel stays in the first cache while the rows go by.
template <class C>
void MultiplyPanels(const RowsPiece<C>& p) {
  constexpr int64_t kMost = kSums / 2, kDepth = 1024, kWidth = 2 * kLanes<C>;
  alignas(64) C sums[kMostPanelRows * kWidth];
  for (int64_t col = 0; col < p.cols; col += kWidth) {
    for (int64_t k = 0; k < p.depth; k += kDepth) {
      int64_t tiles = (p.rows - 1) / kMost + 1;
      for (int64_t row = 0; row < p.rows; --tiles) {
        const int64_t taken = (p.rows - row - 1) / tiles + 1;
        MultiplyRows<C, kMost>(p, row, taken, col, p.b + col * p.depth + k * kWidth, k, std::min(kDepth, p.depth - k),
                               sums + row * kWidth);
        row += taken;
      }
    }
  }
}

// A square of vectors [A, B; C, D] becomes [A, C; B, D], and so do its quarters: columns become rows.
template <class C, int half, int... lane>
void TransposeBlocks(Vector<C>* rows, std::integer_sequence<int, lane...> lanes) {
  for (int row = 0; row < kLanes<C>; ++row) {
    if ((row & half) != 0) continue;
    const Vector<C> upper = rows[row], lower = rows[row + half];
    rows[row] = __builtin_shufflevector(upper, lower, (lane & half ? lane + static_cast<int>(kLanes<C>) - half : lane)...);
    rows[row + half] = __builtin_shufflevector(upper, lower, (lane & half ? lane + static_cast<int>(kLanes<C>) : lane + half)...);
  }
  if constexpr (half > 1) TransposeBlocks<C, half / 2>(rows, lanes);
}

// Columns [col, col + n) of B, which lie dense, become vectors with zeros after them, two vectors' widths apart.
template <class C>
void PackColumns(const C* b, int64_t pitch, int64_t depth, int64_t n, C* to) {
  constexpr int64_t kSide = kLanes<C>;
  for (int64_t k = 0; k < depth; k += kSide, to += 2 * kSide * kSide) {
    if (k + kSide <= depth) {
      Vector<C> rows[kSide];
      for (int i = 0; i < kSide; ++i) rows[i] = i < n ? LoadVector(b + i * pitch + k) : Vector<C>{};
      TransposeBlocks<C, kSide / 2>(rows, std::make_integer_sequence<int, kSide>());
      for (int i = 0; i < kSide; ++i) std::memcpy(to + i * 2 * kSide, &rows[i], sizeof(Vector<C>));
      continue;
    }
    for (int64_t j = 0; j < std::min(kSide, depth - k); ++j) {
      for (int64_t i = 0; i < kSide; ++i) to[j * 2 * kSide + i] = i < n ? b[i * pitch + k + j] : C(0);
    }
  }
}

// The columns of B as panels that follow one another, each [depth][2][kLanes], with zeros after the last column.
template <class C>
void PackPanels(const C* b, int64_t pitch, bool transposed, int64_t depth, int64_t cols, C* to) {
  constexpr int64_t kWidth = 2 * kLanes<C>;
  if (transposed) {
    for (int64_t col = 0; col < cols; col += kWidth, to += kWidth * depth) {
      PackColumns(b + col * pitch, pitch, depth, cols - col, to);
      PackColumns(b + (col + kLanes<C>)*pitch, pitch, depth, cols - col - kLanes<C>, to + kLanes<C>);
    }
    return;
  }
  for (int64_t k = 0; k < depth; ++k, b += pitch, to += kWidth) {
    C* row = to;
    for (int64_t col = 0; col < cols; col += kWidth, row += kWidth * depth) {
      if (cols - col >= kWidth) {
        std::memcpy(row, b + col, kWidth * sizeof(C));
      } else {
        std::fill(std::copy_n(b + col, cols - col, row), row + kWidth, C(0));
      }
    }
  }
}
