// Factorize on a GPU: by panels of columns. A thread for each element changes the matrix behind a panel; within a panel, it
// is one for each row or column.

namespace gluond::ops::factorize_internal {

inline constexpr int64_t kPanel = 32;
// Lines that keep a GPU busy, if each is a thread's.
inline constexpr int64_t kManyLines = 1 << 13;

// One thread as a group, where there are threads enough.
struct Alone {
  template <class F>
  HOST_DEVICE auto Sum(int64_t n, const F& f) const {
    decltype(f(0)) sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += f(i);
    return sum;
  }
  template <class F>
  HOST_DEVICE void ForEach(int64_t n, const F& f) const {
    for (int64_t i = 0; i < n; ++i) f(i);
  }
  HOST_DEVICE bool first() const { return true; }
};

// All threads of the group have come here, and see what the others have written.
template <class Group>
HOST_DEVICE void Meet(Group g) {
  g.ForEach(0, [](int64_t) {});
}

// A panel: columns [begin, end) of every matrix.
template <class C>
struct Panel {
  int64_t n, begin, end;
  C* matrices;

  HOST_DEVICE int64_t left() const { return n - end; }  // Rows and columns behind it.
  HOST_DEVICE C* matrix(int64_t b) const { return matrices + b * n * n; }
};

// The factor of the diagonal block, by one thread, as it has kPanel^3 / 3 operations at most.
template <class C>
struct CholeskyBlock {
  Panel<C> p;
  int64_t* bad;
  HOST_DEVICE void operator()(int64_t b) const {
    C* const m = p.matrix(b);
    if (p.begin == 0) bad[b] = 0;
    for (int64_t i = p.begin; i < p.end; ++i) {
      for (int64_t k = p.begin; k <= i; ++k) {
        C sum = m[i * p.n + k];
        for (int64_t j = p.begin; j < k; ++j) sum -= m[i * p.n + j] * m[k * p.n + j];
        if (k == i && !(sum > 0) && bad[b] == 0) bad[b] = i + 1;
        m[i * p.n + k] = k < i ? sum / m[k * p.n + k] : math::Sqrt(sum);
      }
    }
  }
};
// A row below the block.
template <class C>
struct CholeskyRow {
  Panel<C> p;
  HOST_DEVICE void operator()(int64_t i) const {
    const C* const m = p.matrix(i / p.left());
    C* const row = p.matrix(i / p.left()) + (p.end + i % p.left()) * p.n;
    for (int64_t k = p.begin; k < p.end; ++k) {
      C sum = row[k];
      for (int64_t j = p.begin; j < k; ++j) sum -= row[j] * m[k * p.n + j];
      row[k] = sum / m[k * p.n + k];
    }
  }
};
// An element behind the panel.
template <class C>
struct CholeskyRest {
  Panel<C> p;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t left = p.left(), row = p.end + i / left % left, column = p.end + i % left;
    if (column > row) return;
    C* const m = p.matrix(i / left / left);
    C sum = m[row * p.n + column];
    for (int64_t k = p.begin; k < p.end; ++k) sum -= m[row * p.n + k] * m[column * p.n + k];
    m[row * p.n + column] = sum;
  }
};

template <class C>
absl::Status Cholesky(gpu, const OpContext& ctx, const SquareSize& s, C* matrices, int64_t* bad) {
  for (int64_t k = 0; k < s.n; k += kPanel) {
    RETURN_IF_ERROR(CheckInterrupted());
    const Panel<C> p = {s.n, k, std::min(k + kPanel, s.n), matrices};
    RETURN_IF_ERROR(ForEach<gpu>(ctx, s.batch, CholeskyBlock<C>{p, bad}));
    RETURN_IF_ERROR(ForEach<gpu>(ctx, s.batch * p.left(), CholeskyRow<C>{p}));
    RETURN_IF_ERROR(ForEach<gpu>(ctx, s.batch * p.left() * p.left(), CholeskyRest<C>{p}));
  }
  return absl::OkStatus();
}

