// The rows of a dataset that a request names.

#ifndef SERVER_ROW_SELECTION_H_
#define SERVER_ROW_SELECTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/train/dataset.h"
#include "proto/dataset.pb.h"

namespace gluond::server {

// [begin, end) with the defaults filled in. INVALID_ARGUMENT: empty, or not within the dataset.
struct Positions {
  int64_t begin;
  int64_t end;
};
absl::StatusOr<Positions> CheckRange(const v1::Rows& rows, int64_t num_rows);

// Row numbers in the order of use. INVALID_ARGUMENT: as CheckRange; an index out of range; indices and a range.
absl::StatusOr<std::vector<int64_t>> SelectRows(const v1::Rows& rows, const Dataset& dataset);

}  // namespace gluond::server

#endif  // SERVER_ROW_SELECTION_H_
