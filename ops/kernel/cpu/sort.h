// Sorting on a CPU: row by row, as far as it is wanted.

namespace gluond::ops {
namespace {

template <class C>
absl::StatusOr<int64_t*> SortRows(cpu, const OpContext& ctx, const RowGeometry& rows, Precedes<C> precedes, int64_t k,
                                  const C* keys, int64_t* order) {
  constexpr int64_t kRowGrain = 2048;  // Sorting an element costs as much as some 16 additions.
  Parallel(ctx, rows.rows(), std::max<int64_t>(1, kRowGrain / rows.n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const C* const key = keys + row * rows.n;
      int64_t* const first = order + row * rows.n;
      const auto before = [&](int64_t a, int64_t b) { return precedes(key[a], key[b]) || (a < b && !precedes(key[b], key[a])); };
      std::partial_sort(first, first + k, first + rows.n, before);
    }
  });
  return order;
}

}  // namespace
}  // namespace gluond::ops
