#include "ops/kernel/sort.h"

#include <numeric>

#include "engine/core/status_macros.h"

namespace gluond::ops {
namespace {

// Row after row, whatever way they lie in x.
template <class C>
struct LoadKey {
  RowGeometry rows;
  In<C> x;
  C* keys;
  int64_t* order;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t at = i % rows.n;
    keys[i] = x[rows.begin(i / rows.n) + at * rows.inner];
    order[i] = at;
  }
};

template <class T>
absl::StatusOr<T*> Space(const OpContext& ctx, int64_t n) {
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(static_cast<size_t>(n) * sizeof(T)));
  return static_cast<T*>(space);
}

#ifndef GLUOND_GPU
template <class C>
void SortRows(const OpContext& ctx, const RowGeometry& rows, Precedes<C> precedes, int64_t k, const C* keys,
              int64_t* order) {
  constexpr int64_t kRowGrain = 2048;  // Sorting an element costs as much as some 16 additions.
  Parallel(ctx, rows.rows(), std::max<int64_t>(1, kRowGrain / rows.n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const C* const key = keys + row * rows.n;
      int64_t* const first = order + row * rows.n;
      const auto before = [&](int64_t a, int64_t b) {
        return precedes(key[a], key[b]) || (a < b && !precedes(key[b], key[a]));
      };
      std::partial_sort(first, first + k, first + rows.n, before);
    }
  });
}
#endif

}  // namespace

template <class D>
absl::StatusOr<const int64_t*> SortedOrder(const OpContext& ctx, const RowGeometry& rows, bool ascending,
                                           [[maybe_unused]] int64_t k, const TBlob& x) {
  const int64_t size = rows.rows() * rows.n;
  ASSIGN_OR_RETURN(int64_t* order, Space<int64_t>(ctx, size));
  if (size == 0) return order;
  const absl::Status sorted = DispatchCompute(x.dtype, [&](auto c) -> absl::Status {
    using C = decltype(c);
    ASSIGN_OR_RETURN(C* const keys, Space<C>(ctx, size));
    RETURN_IF_ERROR(ForEach<D>(ctx, size, LoadKey<C>{rows, In<C>(x), keys, order}));
#ifdef GLUOND_GPU
    ASSIGN_OR_RETURN(int64_t* merged, Space<int64_t>(ctx, size));
    for (int64_t width = 1; width < rows.n; width *= 2) {
      RETURN_IF_ERROR(ForEach<D>(ctx, size, MergePass<C>{rows.n, width, keys, order, merged, {ascending}}));
      std::swap(order, merged);
    }
#else
    SortRows<C>(ctx, rows, {ascending}, k, keys, order);
#endif
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(sorted);
  return order;
}

#ifdef GLUOND_GPU
template absl::StatusOr<const int64_t*> SortedOrder<gpu>(const OpContext&, const RowGeometry&, bool, int64_t,
                                                         const TBlob&);
#else
template absl::StatusOr<const int64_t*> SortedOrder<cpu>(const OpContext&, const RowGeometry&, bool, int64_t,
                                                         const TBlob&);
#endif

}  // namespace gluond::ops
