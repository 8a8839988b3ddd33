#include "server/codec/row_selection.h"

#include <algorithm>

#include "engine/core/status_macros.h"

namespace gluond::server {

absl::StatusOr<Positions> CheckRange(const v1::Rows& rows, int64_t num_rows) {
  const Positions range{rows.begin(), rows.has_end() ? rows.end() : num_rows};
  if (range.begin >= 0 && range.begin < range.end && range.end <= num_rows) return range;
  return Invalid("rows from ", range.begin, " to ", range.end, " of dataset '", rows.dataset(), "' are no range within its ",
                 num_rows, " rows; leave `end` out for all from `begin` on");
}

absl::StatusOr<Tensor> SelectRows(const v1::Rows& rows, const Dataset& dataset, Allocator& host) {
  if (rows.indices().empty()) {
    ASSIGN_OR_RETURN(const Positions range, CheckRange(rows, dataset.rows()));
    return dataset.Rows({.seed = rows.seed(),
                         .epoch = rows.epoch(),
                         .first = range.begin,
                         .count = range.end - range.begin,
                         .shuffle = rows.shuffle()});
  }
  if (rows.shuffle() || rows.begin() != 0 || rows.has_end()) return Invalid("rows: want `indices` or a range, got both");
  for (int i = 0; i < rows.indices_size(); ++i) {
    if (rows.indices(i) >= 0 && rows.indices(i) < dataset.rows()) continue;
    return Invalid("rows.indices[", i, "] is ", rows.indices(i), "; dataset '", rows.dataset(), "' has the rows 0 to ",
                   dataset.rows() - 1);
  }
  ASSIGN_OR_RETURN(Tensor selected, Tensor::Empty(host, {rows.indices_size()}, DType::kInt64));
  std::copy(rows.indices().begin(), rows.indices().end(), selected.data<int64_t>());
  return selected;
}

}  // namespace gluond::server
