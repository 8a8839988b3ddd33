// Slices on a CPU: whole ones.

#include "ops/kernel/sort.h"

namespace gluond::ops {
namespace {

// Copies x[o, index[i], :] to y[o, i, :]. False where that is better done element by element.
bool CopySlices(cpu, const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& x, const TBlob& index,
                const TBlob& y) {
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
  return true;
}

// The slices of one row of dx after the other, so that 16 bits hold sums of float and not what is being added up.
absl::Status AddByRows(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy, const TBlob& index,
                       const TBlob& dx) {
  TBlob rows = {nullptr, {g.indices}, DType::kInt64, ctx.device};
  ASSIGN_OR_RETURN(rows.data, ctx.scratch->Get(rows.bytes()));
  int64_t* const row = rows.dptr<int64_t>();
  for (int64_t k = 0; k < g.indices; ++k) row[k] = Place(In<int64_t>(index)[k], g.n, mode);
  ASSIGN_OR_RETURN(const int64_t* order, SortedOrder<cpu>(ctx, {1, g.indices, 1}, true, g.indices, rows));
  const int64_t grain = std::max<int64_t>(16, kGrain / (g.outer * g.indices));
  Parallel(ctx, g.inner, grain, [&](int64_t begin, int64_t end) {
    float sum[kTile], slice[kTile];
    for (int64_t outer = 0; outer < g.outer; ++outer) {
      for (int64_t k = 0, after; k < g.indices; k = after) {
        for (after = k + 1; after < g.indices && row[order[after]] == row[order[k]];) ++after;
        for (int64_t column = begin; column < end; column += kTile) {
          const int64_t n = std::min(kTile, end - column), to = (outer * g.n + row[order[k]]) * g.inner + column;
          std::fill_n(sum, n, 0.0f);
          for (int64_t i = k; i < after; ++i) {
            LoadTile(dy, (outer * g.indices + order[i]) * g.inner + column, n, slice);
            for (int64_t j = 0; j < n; ++j) sum[j] += slice[j];
          }
          StoreTile(dx, kAddTo, to, n, sum);  // dx holds zeros, or what is to be added to.
        }
      }
    }
  });
  return absl::OkStatus();
}

absl::Status AddSlices(cpu, const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy, const TBlob& index,
                       OpReqType /*req*/, const TBlob& dx) {
  return DispatchType(dx.dtype, [&](auto t) -> absl::Status {
    using T = decltype(t);
    using C = Acc<T>;
    if constexpr (kIsHalf<T>) return AddByRows(ctx, g, mode, dy, index, dx);
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
}

}  // namespace
}  // namespace gluond::ops
