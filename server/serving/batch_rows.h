// Rows of a batch: requests that are computed together are joined along the first axis, and their answers are taken apart again.
//
//   ASSIGN_OR_RETURN(NamedTensors inputs, JoinRows(batch, options, allocator));
//   ASSIGN_OR_RETURN(std::vector<NamedTensors> answers, SplitRows(batch, options, outputs));  // By request.

#ifndef SERVER_SERVING_BATCH_ROWS_H_
#define SERVER_SERVING_BATCH_ROWS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/named_tensor.h"
#include "server/serving/infer_request.h"
#include "server/serving/options.h"

namespace gluond::server {

// The inputs of all requests, and rows of zeros as far as `options` want. A lone request is not copied where none are wanted.
// RESOURCE_EXHAUSTED: no memory.
absl::StatusOr<NamedTensors> JoinRows(const std::vector<InferRequestPtr>& batch, const ServingOptions& options,
                                      Allocator& allocator);

// Parts of `outputs`, without a copy. FAILED_PRECONDITION: an output has not as many rows as the batch.
absl::StatusOr<std::vector<NamedTensors>> SplitRows(const std::vector<InferRequestPtr>& batch, const ServingOptions& options,
                                                    const NamedTensors& outputs);

}  // namespace gluond::server

#endif  // SERVER_SERVING_BATCH_ROWS_H_
