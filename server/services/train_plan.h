// TrainPlan: a training as its request wants it, checked. Also the rows of a dataset that a request names, and the forms in
// which clients see reports.

#ifndef SERVER_SERVICES_TRAIN_PLAN_H_
#define SERVER_SERVICES_TRAIN_PLAN_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/train/dataset.h"
#include "engine/train/trainer.h"
#include "gluond/v1/training.pb.h"
#include "server/hosted/hosted_dataset.h"
#include "server/rpc/dispatch.h"

namespace gluond::server {

// INVALID_ARGUMENT: a number is below 1 that may be left out.
absl::Status CheckPositive(absl::string_view name, int64_t value);

// Row numbers, int64 [n], in the order of use. INVALID_ARGUMENT: a range that is empty, or not within the dataset; an index
// out of range; indices and a range. RESOURCE_EXHAUSTED: as Dataset::Rows, or `host` has no memory for the indices.
absl::StatusOr<Tensor> SelectRows(const v1::Rows& rows, const Dataset& dataset, Allocator& host);

struct EvaluatedRows {
  std::shared_ptr<const Dataset> dataset;
  int64_t batch_size = 0;
  int64_t first = 0;
  int64_t count = 0;
};
constexpr int64_t kEvaluatedTogether = 256;  // The default of the wire's batch sizes of evaluations.
// INVALID_ARGUMENT: the rows are no range in their own order within the dataset; `batch_size` is below 1.
// Also as Datasets::Committed.
absl::StatusOr<EvaluatedRows> ToEvaluatedRows(const v1::Rows& rows, int64_t batch_size, const Datasets& datasets);

struct TrainPlan {
  std::shared_ptr<const Dataset> dataset;
  v1::Rows rows;  // As the request has them.
  bool is_range = true;
  int64_t begin = 0;  // An epoch has the positions [begin, end).
  int64_t end = 0;
  int64_t batch_size = 0;
  bool drop_last = false;
  uint64_t first_epoch = 0;  // Where the first step is.
  int64_t first_begin = 0;
  int64_t total_steps = 0;
  std::chrono::nanoseconds progress_every{};
  std::optional<EvaluatedRows> evaluate;

  // The steps of an epoch from this position on.
  int64_t StepsFrom(int64_t position) const;
};
// A plan for `trainer`. INVALID_ARGUMENT: names the field. Also as Datasets::Committed.
absl::StatusOr<TrainPlan> ToTrainPlan(const v1::TrainRequest& request, const Trainer& trainer, const Datasets& datasets);

// The cost of putting rows in the order of an epoch.
Weight WeightOfOrder(const v1::Rows& rows, const Dataset& dataset);

// Reports as clients see them.
void ToProto(const StepReport& report, v1::StepReport* proto);
void ToProto(const EvaluateReport& report, v1::EvaluateResponse* proto);
template <class Metrics>
void SetMetrics(const std::vector<MetricValue>& values, Metrics* metrics) {
  for (const MetricValue& metric : values) (*metrics)[metric.name] = metric.value;
}

// INVALID_ARGUMENT: not one of both.
template <class Request>
absl::Status CheckOneSource(const Request& request) {
  if (request.has_rows() != !request.inputs().empty()) return absl::OkStatus();
  return Invalid("want `inputs` or `rows`, got ", request.has_rows() ? "both" : "neither");
}

// INVALID_ARGUMENT: it is none.
template <class Request>
absl::Status CheckBatchSize(const Request& request) {
  return request.has_batch_size() ? CheckPositive("batch_size", request.batch_size()) : absl::OkStatus();
}

// INVALID_ARGUMENT: what the steps are taken on, or how many.
inline absl::Status CheckSteps(const v1::TrainStepRequest& request) {
  RETURN_IF_ERROR(CheckBatchSize(request));
  if (request.has_steps()) RETURN_IF_ERROR(CheckPositive("steps", request.steps()));
  RETURN_IF_ERROR(CheckOneSource(request));
  if (!request.has_rows() && request.steps() > 1) {
    return Invalid("one batch of `inputs` makes one step; name `rows` of a dataset for more");
  }
  return absl::OkStatus();
}

}  // namespace gluond::server

#endif  // SERVER_SERVICES_TRAIN_PLAN_H_