// Column `i % n` of L^-1, which becomes a row, so that it lies together.
template <class C>
struct InvertColumn {
  int64_t n;
  const C* l;
  C* inverse;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t i) const {
    const C* const m = l + i / n * n * n;
    C* const x = inverse + i * n;
    const int64_t column = i % n;
    g.ForEach(column, [&](int64_t k) { x[k] = 0; });
    for (int64_t row = column; row < n; ++row) {
      const C sum = g.Sum(row - column, [&](int64_t k) { return m[row * n + column + k] * x[column + k]; });
      if (g.first()) x[row] = ((row == column ? C(1) : C(0)) - sum) / m[row * n + row];
      Meet(g);
    }
  }
};
// An element of L^-T L^-1.
template <class C>
struct SquareElement {
  int64_t n;
  const C* columns;
  C* y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / n % n, column = i % n, matrix = i - row * n - column;
    const C *a = columns + matrix + row * n, *b = columns + matrix + column * n;
    C sum = 0;
    for (int64_t k = row > column ? row : column; k < n; ++k) sum += a[k] * b[k];
    y[i] = sum;
  }
};

template <class C>
absl::Status OfCholesky(gpu, const OpContext& ctx, const SquareSize& s, const C* l, C* inverse) {
  RETURN_IF_ERROR(CheckInterrupted());
  ASSIGN_OR_RETURN(void* const columns, ctx.scratch->Get(static_cast<size_t>(s.batch * s.matrix()) * sizeof(C)));
  RETURN_IF_ERROR(ForEachGroup<gpu>(ctx, s.batch * s.n, s.matrix(), InvertColumn<C>{s.n, l, static_cast<C*>(columns)}));
  return ForEach<gpu>(ctx, s.batch * s.matrix(), SquareElement<C>{s.n, static_cast<const C*>(columns), inverse});
}

// Finds the largest element of column k, from the diagonal on, of one matrix.
template <class C>
struct FindPivot {
  struct Found {
    C size;
    int32_t row;
  };
  Panel<C> p;
  int64_t k;
  int32_t* pivot;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t b) const {
    const C* const column = p.matrix(b) + k * p.n + k;
    const Found best = g.Reduce(
        p.n - k, Found{C(-1), 0},
        [&](int64_t i) {
          return Found{math::Abs(column[i]), static_cast<int32_t>(i)};
        },
        [](const Found& x, const Found& y) { return y.size > x.size || (y.size == x.size && y.row < x.row) ? y : x; });
    if (g.first()) pivot[b * p.n + k] = best.row + static_cast<int32_t>(k) + 1;
  }
};
// Exchanges two rows in one column.
template <class C>
struct ExchangeRows {
  Panel<C> p;
  int64_t k;
  const int32_t* pivot;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t other = pivot[i / p.n * p.n + k] - 1;
    C* const column = p.matrices + i * p.n;
    const C v = column[k];
    column[k] = column[other];
    column[other] = v;
  }
};
// Takes the multiple of row k from a row below it that leaves 0 in column k, within the panel.
template <class C>
struct EliminateRow {
  Panel<C> p;
  int64_t k;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t rows = p.n - k - 1, row = k + 1 + i % rows;
    C* const m = p.matrix(i / rows);
    if (m[k * p.n + k] == 0) return;
    const C factor = m[k * p.n + row] /= m[k * p.n + k];
    for (int64_t j = k + 1; j < p.end; ++j) m[j * p.n + row] -= factor * m[j * p.n + k];
  }
};
// A column behind the panel: its rows within the panel.
template <class C>
struct LuColumn {
  Panel<C> p;
  HOST_DEVICE void operator()(int64_t i) const {
    const C* const m = p.matrix(i / p.left());
    C* const column = p.matrix(i / p.left()) + (p.end + i % p.left()) * p.n;
    for (int64_t r = p.begin; r < p.end; ++r) {
      for (int64_t k = p.begin; k < r; ++k) column[r] -= m[k * p.n + r] * column[k];
    }
  }
};
template <class C>
struct LuRest {
  Panel<C> p;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t left = p.left(), row = p.end + i % left, column = p.end + i / left % left;
    C* const m = p.matrix(i / left / left);
    C sum = m[column * p.n + row];
    for (int64_t k = p.begin; k < p.end; ++k) sum -= m[k * p.n + row] * m[column * p.n + k];
    m[column * p.n + row] = sum;
  }
};

