#include "server/services/train_plan.h"

#include <algorithm>
#include <limits>

#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

// It takes longer to put more than these in an epoch's order than a gRPC thread has.
constexpr int64_t kManyRows = 1 << 16;
constexpr int64_t kMostEpochs = 1'000'000'000;
constexpr std::chrono::milliseconds kShortest{50};
constexpr std::chrono::seconds kLongest{1'000'000'000};

absl::StatusOr<std::chrono::nanoseconds> ProgressEvery(const v1::TrainRequest& request) {
  if (!request.has_progress_every()) return std::chrono::seconds(1);
  const google::protobuf::Duration& every = request.progress_every();
  const std::chrono::seconds seconds(std::clamp<int64_t>(every.seconds(), -1, kLongest.count()));
  const std::chrono::nanoseconds time = seconds + std::chrono::nanoseconds(every.nanos());
  if (time >= kShortest) return time;
  return Invalid("progress_every is ", every.seconds(), " s and ", every.nanos(),
                 " ns; want 0.05 s or more, or leave it out for 1 s");
}

struct Positions {
  int64_t begin;
  int64_t end;
};

// The range [begin, end) with the defaults filled in. INVALID_ARGUMENT: it is empty, or not within the dataset.
absl::StatusOr<Positions> CheckRange(const v1::Rows& rows, int64_t num_rows) {
  const Positions range{rows.begin(), rows.has_end() ? rows.end() : num_rows};
  if (range.begin >= 0 && range.begin < range.end && range.end <= num_rows) return range;
  return Invalid("rows from ", range.begin, " to ", range.end, " of dataset '", rows.dataset(), "' are no range within its ",
                 num_rows, " rows; leave `end` out for all from `begin` on");
}

// An evaluation that cannot be is found before the first epoch, which may take hours.
absl::Status CheckEvaluatedColumns(const Trainer& trainer, const Dataset& trained, const Dataset& evaluated) {
  constexpr char kOptional[] = "sample_weight";
  for (const ModelInput& input : trainer.inputs()) {
    if (input.name == kOptional || !trained.FindColumn(input.name).ok()) continue;
    if (const absl::Status found = evaluated.FindColumn(input.name).status(); !found.ok()) {
      return Invalid("evaluate: ", found.message());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPositive(absl::string_view name, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return Invalid(name, " is ", value, "; want 1 or more, or leave it out");
}

Weight WeightOfOrder(const v1::Rows& rows, const Dataset& dataset) {
  return rows.indices().empty() && dataset.rows() > kManyRows ? Weight::kHeavy : Weight::kLight;
}

void ToProto(const StepReport& report, v1::StepReport* proto) {
  proto->set_step(report.step);
  proto->set_learning_rate(report.learning_rate);
  proto->set_gradient_norm(report.gradient_norm);
  proto->set_nonfinite(report.nonfinite);
  proto->set_skipped(report.skipped);
  for (const std::string& name : report.stale) proto->add_stale_parameters(name);
}

void ToProto(const EvaluateReport& report, v1::EvaluateResponse* proto) {
  proto->set_samples(report.samples);
  proto->set_loss(report.loss);
  SetMetrics(report.metrics, proto->mutable_metrics());
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

absl::StatusOr<EvaluatedRows> ToEvaluatedRows(const v1::Rows& rows, int64_t batch_size, const Datasets& datasets) {
  RETURN_IF_ERROR(CheckPositive("the batch_size of an evaluation", batch_size));
  if (!rows.indices().empty() || rows.shuffle()) {
    return Invalid("an evaluation takes a range of rows in their own order; leave `indices` and `shuffle` out");
  }
  EvaluatedRows evaluated;
  ASSIGN_OR_RETURN(evaluated.dataset, datasets.Committed(rows.dataset()));
  ASSIGN_OR_RETURN(const Positions range, CheckRange(rows, evaluated.dataset->rows()));
  evaluated.first = range.begin;
  evaluated.count = range.end - range.begin;
  evaluated.batch_size = std::min(batch_size, evaluated.count);
  return evaluated;
}

int64_t TrainPlan::StepsFrom(int64_t position) const {
  const int64_t left = end - position;
  return left / batch_size + (drop_last || left % batch_size == 0 ? 0 : 1);
}

absl::StatusOr<TrainPlan> ToTrainPlan(const v1::TrainRequest& request, const Trainer& trainer, const Datasets& datasets) {
  const int64_t epochs = request.has_epochs() ? request.epochs() : 1;
  if (epochs < 1 || epochs > kMostEpochs) return Invalid("epochs is ", epochs, "; want 1 to ", kMostEpochs);
  if (request.has_steps()) RETURN_IF_ERROR(CheckPositive("steps", request.steps()));
  if (request.has_batch_size()) RETURN_IF_ERROR(CheckPositive("batch_size", request.batch_size()));
  if (!request.has_rows()) return Invalid("`rows` is not there; name a dataset, {\"rows\": {\"dataset\": \"...\"}}");
  TrainPlan plan;
  ASSIGN_OR_RETURN(plan.progress_every, ProgressEvery(request));
  plan.rows = request.rows();
  plan.is_range = plan.rows.indices().empty();
  ASSIGN_OR_RETURN(plan.dataset, datasets.Committed(plan.rows.dataset()));
  if (plan.is_range) {
    ASSIGN_OR_RETURN(const Positions range, CheckRange(plan.rows, plan.dataset->rows()));
    plan.begin = range.begin;
    plan.end = range.end;
    if (!request.has_batch_size()) return Invalid("a range of rows needs a batch_size");
  } else {
    plan.end = plan.rows.indices_size();
  }
  plan.drop_last = request.drop_last();
  plan.batch_size = request.has_batch_size() ? request.batch_size() : plan.end;
  plan.first_epoch = plan.rows.epoch();
  plan.first_begin = plan.begin;
  int64_t others = epochs - 1;
  if (request.has_start_at()) {
    plan.first_epoch = request.start_at().epoch();
    plan.first_begin = request.start_at().begin();
    const uint64_t past = plan.first_epoch - plan.rows.epoch();
    if (past >= static_cast<uint64_t>(epochs)) {
      return Invalid("start_at.epoch is ", plan.first_epoch, "; the ", epochs, " epochs begin with ", plan.rows.epoch(),
                     "; for more set `epochs` higher");
    }
    if (plan.first_begin < plan.begin || plan.first_begin >= plan.end) {
      return Invalid("start_at.begin is ", plan.first_begin, "; want ", plan.begin, " to ", plan.end - 1);
    }
    others -= static_cast<int64_t>(past);
  }
  const int64_t first = plan.StepsFrom(plan.first_begin), of_epoch = plan.StepsFrom(plan.begin);
  if (first == 0) {
    return Invalid("the ", plan.end - plan.first_begin, " rows of the first epoch make no batch of ", plan.batch_size,
                   "; leave `drop_last` out");
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  plan.total_steps = others > (kMost - first) / of_epoch ? kMost : first + others * of_epoch;
  if (request.has_steps()) plan.total_steps = std::min(plan.total_steps, request.steps());
  plan.batch_size = std::min(plan.batch_size, plan.end - plan.begin);
  if (request.has_evaluate()) {
    const int64_t together = request.has_evaluate_batch_size() ? request.evaluate_batch_size() : kEvaluatedTogether;
    ASSIGN_OR_RETURN(plan.evaluate, ToEvaluatedRows(request.evaluate(), together, datasets));
    RETURN_IF_ERROR(CheckEvaluatedColumns(trainer, *plan.dataset, *plan.evaluate->dataset));
  } else if (request.has_evaluate_batch_size()) {
    return Invalid("evaluate_batch_size is ", request.evaluate_batch_size(), " without `evaluate`; name its dataset");
  }
  return plan;
}

}  // namespace gluond::server
