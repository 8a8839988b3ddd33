#include "ops/kernel/sort.h"

#include "engine/core/status_macros.h"
#include "ops/kernel/stage.h"
#include BACKEND(sort.h)

namespace gluond::ops {
namespace {

// Keys lie row after row, however rows lie in x.
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

}  // namespace

template <class D>
absl::StatusOr<const int64_t*> SortedOrder(const OpContext& ctx, const RowGeometry& rows, bool ascending, int64_t k,
                                           const TBlob& x) {
  const int64_t size = rows.rows() * rows.n;
  ASSIGN_OR_RETURN(int64_t * order, Space<int64_t>(ctx, size));
  if (size == 0) return order;
  const absl::Status sorted = DispatchCompute(x.dtype, [&](auto c) -> absl::Status {
    using C = decltype(c);
    ASSIGN_OR_RETURN(C* const keys, Space<C>(ctx, size));
    RETURN_IF_ERROR(ForEach<D>(ctx, size, LoadKey<C>{rows, In<C>(x), keys, order}));
    ASSIGN_OR_RETURN(order, SortRows<C>(D(), ctx, rows, {ascending}, k, keys, order));
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(sorted);
  return order;
}

template absl::StatusOr<const int64_t*> SortedOrder<Backend>(const OpContext&, const RowGeometry&, bool, int64_t, const TBlob&);

}  // namespace gluond::ops
