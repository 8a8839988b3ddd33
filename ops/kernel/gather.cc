#include "ops/kernel/gather.h"

#include <cstring>

#include "engine/core/status_macros.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/sort.h"

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

#ifdef GLUOND_GPU

struct PlaceIndex {
  In<int64_t> index;
  int64_t n;
  IndexMode mode;
  int64_t* row;
  HOST_DEVICE void operator()(int64_t k) const { row[k] = Place(index[k], n, mode); }
};

// The indices by the rows that they name, those of one row in their own order: runs, which are added up in pieces.
struct SortedRows {
  static constexpr int64_t kPiece = 64;

  const int64_t *row, *order;

  HOST_DEVICE int64_t operator[](int64_t k) const { return row[order[k]]; }
  HOST_DEVICE bool begins_run(int64_t k) const { return k == 0 || (*this)[k - 1] != (*this)[k]; }
  HOST_DEVICE bool begins_piece(int64_t k) const { return k % kPiece == 0 || begins_run(k); }
};

// partial[o, k, column] = the sum of the piece that begins at k.
template <class C>
struct SumPiece {
  GatherGeometry g;
  SortedRows sorted;
  In<C> dy;
  C* partial;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % g.inner, k = i / g.inner % g.indices, first = i / g.inner - k;
    if (!sorted.begins_piece(k)) return;
    C sum = dy[(first + sorted.order[k]) * g.inner + column];
    for (int64_t j = k + 1; j < g.indices && !sorted.begins_piece(j); ++j) {
      sum = WrappingAdd(sum, dy[(first + sorted.order[j]) * g.inner + column]);
    }
    partial[i] = sum;
  }
};

// dx[o, row, column] = the sum of the run's pieces, for the run that begins at k.
template <class C>
struct SumRun {
  GatherGeometry g;
  SortedRows sorted;
  const C* partial;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % g.inner, k = i / g.inner % g.indices, outer = i / g.inner / g.indices;
    if (!sorted.begins_run(k)) return;
    C sum = partial[i];
    int64_t j = (k / SortedRows::kPiece + 1) * SortedRows::kPiece;
    for (; j < g.indices && sorted[j] == sorted[k]; j += SortedRows::kPiece) {
      sum = WrappingAdd(sum, partial[(outer * g.indices + j) * g.inner + column]);
    }
    dx.Set((outer * g.n + sorted[k]) * g.inner + column, sum);
  }
};

// No two threads add to one element, so that every run gives the same bits.
template <class C>
absl::Status AddRuns(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy,
                     const TBlob& index, OpReqType req, const TBlob& dx) {
  TBlob rows = {nullptr, {g.indices}, DType::kInt64, ctx.device};
  ASSIGN_OR_RETURN(rows.data, ctx.scratch->Get(rows.bytes()));
  int64_t* const row = rows.dptr<int64_t>();
  RETURN_IF_ERROR(ForEach<gpu>(ctx, g.indices, PlaceIndex{In<int64_t>(index), g.n, mode, row}));
  ASSIGN_OR_RETURN(const int64_t* order, SortedOrder<gpu>(ctx, {1, g.indices, 1}, true, g.indices, rows));
  const SortedRows sorted = {row, order};
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(static_cast<size_t>(dy.Size()) * sizeof(C)));
  C* const partial = static_cast<C*>(space);
  RETURN_IF_ERROR(ForEach<gpu>(ctx, dy.Size(), SumPiece<C>{g, sorted, In<C>(dy), partial}));
  return ForEach<gpu>(ctx, dy.Size(), SumRun<C>{g, sorted, partial, Out<C>(dx, req)});
}

#endif  // GLUOND_GPU

}  // namespace

template <class D>
absl::Status Gather(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& x, const TBlob& index,
                    OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
#ifndef GLUOND_GPU
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
  if (req != kAddTo) RETURN_IF_ERROR(FillZero<D>(ctx, dx));
  if (dy.Size() == 0) return absl::OkStatus();
#ifdef GLUOND_GPU
  return DispatchCompute(dx.dtype, [&](auto c) { return AddRuns<decltype(c)>(ctx, g, mode, dy, index, req, dx); });
#else
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

#ifdef GLUOND_GPU
using Target = gpu;
#else
using Target = cpu;
#endif
template absl::Status Gather<Target>(const OpContext&, const GatherGeometry&, IndexMode, const TBlob&, const TBlob&,
                                     OpReqType, const TBlob&);
template absl::Status ScatterAdd<Target>(const OpContext&, const GatherGeometry&, IndexMode, const TBlob&, const TBlob&,
                                         OpReqType, const TBlob&);

}  // namespace gluond::ops
