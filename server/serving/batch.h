// Batches: requests that are computed together are joined along the first axis, and their answers are taken apart again. They are
// cancelled together, when nobody waits for any of them.
//
//   ASSIGN_OR_RETURN(NamedTensors inputs, JoinRows(batch, options, allocator));
//   const std::shared_ptr<Cancellation> cancellation = CancelledTogether(batch);
//   model.Predict(..., cancellation, [batch](...) {
//     for (const InferRequestPtr& request : batch) request->Unlisten();
//     ASSIGN_OR_RETURN(std::vector<NamedTensors> answers, SplitRows(batch, options, outputs));  // By request.
//     ...

#ifndef SERVER_SERVING_BATCH_H_
#define SERVER_SERVING_BATCH_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/named_tensor.h"
#include "engine/runtime/cancellation.h"
#include "server/serving/infer_request.h"
#include "server/serving/options.h"

namespace gluond::server {

int64_t RowsOf(const Batch& batch);

// The inputs of all requests, and rows of zeros as far as `options` want. A lone request is not copied where none are wanted.
// RESOURCE_EXHAUSTED: no memory.
absl::StatusOr<NamedTensors> JoinRows(const Batch& batch, const ServingOptions& options, Allocator& allocator);

// Parts of `outputs`, without a copy. FAILED_PRECONDITION: an output has not as many rows as the batch.
absl::StatusOr<std::vector<NamedTensors>> SplitRows(const Batch& batch, const ServingOptions& options, const NamedTensors& outputs);

// Null: one of them cannot be cancelled. The requests listen from here on. Requires: they do not yet.
std::shared_ptr<Cancellation> CancelledTogether(const Batch& batch);
// Whether somebody waits for one of the requests.
bool IsWanted(const Batch& batch);

}  // namespace gluond::server

#endif  // SERVER_SERVING_BATCH_H_
