// Strided copies on a CPU: by rows of the walk, or by planes.

namespace gluond::ops {
namespace {

template <class T>
void CopyRow(int64_t n, const T* x, int64_t x_stride, T* y, int64_t y_stride) {
  if (x_stride == 1 && y_stride == 1) {
    std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
  } else if (x_stride == 0 && y_stride == 1) {
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
  Parallel(ctx, walk.rows(), std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto offset = walk.Row(row);
      CopyRow(n, x + offset.at[0], walk.row_stride(0), y + offset.at[1], walk.row_stride(1));
    }
  });
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
