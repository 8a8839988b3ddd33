#include "ops/kernel/gather.h"

#include <cstring>

#include "ops/kernel/fill.h"

namespace gluond::ops {
namespace {

// Negative indices count from the end where an index out of range is an error.
HOST_DEVICE int64_t Place(int64_t i, int64_t n, IndexMode mode) {
  return mode == kRaise && i < 0 ? ToRange(i + n, n, mode) : ToRange(i, n, mode);
}

template <class C>
struct GatherElement {
  GatherGeometry g;
  IndexMode mode;
  In<C> x;
  In<int64_t> index;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % g.inner, slice = i / g.inner;
    const int64_t at = Place(index[slice % g.indices], g.n, mode);
    y.Set(i, x[(slice / g.indices * g.n + at) * g.inner + column]);
  }
};

// One element of dx, so that no two threads add to the same.
template <class C>
struct ScatterElement {
  GatherGeometry g;
  IndexMode mode;
  In<C> dy;
  In<int64_t> index;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % g.inner, slice = i / g.inner, row = slice % g.n, outer = slice / g.n;
    C sum = 0;
    for (int64_t k = 0; k < g.indices; ++k) {
      if (Place(index[k], g.n, mode) == row) sum = WrappingAdd(sum, dy[(outer * g.indices + k) * g.inner + column]);
    }
    dx.Set(i, sum);
  }
};

}  // namespace

template <class D>
absl::Status Gather(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& x, const TBlob& index,
                    OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
#ifndef __CUDACC__
  if (req != kAddTo) {
    const In<int64_t> at(index);
    const int64_t bytes = g.inner * SizeOf(y.dtype);
    const char* const from = static_cast<const char*>(x.data);
    char* const to = static_cast<char*>(y.data);
    const int64_t grain = std::max<int64_t>(1, kGrain / g.inner);
    Parallel(ctx, g.outer * g.indices, grain, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const int64_t row = s / g.indices * g.n + Place(at[s % g.indices], g.n, mode);
        std::memcpy(to + s * bytes, from + row * bytes, static_cast<size_t>(bytes));
      }
    });
    return absl::OkStatus();
  }
#endif
  return DispatchCompute(y.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<D>(ctx, y.Size(), GatherElement<C>{g, mode, In<C>(x), In<int64_t>(index), Out<C>(y, req)});
  });
}

template <class D>
absl::Status ScatterAdd(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy,
                        const TBlob& index, OpReqType req, const TBlob& dx) {
  if (req == kNullOp || dx.Size() == 0) return absl::OkStatus();
#ifdef __CUDACC__
  return DispatchCompute(dx.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<D>(ctx, dx.Size(), ScatterElement<C>{g, mode, In<C>(dy), In<int64_t>(index), Out<C>(dx, req)});
  });
#else
  if (req != kAddTo) {
    if (absl::Status status = FillZero<D>(ctx, dx); !status.ok()) return status;
  }
  return DispatchType(dx.dtype, [&](auto t) {
    using T = decltype(t);
    using C = Acc<T>;
    const In<int64_t> at(index);
    const T* const from = static_cast<const T*>(dy.data);
    T* const to = static_cast<T*>(dx.data);
    // Each piece of work adds all slices to its own columns.
    const int64_t grain = std::max<int64_t>(16, kGrain / std::max<int64_t>(1, g.outer * g.indices));
    Parallel(ctx, g.inner, grain, [&](int64_t begin, int64_t end) {
      for (int64_t s = 0; s < g.outer * g.indices; ++s) {
        const int64_t row = s / g.indices * g.n + Place(at[s % g.indices], g.n, mode);
        const T* const u = from + s * g.inner;
        T* const v = to + row * g.inner;
        for (int64_t j = begin; j < end; ++j) v[j] = Convert<T>(WrappingAdd(Convert<C>(v[j]), Convert<C>(u[j])));
      }
    });
    return absl::OkStatus();
  });
#endif
}

#ifdef __CUDACC__
using Target = gpu;
#else
using Target = cpu;
#endif
template absl::Status Gather<Target>(const OpContext&, const GatherGeometry&, IndexMode, const TBlob&, const TBlob&,
                                     OpReqType, const TBlob&);
template absl::Status ScatterAdd<Target>(const OpContext&, const GatherGeometry&, IndexMode, const TBlob&, const TBlob&,
                                         OpReqType, const TBlob&);

}  // namespace gluond::ops
