// Strided copies on a CPU: by rows of the walk, or by planes.

namespace gluond::ops {
namespace {

// A call costs more than a short row does, as those of an attention's heads are.
template <class T>
void CopyDenseRow(int64_t n, const T* x, T* y) {
  constexpr int64_t kVector = 32 / sizeof(T), kShort = 512 / sizeof(T);
  if (n > kShort) {
    std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  int64_t i = 0;
  for (; i + kVector <= n; i += kVector) std::memcpy(y + i, x + i, kVector * sizeof(T));
  for (; i < n; ++i) y[i] = x[i];
}

// Not for rows that are dense on both sides.
template <class T>
void CopyRow(int64_t n, const T* x, int64_t x_stride, T* y, int64_t y_stride) {
  if (x_stride == 0 && y_stride == 1) {
    std::fill_n(y, n, *x);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * y_stride] = x[i * x_stride];
  }
}

// Copies the two innermost axes of a transposition by squares that fit in the first-level cache.
template <class T>
void CopyPlane(const Walk<2>& walk, const T* x, T* y) {
  constexpr int64_t kSquare = 32;
  const int outer = walk.ndim - 2, inner = walk.ndim - 1;
  const int64_t rows = walk.dim[outer], columns = walk.dim[inner];
  for (int64_t r = 0; r < rows; r += kSquare) {
    const int64_t r_end = std::min(rows, r + kSquare);
    for (int64_t c = 0; c < columns; c += kSquare) {
      const int64_t width = std::min(columns - c, kSquare);
      for (int64_t k = r; k < r_end; ++k) {
        CopyRow(width, x + k * walk.stride[0][outer] + c * walk.stride[0][inner], walk.stride[0][inner],
                y + k * walk.stride[1][outer] + c * walk.stride[1][inner], walk.stride[1][inner]);
      }
    }
  }
}

template <class T>
absl::Status CopyWalk(cpu, const OpContext& ctx, const Walk<2>& walk, const T* x, T* y) {
  const int64_t n = walk.row_size();
  const bool plane = walk.ndim >= 3 && walk.row_stride(0) != 1 && walk.row_stride(0) != 0;
  if (plane) {  // One piece of work is a matrix.
    const int64_t matrix = walk.dim[walk.ndim - 2] * n;
    Parallel(ctx, walk.size / matrix, std::max<int64_t>(1, kGrain / matrix), [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m) {
        const auto offset = walk.Row(m * walk.dim[walk.ndim - 2]);
        CopyPlane(walk, x + offset.at[0], y + offset.at[1]);
      }
    });
    return absl::OkStatus();
  }
  // Rows along the next axis follow each other at even steps: divisions find the first of them.
  const int next = walk.ndim - 2;
  const int64_t run = next < 0 ? 1 : walk.dim[next], x_step = next < 0 ? 0 : walk.stride[0][next];
  const int64_t y_step = next < 0 ? 0 : walk.stride[1][next];
  const auto copy = [&](const auto& copy_row) {
    Parallel(ctx, walk.rows(), std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end;) {
        const auto offset = walk.Row(row);
        const int64_t rows = std::min(end - row, run - row % run);
        for (int64_t i = 0; i < rows; ++i) copy_row(x + offset.at[0] + i * x_step, y + offset.at[1] + i * y_step);
        row += rows;
      }
    });
  };
  if (walk.row_stride(0) == 1 && walk.row_stride(1) == 1) {
    copy([n](const T* from, T* to) { CopyDenseRow(n, from, to); });
  } else {
    copy([&](const T* from, T* to) { CopyRow(n, from, walk.row_stride(0), to, walk.row_stride(1)); });
  }
  return absl::OkStatus();
}

template <class C>
absl::Status ScaleWalk(cpu, const OpContext& ctx, const Walk<2>& walk, const StridedCopy& copy, const In<C>& x, const Out<C>& y) {
  const int64_t n = walk.row_size(), x_step = walk.row_stride(0), y_step = walk.row_stride(1);
  const In<C> in = x;  // So that its members stay in registers.
  const C scale = Convert<C>(copy.scale);
  Parallel(ctx, walk.rows(), std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto offset = walk.Row(row);
      const int64_t from = copy.x_offset + offset.at[0], to = copy.y_offset + offset.at[1];
      for (int64_t i = 0; i < n; ++i) y.Set(to + i * y_step, in[from + i * x_step] * scale);
    }
  });
  return absl::OkStatus();
}

}  // namespace
}  // namespace gluond::ops