template <class C>
absl::Status Lu(gpu, const OpContext& ctx, const SquareSize& s, C* matrices, int32_t* pivot) {
  for (int64_t begin = 0; begin < s.n; begin += kPanel) {
    RETURN_IF_ERROR(CheckInterrupted());
    const Panel<C> p = {s.n, begin, std::min(begin + kPanel, s.n), matrices};
    for (int64_t k = begin; k < p.end; ++k) {
      RETURN_IF_ERROR(ForEachGroup<gpu>(ctx, s.batch, s.n - k, FindPivot<C>{p, k, pivot}));
      RETURN_IF_ERROR(ForEach<gpu>(ctx, s.batch * s.n, ExchangeRows<C>{p, k, pivot}));
      RETURN_IF_ERROR(ForEach<gpu>(ctx, s.batch * (s.n - k - 1), EliminateRow<C>{p, k}));
    }
    RETURN_IF_ERROR(ForEach<gpu>(ctx, s.batch * p.left(), LuColumn<C>{p}));
    RETURN_IF_ERROR(ForEach<gpu>(ctx, s.batch * p.left() * p.left(), LuRest<C>{p}));
  }
  return absl::OkStatus();
}

// Column `i % n` of the inverse: P applied to a unit vector, then L and U solved for, whose columns lie together.
template <class C>
struct SolveColumn {
  int64_t n;
  const C* lu;
  const int32_t* pivot;
  C* inverse;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t i) const {
    const C* const m = lu + i / n * n * n;
    const int32_t* const exchanged = pivot + i / n * n;
    C* const x = inverse + i * n;
    int64_t one = i % n;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t other = exchanged[k] - 1;
      one = one == k ? other : one == other ? k : one;
    }
    g.ForEach(n, [&](int64_t k) { x[k] = k == one ? C(1) : C(0); });
    for (int64_t k = one; k < n; ++k) {
      const C v = x[k];
      g.ForEach(n - k - 1, [&](int64_t r) { x[k + 1 + r] -= m[k * n + k + 1 + r] * v; });
    }
    for (int64_t k = n - 1; k >= 0; --k) {
      const C v = x[k] / m[k * n + k];
      Meet(g);
      g.ForEach(k + 1, [&](int64_t r) { x[r] = r == k ? v : x[r] - m[k * n + r] * v; });
    }
  }
};

template <class C>
absl::Status OfLu(gpu, const OpContext& ctx, const SquareSize& s, const C* lu, const int32_t* pivot, C* inverse) {
  RETURN_IF_ERROR(CheckInterrupted());
  return ForEachGroup<gpu>(ctx, s.batch * s.n, s.matrix(), SolveColumn<C>{s.n, lu, pivot, inverse});
}

// A column of b, or a row where a stands on the right, which is as if a stood transposed on the left.
template <bool solve, class C>
struct TriangularLine {
  TriangularSize s;
  const C* a;
  C* b;
  HOST_DEVICE void operator()(int64_t line) const { (*this)(Alone(), line); }
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t line) const {
    const int64_t n = s.n(), each = s.right ? s.rows : s.columns, stride = s.right ? 1 : s.columns;
    const bool flipped = s.transposed != s.right, lower = s.lower != flipped;
    const C* const m = a + line / each * n * n;
    C* const x = b + line / each * s.rows * s.columns + line % each * (s.right ? s.columns : 1);
    const auto at = [=](int64_t i, int64_t k) { return m[flipped ? k * n + i : i * n + k]; };
    // Each element is made of those before it, so a product goes the other way than a solution.
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = lower == solve ? step : n - 1 - step, begin = lower ? 0 : i + 1, end = lower ? i : n;
      const C sum = g.Sum(end - begin, [&](int64_t k) { return at(i, begin + k) * x[(begin + k) * stride]; });
      const C alpha = static_cast<C>(s.alpha), own = x[i * stride], diagonal = at(i, i);
      Meet(g);
      if (g.first()) x[i * stride] = solve ? (alpha * own - sum) / diagonal : alpha * (sum + diagonal * own);
      Meet(g);
    }
  }
};

template <bool solve, class C>
absl::Status WithTriangles(gpu, const OpContext& ctx, const TriangularSize& s, const C* a, C* b) {
  RETURN_IF_ERROR(CheckInterrupted());
  const int64_t lines = s.batch * (s.right ? s.rows : s.columns);
  const TriangularLine<solve, C> line = {s, a, b};
  return lines >= kManyLines ? ForEach<gpu>(ctx, lines, line) : ForEachGroup<gpu>(ctx, lines, s.n() * s.n(), line);
}

}  // namespace gluond::ops::factorize_internal
