// Sorting on a GPU: a merge sort of all rows at once.

namespace gluond::ops {
namespace {

template <class C>
absl::StatusOr<int64_t*> SortRows(gpu, const OpContext& ctx, const RowGeometry& rows, Precedes<C> precedes, int64_t /*k*/,
                                  const C* keys, int64_t* order) {
  const int64_t size = rows.rows() * rows.n;
  ASSIGN_OR_RETURN(int64_t * merged, Space<int64_t>(ctx, size));
  for (int64_t width = 1; width < rows.n; width *= 2) {
    RETURN_IF_ERROR(ForEach<gpu>(ctx, size, MergePass<C>{rows.n, width, keys, order, merged, precedes}));
    std::swap(order, merged);
  }
  return order;
}

}  // namespace
}  // namespace gluond::ops
