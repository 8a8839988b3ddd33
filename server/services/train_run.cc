#include "server/services/train_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/codec/row_selection.h"
#include "server/rpc/draining.h"
#include "server/services/expectation.h"
#include "server/services/stopwatch.h"

namespace gluond::server {
namespace {

using v1::TrainProgress;

// Another call on the model waits for a slice at most, and a training that is to end for as long.
constexpr std::chrono::milliseconds kSlice{20};
constexpr int64_t kMostSteps = 1024;
// A message tells of so many epochs.
constexpr int kMostEnded = 64;

// Part of row numbers.
Tensor Part(const Tensor& rows, int64_t first, int64_t count) {
  const int64_t* const from = rows.data<int64_t>() + first;
  const auto offset = reinterpret_cast<const char*>(from) - static_cast<const char*>(rows.buffer()->data());
  return Tensor(rows.buffer(), static_cast<size_t>(offset), {count}, DType::kInt64);
}

}  // namespace

TrainRun::TrainRun(Runner& runner, const Models& models, TrainCall call, HostedModelPtr hosted, std::shared_ptr<Trainer> trainer,
                   TrainPlan plan, std::function<void()> over)
    : runner_(runner),
      models_(models),
      call_(std::move(call)),
      hosted_(std::move(hosted)),
      trainer_(std::move(trainer)),
      plan_(std::move(plan)),
      over_(std::move(over)),
      epoch_(plan_.first_epoch),
      begin_(plan_.first_begin),
      next_message_(Clock::now() + plan_.progress_every) {}

void TrainRun::Cancel() {
  cancelled_ = true;
  call_.cancellation()->Cancel();  // An evaluation ends at once.
}

void TrainRun::BeginEpoch() {
  runner_.dispatch.Run(WeightOfOrder(plan_.rows, *plan_.dataset), [self = shared_from_this()] { self->OrderRows(); });
}

void TrainRun::OrderRows() {
  if (plan_.is_range || !order_.defined()) {
    v1::Rows rows = plan_.rows;
    rows.set_epoch(epoch_);
    if (plan_.is_range) rows.set_begin(begin_);
    order_ = Tensor();
    absl::StatusOr<Tensor> order = SelectRows(rows, *plan_.dataset, hosted_->host_allocator());
    if (!order.ok()) return End(TrainProgress::BY_ERROR, order.status());
    order_ = *std::move(order);
    order_begin_ = plan_.is_range ? begin_ : 0;
  }
  GoOn();
}

std::optional<std::pair<TrainRun::Stop, absl::Status>> TrainRun::WantedEnd() const {
  if (cancelled_) return {{TrainProgress::BY_CALL, absl::CancelledError("CancelTraining ended the training")}};
  if (absl::Status status = call_.cancellation()->Check(); !status.ok()) return {{TrainProgress::CLIENT_GONE, status}};
  if (runner_.calls.draining()) return {{TrainProgress::SERVER_STOPS, Draining()}};
  const absl::StatusOr<HostedModelPtr> now = models_.Find(call_.request().model());
  if (!now.ok()) return {{TrainProgress::BY_ERROR, now.status()}};
  if (now->get() != hosted_.get()) {
    return {{TrainProgress::BY_ERROR, absl::AbortedError("another model has taken the name of the one that was trained")}};
  }
  if (hosted_->trainer() != trainer_) {
    return {{TrainProgress::BY_ERROR, absl::AbortedError("the model has got another trainer; train again with that one")}};
  }
  return std::nullopt;
}

void TrainRun::GoOn() {
  if (const auto end = WantedEnd(); end.has_value()) return End(end->first, end->second);
  if (steps_ == 0) return TrainSlice();
  call_.Between([self = shared_from_this()] {
    const ScopedAccount account(self->account_);
    self->TrainSlice();
  });
}

void TrainRun::TrainSlice() {
  DatasetSteps slice;
  slice.dataset = plan_.dataset;
  slice.batch_size = plan_.batch_size;
  slice.steps = std::min({slice_steps_, plan_.StepsFrom(begin_), plan_.total_steps - steps_});
  slice.keep_last = true;
  slice.rows = Part(order_, begin_ - order_begin_, std::min(plan_.end - begin_, slice.steps * plan_.batch_size));
  slice_begin_ = Clock::now();
  const ScopedCondition condition(steps_ == 0 ? ExpectedVersion(call_, hosted_) : nullptr);
  const auto watch = Stopwatch::Start(call_.runner(), hosted_->model());
  HostedModel::Change<absl::StatusOr<StepReport>>(
      hosted_, HostedModel::Counts::kVersion,
      [&](auto done) { trainer_->TrainSteps(std::move(slice), /*cancellation=*/nullptr, std::move(done)); },
      [self = shared_from_this(), watch](absl::StatusOr<StepReport> report) {
        watch->Stop(&self->timing_);
        self->Absorb(std::move(report));
      });
}

void TrainRun::Absorb(absl::StatusOr<StepReport> report) {
  if (!report.ok()) return End(TrainProgress::BY_ERROR, report.status());
  const int64_t steps = (report->samples + plan_.batch_size - 1) / plan_.batch_size;
  steps_ += steps;
  samples_ += report->samples;
  begin_ += report->samples;
  last_epoch_ = epoch_;
  if (std::exchange(is_told_, false)) since_ = StepReport();
  trainer_->Join(*report, &since_);
  trainer_->Join(*report, &of_epoch_);
  const Clock::duration time = Clock::now() - slice_begin_;
  slice_steps_ = std::clamp<int64_t>(time < kSlice / 2 ? 2 * slice_steps_
                                     : time > kSlice   ? slice_steps_ / 2
                                                       : slice_steps_,
                                     1, kMostSteps);
  if (plan_.StepsFrom(begin_) == 0) return Evaluate();
  if (steps_ == plan_.total_steps) return End(TrainProgress::NOT_STOPPED, absl::OkStatus());
  TellIfDue();
  GoOn();
}

void TrainRun::Evaluate() {
  if (!plan_.evaluate.has_value()) return EndEpoch(absl::OkStatus(), nullptr);
  const EvaluatedRows& rows = *plan_.evaluate;
  trainer_->Evaluate(rows.dataset, rows.batch_size, rows.first, rows.count, call_.cancellation(),
                     [self = shared_from_this(),
                      watch = Stopwatch::Start(call_.runner(), hosted_->model())](const absl::StatusOr<EvaluateReport>& report) {
                       if (!report.ok()) return self->EndEpoch(report.status(), nullptr);
                       v1::EvaluateResponse evaluation;
                       ToProto(*report, &evaluation);
                       watch->Stop(evaluation.mutable_timing());
                       self->EndEpoch(absl::OkStatus(), &evaluation);
                     });
}

void TrainRun::EndEpoch(const absl::Status& status, const v1::EvaluateResponse* evaluation) {
  if (ended_.size() == kMostEnded) ended_.DeleteSubrange(0, 1);
  v1::EpochReport& ended = *ended_.Add();
  ended.set_epoch(epoch_);
  ended.set_samples(of_epoch_.samples);
  ended.set_loss(of_epoch_.loss);
  SetMetrics(of_epoch_.metrics, ended.mutable_metrics());
  if (evaluation != nullptr) *ended.mutable_evaluation() = *evaluation;
  of_epoch_ = StepReport();
  ++epoch_;
  begin_ = plan_.begin;
  if (!status.ok()) {
    const auto wanted = WantedEnd();
    return wanted.has_value() ? End(wanted->first, wanted->second) : End(TrainProgress::BY_ERROR, status);
  }
  if (steps_ == plan_.total_steps) return End(TrainProgress::NOT_STOPPED, absl::OkStatus());
  next_message_ = Clock::time_point::min();
  TellIfDue();
  BeginEpoch();
}

void TrainRun::TellIfDue() {
  const Clock::time_point now = Clock::now();
  if (now < next_message_) return;
  TrainProgress progress;
  Fill(&progress);
  if (!call_.TrySend(std::move(progress))) return;
  next_message_ = now + plan_.progress_every;
  is_told_ = true;
  ended_.Clear();
}

void TrainRun::Fill(TrainProgress* progress) const {
  ToProto(since_, progress->mutable_report());
  progress->set_steps(steps_);
  progress->set_total_steps(plan_.total_steps);
  progress->set_samples(samples_);
  progress->set_loss(since_.loss);
  SetMetrics(since_.metrics, progress->mutable_metrics());
  progress->set_epoch(last_epoch_);
  progress->mutable_next()->set_epoch(epoch_);
  progress->mutable_next()->set_begin(begin_);
  *progress->mutable_ended() = ended_;
  *progress->mutable_timing() = timing_;
}

void TrainRun::End(Stop stop, const absl::Status& why) {
  over_();
  if (steps_ == 0) return call_.Finish(why);
  call_.Settles();
  TrainProgress& last = call_.response();
  Fill(&last);
  last.set_done(true);
  last.set_stop(stop);
  last.set_cancelled(stop != TrainProgress::NOT_STOPPED && stop != TrainProgress::BY_ERROR);
  if (stop == TrainProgress::BY_ERROR) last.set_error(absl::StrCat(why.message()));
  call_.Finish();
}

}  // namespace gluond::server
