#include "ops/kernel/strided.h"

#include <cstring>

#include "engine/core/device.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {
namespace {

// Bits of one element, whatever their meaning.
template <class Fn>
auto DispatchSize(int64_t bytes, const Fn& fn) {
  switch (bytes) {
    case 1: return fn(uint8_t{});
    case 2: return fn(uint16_t{});
    case 8: return fn(uint64_t{});
    default: return fn(uint32_t{});
  }
}

#ifdef GLUOND_GPU

template <class T>
__global__ void CopyKernel(Walk<2> walk, const T* x, T* y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < walk.size; i += step) {
    const auto offset = walk(i);
    y[offset.at[1]] = x[offset.at[0]];
  }
}

template <class C>
__global__ void ScaleKernel(Walk<2> walk, In<C> x, int64_t x_offset, C scale, Out<C> y, int64_t y_offset) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < walk.size; i += step) {
    const auto offset = walk(i);
    y.Set(y_offset + offset.at[1], x[x_offset + offset.at[0]] * scale);
  }
}

#else

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

// The two innermost axes of a transposition by squares that fit in the first-level cache.
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
void CopyAll(const OpContext& ctx, const Walk<2>& walk, const T* x, T* y) {
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
    return;
  }
  Parallel(ctx, walk.rows(), std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto offset = walk.Row(row);
      CopyRow(n, x + offset.at[0], walk.row_stride(0), y + offset.at[1], walk.row_stride(1));
    }
  });
}

template <class C>
void ScaleAll(const OpContext& ctx, const Walk<2>& walk, const StridedCopy& copy, const TBlob& x, const Out<C>& y) {
  const int64_t n = walk.row_size(), x_step = walk.row_stride(0), y_step = walk.row_stride(1);
  const In<C> in(x);
  const C scale = Convert<C>(copy.scale);
  Parallel(ctx, walk.rows(), std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto offset = walk.Row(row);
      const int64_t from = copy.x_offset + offset.at[0], to = copy.y_offset + offset.at[1];
      for (int64_t i = 0; i < n; ++i) y.Set(to + i * y_step, in[from + i * x_step] * scale);
    }
  });
}

#endif

}  // namespace

template <class D>
absl::Status CopyStrided(const OpContext& ctx, const StridedCopy& copy, const TBlob& x, OpReqType req,
                         const TBlob& y) {
  if (req == kNullOp) return absl::OkStatus();
  Strides strides[2];
  std::copy_n(copy.x_strides, Shape::kMaxRank, strides[0]);
  std::copy_n(copy.y_strides, Shape::kMaxRank, strides[1]);
  const Walk<2> walk(copy.dims, strides);
  if (walk.size == 0) return absl::OkStatus();
  if (req == kAddTo || copy.scale != 1) {
    return DispatchCompute(y.dtype, [&](auto c) -> absl::Status {
      using C = decltype(c);
#ifdef GLUOND_GPU
      return Launch(ctx, ScaleKernel<C>, Blocks(walk.size), kBlockThreads, walk, In<C>(x), copy.x_offset,
                    Convert<C>(copy.scale), Out<C>(y, req), copy.y_offset);
#else
      ScaleAll<C>(ctx, walk, copy, x, Out<C>(y, req));
      return absl::OkStatus();
#endif
    });
  }
  return DispatchSize(SizeOf(y.dtype), [&](auto t) -> absl::Status {
    using T = decltype(t);
    const T* from = static_cast<const T*>(x.data) + copy.x_offset;
    T* to = static_cast<T*>(y.data) + copy.y_offset;
#ifdef GLUOND_GPU
    return Launch(ctx, CopyKernel<T>, Blocks(walk.size), kBlockThreads, walk, from, to);
#else
    CopyAll<T>(ctx, walk, from, to);
    return absl::OkStatus();
#endif
  });
}

#ifdef GLUOND_GPU
template absl::Status CopyStrided<gpu>(const OpContext&, const StridedCopy&, const TBlob&, OpReqType, const TBlob&);
#else
template absl::Status CopyStrided<cpu>(const OpContext&, const StridedCopy&, const TBlob&, OpReqType, const TBlob&);
#endif

}  // namespace gluond::ops
