// TrainRun: one call of Train, from its first step to its last message. A run trains in slices of some 20 ms on the model's
// strand, so that other calls on the model come between. Between two slices the run looks whether it is to go on. A slice
// is never broken off, so that the steps taken are whole.
//
//   auto run = std::make_shared<TrainRun>(runner, models, call, hosted, trainer, plan, [] { ... });
//   run->Start();
//   ...
//   run->Cancel();  // From any thread.
//
// Its own functions run one after the other, on the lane and on the dispatch's threads; each holds the run.

#ifndef SERVER_SERVICES_TRAIN_RUN_H_
#define SERVER_SERVICES_TRAIN_RUN_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/runtime/account.h"
#include "engine/train/trainer.h"
#include "gluond/v1/training.pb.h"
#include "server/hosted/hosted_model.h"
#include "server/rpc/call.h"
#include "server/services/train_plan.h"

namespace gluond::server {

class TrainRun : public std::enable_shared_from_this<TrainRun> {
 public:
  using TrainCall = Call<v1::TrainRequest, v1::TrainProgress>;

  // `runner` and `models` outlive the run. `over` is called once, just before the call is finished.
  TrainRun(Runner& runner, const Models& models, TrainCall call, HostedModelPtr hosted, std::shared_ptr<Trainer> trainer,
           TrainPlan plan, std::function<void()> over);

  void Start() { BeginEpoch(); }
  // Ends the training at the next boundary of steps. Thread-safe.
  void Cancel();

 private:
  using Clock = std::chrono::steady_clock;
  using Stop = v1::TrainProgress::Stop;

  void BeginEpoch();
  void OrderRows();
  // Goes on with a slice, or ends.
  void GoOn();
  void TrainSlice();
  void Absorb(absl::StatusOr<StepReport> report);
  void Evaluate();
  // `status`: how the evaluation ended, if there was one.
  void EndEpoch(const absl::Status& status, const v1::EvaluateResponse* evaluation);
  // The one who wants the training to end, and the reason.
  std::optional<std::pair<Stop, absl::Status>> WantedEnd() const;
  void TellIfDue();
  void Fill(v1::TrainProgress* progress) const;
  void End(Stop stop, const absl::Status& why);

  Runner& runner_;
  const Models& models_;
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
