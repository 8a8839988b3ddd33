// Slices on a GPU.

#include "ops/kernel/sort.h"

namespace gluond::ops {
namespace {

bool CopySlices(gpu, const OpContext&, const GatherGeometry&, IndexMode, const TBlob&, const TBlob&, const TBlob&) { return false; }

struct PlaceIndex {
  In<int64_t> index;
  int64_t n;
  IndexMode mode;
  int64_t* row;
  HOST_DEVICE void operator()(int64_t k) const { row[k] = Place(index[k], n, mode); }
};

// The indices sorted by the rows that they name, those of one row in their own order. They form runs, which are added
// up in pieces.
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
absl::Status AddRuns(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy, const TBlob& index,
                     OpReqType req, const TBlob& dx) {
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

absl::Status AddSlices(gpu, const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy, const TBlob& index,
                       OpReqType req, const TBlob& dx) {
  return DispatchCompute(dx.dtype, [&](auto c) { return AddRuns<decltype(c)>(ctx, g, mode, dy, index, req, dx); });
}

}  // namespace
}  // namespace gluond::ops
