// Whether the option `batch_invariant` holds what it promises: docs/decisions.md, "What has equal bits".

#ifndef SERVER_SERVING_BATCH_INVARIANCE_H_
#define SERVER_SERVING_BATCH_INVARIANCE_H_

#include "absl/status/status.h"
#include "engine/nn/model.h"
#include "server/hosted/devices.h"
#include "server/serving/options.h"

namespace gluond::server {

// FAILED_PRECONDITION: the version asks for `batch_invariant` on a GPU, on a processor without AVX-512, or of a model that
// computes in float64. The message says which of them, and what to do.
absl::Status CheckBatchInvariance(const ServingOptions& options, const ModelState& state, const Place& place);

}  // namespace gluond::server

#endif  // SERVER_SERVING_BATCH_INVARIANCE_H_
