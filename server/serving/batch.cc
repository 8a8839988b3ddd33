#include "server/serving/batch.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

Tensor Rows(const Tensor& tensor, int64_t begin, int64_t count) {
  Shape shape = tensor.shape();
  const size_t row = shape[0] == 0 ? 0 : tensor.bytes() / static_cast<size_t>(shape[0]);
  shape[0] = count;
  const size_t at = static_cast<size_t>(static_cast<char*>(tensor.data()) - static_cast<char*>(tensor.buffer()->data()));
  return Tensor(tensor.buffer(), at + static_cast<size_t>(begin) * row, shape, tensor.dtype());
}

}  // namespace

int64_t RowsOf(const Batch& batch) {
  int64_t rows = 0;
  for (const InferRequestPtr& request : batch) rows += request->rows;
  return rows;
}

absl::StatusOr<NamedTensors> JoinRows(const Batch& batch, const ServingOptions& options, Allocator& allocator) {
  const int64_t rows = RowsOf(batch);
  const int64_t all = options.batch_invariant ? options.max_batch_size : rows;
  if (batch.size() == 1 && all == rows) return batch.front()->inputs;
  NamedTensors joined;
  for (size_t i = 0; i < batch.front()->inputs.size(); ++i) {
    const NamedTensor& first = batch.front()->inputs[i];
    Shape shape = first.tensor.shape();
    shape[0] = all;
    ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(allocator, shape, first.tensor.dtype()));
    auto* to = static_cast<char*>(tensor.data());
    for (const InferRequestPtr& request : batch) {
      const Tensor& from = request->inputs[i].tensor;
      std::memcpy(to, from.data(), from.bytes());
      to += from.bytes();
    }
    std::memset(to, 0, tensor.bytes() - static_cast<size_t>(to - static_cast<char*>(tensor.data())));
    joined.push_back({first.name, std::move(tensor)});
  }
  return joined;
}

absl::StatusOr<std::vector<NamedTensors>> SplitRows(const Batch& batch, const ServingOptions& options,
                                                    const NamedTensors& outputs) {
  std::vector<NamedTensors> answers(batch.size());
  if (options.max_batch_size <= 0) {
    answers[0] = outputs;
    return answers;
  }
  const int64_t rows = options.batch_invariant ? options.max_batch_size : RowsOf(batch);
  for (const NamedTensor& output : outputs) {
    const Shape& shape = output.tensor.shape();
    if (shape.ndim() < 1 || shape[0] != rows) {
      return FailedPrecondition("output '", output.name, "' has shape ", shape.ToString(), " for ", rows,
                                " rows: it cannot be taken apart; publish with max_batch_size 0");
    }
    int64_t at = 0;
    for (size_t i = 0; i < batch.size(); at += batch[i++]->rows) {
      answers[i].push_back({output.name, Rows(output.tensor, at, batch[i]->rows)});
    }
  }
  return answers;
}

std::shared_ptr<Cancellation> CancelledTogether(const Batch& batch) {
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

bool IsWanted(const Batch& batch) {
  return absl::c_any_of(batch, [](const InferRequestPtr& request) {
    return request->cancellation == nullptr || request->cancellation->Check().ok();
  });
}

}  // namespace gluond::server
