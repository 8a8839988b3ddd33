// The rows of a dataset that a request names.

#ifndef SERVER_CODEC_ROW_SELECTION_H_
#define SERVER_CODEC_ROW_SELECTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/train/dataset.h"
#include "gluond/v1/dataset.pb.h"

namespace gluond::server {

// The range [begin, end) with the defaults filled in. INVALID_ARGUMENT: it is empty, or not within the dataset.
struct Positions {
  int64_t begin;
  int64_t end;
};
absl::StatusOr<Positions> CheckRange(const v1::Rows& rows, int64_t num_rows);

// Row numbers, int64 [n], in the order of use. INVALID_ARGUMENT: as CheckRange; an index out of range; indices and a range.
// RESOURCE_EXHAUSTED: as Dataset::Rows, or `host` has no memory for the indices.
absl::StatusOr<Tensor> SelectRows(const v1::Rows& rows, const Dataset& dataset, Allocator& host);

}  // namespace gluond::server

#endif  // SERVER_CODEC_ROW_SELECTION_H_
