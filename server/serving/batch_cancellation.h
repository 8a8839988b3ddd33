// BatchCancellation: requests that are computed together are cancelled together, when nobody waits for any of them.
//
//   const std::shared_ptr<Cancellation> cancellation = CancelledTogether(batch);
//   model.Predict(..., cancellation, [batch](...) {
//     for (const InferRequestPtr& request : batch) request->Unlisten();
//     ...

#ifndef SERVER_SERVING_BATCH_CANCELLATION_H_
#define SERVER_SERVING_BATCH_CANCELLATION_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "engine/runtime/cancellation.h"
#include "server/serving/infer_request.h"

namespace gluond::server {

// Null: one of them cannot be cancelled. The requests listen from here on. Requires: they do not yet.
inline std::shared_ptr<Cancellation> CancelledTogether(const std::vector<InferRequestPtr>& batch) {
  auto deadline = InferRequest::Clock::time_point::min();
  for (const InferRequestPtr& request : batch) {
    if (request->cancellation == nullptr) return nullptr;
    deadline = std::max(deadline, request->cancellation->deadline());
  }
  if (batch.size() == 1) return batch.front()->cancellation;
  const auto all = std::make_shared<Cancellation>(deadline);
  const auto left = std::make_shared<std::atomic<size_t>>(batch.size());
  for (const InferRequestPtr& request : batch) {
    request->wake = [all, left] {
      if (--*left == 0) all->Cancel();
    };
    if (!request->cancellation->Listen(request.get())) request->wake();
  }
  return all;
}

// Whether somebody waits for one of the requests.
inline bool IsWanted(const std::vector<InferRequestPtr>& batch) {
  return std::any_of(batch.begin(), batch.end(), [](const InferRequestPtr& request) {
    return request->cancellation == nullptr || request->cancellation->Check().ok();
  });
}

}  // namespace gluond::server

#endif  // SERVER_SERVING_BATCH_CANCELLATION_H_
