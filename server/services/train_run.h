// TrainRun: one call of Train, from its first step to its last message. A run trains in slices of some 20 ms on the model's
// strand, so that other calls on the model come between. Between two slices the run looks whether it is to go on. A slice
// is never broken off, so that the steps taken are whole; one that a group takes ends between two of its steps.
//
//   auto run = std::make_shared<TrainRun>(runner, models, call, hosted, trainer, plan, [] { ... });
//   run->Start();
//   ...
//   run->Cancel();  // From any thread.
//
// Its own functions run one after the other, on the lane and on the dispatch's threads; each holds the run.

#ifndef SERVER_SERVICES_TRAIN_RUN_H_
#define SERVER_SERVICES_TRAIN_RUN_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/nn/inputs.h"
#include "engine/runtime/account.h"
#include "engine/train/trainer.h"
#include "gluond/v1/training.pb.h"
#include "server/hosted/hosted_model.h"
#include "server/rpc/call.h"
#include "server/rpc/calls_under_way.h"
#include "server/rpc/grpc_status.h"
#include "server/services/expectation.h"
#include "server/services/stopwatch.h"
#include "server/services/train_plan.h"

namespace gluond::server {

class TrainRun : public std::enable_shared_from_this<TrainRun> {
 public:
  using TrainCall = Call<v1::TrainRequest, v1::TrainProgress>;
  // Trains on rows of a dataset, under the condition, or where it is null under none. Calls back once, on any thread.
  using TakeSteps = std::function<void(ScopedCondition::Condition condition, DatasetSteps steps, Trainer::OnStep done)>;

  // `runner` and `models` outlive the run. `take_steps` trains. `over` is called once, just before the call is finished.
  TrainRun(Runner& runner, const Models& models, TrainCall call, HostedModelPtr hosted, std::shared_ptr<Trainer> trainer,
           TrainPlan plan, TakeSteps take_steps, std::function<void()> over)
      : runner_(runner),
        models_(models),
        take_steps_(std::move(take_steps)),
        call_(std::move(call)),
        hosted_(std::move(hosted)),
        trainer_(std::move(trainer)),
        plan_(std::move(plan)),
        over_(std::move(over)),
        epoch_(plan_.first_epoch),
        begin_(plan_.first_begin),
        next_message_(Clock::now() + plan_.progress_every) {}

  void Start() { BeginEpoch(); }
  // Ends the training at the next boundary of steps. Thread-safe.
  void Cancel() {
    cancelled_ = true;
    call_.cancellation()->Cancel();  // An evaluation ends at once.
  }

 private:
  using TrainProgress = v1::TrainProgress;

  // Another call on the model waits for a slice at most, and a training that is to end for as long.
  static constexpr std::chrono::milliseconds kSlice{20};
  static constexpr int64_t kMostSteps = 1024;
  // A message tells of so many epochs.
  static constexpr int kMostEnded = 64;

  using Clock = std::chrono::steady_clock;
  using Stop = v1::TrainProgress::Stop;

  void BeginEpoch() {
    runner_.dispatch.Run(WeightOfOrder(plan_.rows, *plan_.dataset), [self = shared_from_this()] { self->OrderRows(); });
  }

  void OrderRows() {
    if (plan_.is_range || !order_.defined()) {
      v1::Rows rows = plan_.rows;
      rows.set_epoch(epoch_);
      if (plan_.is_range) rows.set_begin(begin_);
      order_ = Tensor();
      absl::StatusOr<Tensor> order = SelectRows(rows, *plan_.dataset, hosted_->host_allocator());
      if (!order.ok()) return Fail(order.status());
      order_ = *std::move(order);
      order_begin_ = plan_.is_range ? begin_ : 0;
    }
    GoOn();
  }

  // Goes on with a slice, or ends.
  void GoOn() {
    if (const auto end = WantedEnd(); end.has_value()) return End(end->first, end->second);
    if (steps_ == 0) return TrainSlice();
    call_.Between([self = shared_from_this()] {
      const ScopedAccount account(self->account_);
      self->TrainSlice();
    });
  }

