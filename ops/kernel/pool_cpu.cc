// Pooling on the CPU: planes to threads; along a row of outputs, one element of the window after the other, so that the
// inner loops run over neighbours and vectorize.

#include <limits>

#include "engine/core/status_macros.h"
#include "ops/kernel/pool.h"
#include "ops/kernel/widen.h"

namespace gluond::ops {
namespace {

constexpr int64_t kChunk = 128;  // Outputs of a row at a time; their state stays in the first-level cache.

// The outputs in [begin, end) whose window element kx is inside the row, and that element of output 0.
struct Run {
  int64_t begin, end, offset;

  Run(const PoolSize& s, int64_t kx, int64_t first, int64_t last) : offset(kx - s.pad[1]) {
    const int64_t stride = s.stride[1];
    begin = std::max(first, offset >= 0 ? 0 : (-offset + stride - 1) / stride);
    end = std::min(last, s.in[1] - 1 - offset < 0 ? 0 : (s.in[1] - 1 - offset) / stride + 1);
  }
};

// Calls body(first, last, input row, Run) for the rows and elements of every window of output row oy.
template <class Body>
void ForEachRun(const PoolSize& s, int64_t oy, int64_t first, int64_t last, const Body& body) {
  const Extent rows = WindowExtent(s, 0, oy);
  for (int64_t iy = rows.begin; iy < rows.end; ++iy) {
    for (int64_t kx = 0; kx < s.kernel[1]; ++kx) {
      if (const Run run(s, kx, first, last); run.begin < run.end) body(iy * s.in[1], run);
    }
  }
}

template <class C>
void MaxRow(const PoolSize& s, const C* x, int64_t oy, int64_t first, int64_t last, bool add, C* y, bool add_index,
            int32_t* index) {
  C best[kChunk];
  int32_t at[kChunk];
  std::fill_n(best, last - first, -std::numeric_limits<C>::infinity());
  std::fill_n(at, last - first, -1);
  const int64_t stride = s.stride[1];
  ForEachRun(s, oy, first, last, [&](int64_t row, const Run& run) {
    const C* from = x + row + run.offset;
    const int32_t base = static_cast<int32_t>(row + run.offset);
    for (int64_t ox = run.begin; ox < run.end; ++ox) {
      const C v = from[ox * stride];
      const int64_t j = ox - first;
      const bool take = (v > best[j]) | (v != v) | (at[j] < 0);
      const bool keep = best[j] != best[j];
      at[j] = take & !keep ? base + static_cast<int32_t>(ox * stride) : at[j];
      best[j] = take & !keep ? v : best[j];
    }
  });
  for (int64_t j = 0; j < last - first; ++j) {
    const C v = at[j] < 0 ? 0 : best[j];
    if (y != nullptr) y[first + j] = add ? y[first + j] + v : v;
    if (index != nullptr) index[first + j] = add_index ? index[first + j] + at[j] : at[j];
  }
}

template <class C>
void SumRow(const PoolSize& s, const C* x, int64_t oy, int64_t first, int64_t last, bool add, C* y) {
  C sum[kChunk] = {};
  const int64_t stride = s.stride[1];
  ForEachRun(s, oy, first, last, [&](int64_t row, const Run& run) {
    const C* from = x + row + run.offset;
    for (int64_t ox = run.begin; ox < run.end; ++ox) sum[ox - first] += from[ox * stride];
  });
  const Extent rows = WindowExtent(s, 0, oy);
  for (int64_t ox = first; ox < last; ++ox) {
    const C v = sum[ox - first] / static_cast<C>(Divisor(s, rows, WindowExtent(s, 1, ox)));
    y[ox] = add ? y[ox] + v : v;
  }
}

template <class C>
void SpreadRow(const PoolSize& s, const C* dy, int64_t oy, int64_t first, int64_t last, C* dx) {
  C share[kChunk];
  const Extent rows = WindowExtent(s, 0, oy);
  for (int64_t ox = first; ox < last; ++ox) {
    share[ox - first] = dy[ox] / static_cast<C>(Divisor(s, rows, WindowExtent(s, 1, ox)));
  }
  const int64_t stride = s.stride[1];
  ForEachRun(s, oy, first, last, [&](int64_t row, const Run& run) {
    C* to = dx + row + run.offset;
    for (int64_t ox = run.begin; ox < run.end; ++ox) to[ox * stride] += share[ox - first];
  });
}

// Calls body(plane) for all planes, spread over the threads.
template <class Body>
void ForEachPlane(const OpContext& ctx, const PoolSize& s, const Body& body) {
  const int64_t work = s.out_plane() * s.kernel[0] * s.kernel[1] + 1;
  Parallel(ctx, s.planes, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) body(plane);
  });
}