  void TrainSlice() {
    DatasetSteps slice;
    slice.dataset = plan_.dataset;
    slice.batch_size = plan_.batch_size;
    slice.steps = std::min({slice_steps_, plan_.StepsFrom(begin_), plan_.total_steps - steps_});
    slice.keep_last = true;
    slice.rows = RowsView(order_, begin_ - order_begin_, std::min(plan_.end - begin_, slice.steps * plan_.batch_size));
    slice_begin_ = Clock::now();
    const auto watch = Stopwatch::Start(call_.runner(), hosted_->model());
    take_steps_(steps_ == 0 ? ExpectedVersion(call_, hosted_) : nullptr, std::move(slice),
                [self = shared_from_this(), watch](absl::StatusOr<StepReport> report) {
                  watch->Stop(&self->timing_);
                  self->Absorb(std::move(report));
                });
  }

  void Absorb(absl::StatusOr<StepReport> report) {
    if (!report.ok()) return Fail(report.status());
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

  void Evaluate() {
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

  // `status`: how the evaluation ended, if there was one.
  void EndEpoch(const absl::Status& status, const v1::EvaluateResponse* evaluation) {
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
    if (!status.ok()) return Fail(status);
    if (steps_ == plan_.total_steps) return End(TrainProgress::NOT_STOPPED, absl::OkStatus());
    next_message_ = Clock::time_point::min();
    TellIfDue();
    BeginEpoch();
  }

  // The one who wants the training to end, and the reason.
  std::optional<std::pair<Stop, absl::Status>> WantedEnd() const {
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

  void TellIfDue() {
    const Clock::time_point now = Clock::now();
    if (now < next_message_) return;
    TrainProgress progress;
    Fill(&progress);
    if (!call_.TrySend(std::move(progress))) return;
    next_message_ = now + plan_.progress_every;
    is_told_ = true;
    ended_.Clear();
  }

  void Fill(TrainProgress* progress) const {
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

  // Ends by an error, which may be that of a wanted end.
  void Fail(const absl::Status& error) {
    const auto wanted = WantedEnd();
    wanted.has_value() ? End(wanted->first, wanted->second) : End(TrainProgress::BY_ERROR, error);
  }

  void End(Stop stop, const absl::Status& why) {
    over_();
    if (steps_ == 0) return call_.Finish(why);
    call_.Settles();
    TrainProgress& last = call_.response();
    Fill(&last);
    last.set_done(true);
    last.set_stop(stop);
    last.set_cancelled(stop != TrainProgress::NOT_STOPPED && stop != TrainProgress::BY_ERROR);
    if (stop == TrainProgress::BY_ERROR) last.set_error(absl::StrCat(why.message()));
    if (!why.ok()) *last.mutable_status() = server::ToProto(why);
    call_.Finish();
  }

  Runner& runner_;
  const Models& models_;
  const TakeSteps take_steps_;
  const TrainCall call_;
  const HostedModelPtr hosted_;
  const std::shared_ptr<Trainer> trainer_;
  const TrainPlan plan_;
  const std::function<void()> over_;
  const AccountPtr account_ = CurrentAccount();
  std::atomic<bool> cancelled_ = false;

  uint64_t epoch_;  // The place of the next step, with begin_.
  int64_t begin_;
  uint64_t last_epoch_ = 0;  // The epoch of the last step.
  int64_t steps_ = 0;        // Steps taken so far.
  int64_t samples_ = 0;
  Tensor order_;  // Row numbers of the epoch, from the position order_begin_ on.
  int64_t order_begin_ = 0;
  int64_t slice_steps_ = 1;  // As many as take the time of a slice.
  Clock::time_point slice_begin_;

  StepReport since_;      // Since the last message.
  bool is_told_ = false;  // `since_` was in it: the next step begins anew.
  StepReport of_epoch_;
  google::protobuf::RepeatedPtrField<v1::EpochReport> ended_;  // Since the last message.
  v1::Timing timing_;
  Clock::time_point next_message_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_TRAIN_RUN_H_