template <class C>
void Forward(const OpContext& ctx, const PoolSize& s, const C* x, OpReqType req, C* y, OpReqType index_req,
             int32_t* index) {
  ForEachPlane(ctx, s, [&](int64_t plane) {
    for (int64_t oy = 0; oy < s.out[0]; ++oy) {
      const int64_t row = plane * s.out_plane() + oy * s.out[1];
      for (int64_t ox = 0; ox < s.out[1]; ox += kChunk) {
        const int64_t last = std::min(ox + kChunk, s.out[1]);
        if (s.type == PoolType::kMax) {
          MaxRow(s, x + plane * s.in_plane(), oy, ox, last, req == kAddTo, y == nullptr ? y : y + row,
                 index_req == kAddTo, index == nullptr ? index : index + row);
        } else {
          SumRow(s, x + plane * s.in_plane(), oy, ox, last, req == kAddTo, y + row);
        }
      }
    }
  });
}

template <class C>
void Backward(const OpContext& ctx, const PoolSize& s, const C* dy, const int32_t* index, OpReqType req, C* dx) {
  ForEachPlane(ctx, s, [&](int64_t plane) {
    const C* from = dy + plane * s.out_plane();
    C* to = dx + plane * s.in_plane();
    if (req != kAddTo) std::fill_n(to, s.in_plane(), C{0});
    if (s.type == PoolType::kMax) {
      const int32_t* at = index + plane * s.out_plane();
      for (int64_t o = 0; o < s.out_plane(); ++o) {
        if (at[o] >= 0) to[at[o]] += from[o];
      }
      return;
    }
    for (int64_t oy = 0; oy < s.out[0]; ++oy) {
      for (int64_t ox = 0; ox < s.out[1]; ox += kChunk) {
        SpreadRow(s, from + oy * s.out[1], oy, ox, std::min(ox + kChunk, s.out[1]), to);
      }
    }
  });
}

}  // namespace

template <>
absl::Status PoolForward<cpu>(const OpContext& ctx, const PoolSize& size, const TBlob& x, OpReqType req, const TBlob& y,
                              OpReqType index_req, const TBlob& index) {
  int32_t* const at = size.type == PoolType::kMax && index_req != kNullOp ? index.dptr<int32_t>() : nullptr;
  if (req == kNullOp && at == nullptr) return absl::OkStatus();
  if (x.dtype == DType::kFloat64) {
    Forward(ctx, size, x.dptr<double>(), req, req == kNullOp ? nullptr : y.dptr<double>(), index_req, at);
    return absl::OkStatus();
  }
  if (x.dtype == DType::kFloat32) {
    Forward(ctx, size, x.dptr<float>(), req, req == kNullOp ? nullptr : y.dptr<float>(), index_req, at);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const float* wide_x, Widen(ctx, x.dtype, x.data, x.Size()));
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(y.Size() * sizeof(float)));
  float* wide_y = static_cast<float*>(space);
  Forward(ctx, size, wide_x, kWriteTo, wide_y, index_req, at);
  Narrow(ctx, y.dtype, wide_y, req, y.data, y.Size());
  return absl::OkStatus();
}

template <>
absl::Status PoolBackward<cpu>(const OpContext& ctx, const PoolSize& size, const TBlob& dy, const TBlob& index,
                               OpReqType req, const TBlob& dx) {
  if (req == kNullOp) return absl::OkStatus();
  const int32_t* const at = size.type == PoolType::kMax ? index.dptr<int32_t>() : nullptr;
  if (dy.dtype == DType::kFloat64) {
    Backward(ctx, size, dy.dptr<double>(), at, req, dx.dptr<double>());
    return absl::OkStatus();
  }
  if (dy.dtype == DType::kFloat32) {
    Backward(ctx, size, dy.dptr<float>(), at, req, dx.dptr<float>());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const float* wide_dy, Widen(ctx, dy.dtype, dy.data, dy.Size()));
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(dx.Size() * sizeof(float)));
  float* wide_dx = static_cast<float*>(space);
  Backward(ctx, size, wide_dy, at, kWriteTo, wide_dx);
  Narrow(ctx, dx.dtype, wide_dx, req, dx.data, dx.Size());
  return absl::OkStatus();
}

}  // namespace gluond::ops
