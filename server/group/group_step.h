// A step of a model of a group: what a call wants, and how it waits for its turn.

#ifndef SERVER_GROUP_GROUP_STEP_H_
#define SERVER_GROUP_GROUP_STEP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/nn/strand.h"
#include "engine/runtime/account.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/fair_order.h"
#include "engine/train/trainer.h"
#include "server/hosted/hosted_model.h"

namespace gluond::server {

struct GroupStep {
  HostedModelPtr hosted;
  std::shared_ptr<Trainer> trainer;
  NamedTensors inputs;  // The whole batch, on the host.
  ScopedCondition::Condition condition = nullptr;
  // The error with which the step is to end as long as no rank computes it: nobody waits for it any more, or the server stops.
  std::function<absl::Status()> wanted = [] { return absl::OkStatus(); };
  // Nobody waits for it any more: ranks that compute it give it up. May be null.
  std::shared_ptr<Cancellation> cancellation = nullptr;
  AccountPtr account = CurrentAccount();
  // The dataset that the batch is from, and the numbers of its rows there, int64. Null: the client has sent the batch.
  std::shared_ptr<const Dataset> dataset = nullptr;
  Tensor dataset_rows = {};
};

inline absl::Status LeaderStops() {
  return absl::UnavailableError("the leader of the group is stopping; try again when it has been started anew");
}

// A step that waits for its turn, or is under way. It is told that the leader stops when nobody is left who could take it.
struct QueuedStep final : Work {
  static constexpr int kMostTries = 3;

  QueuedStep(GroupStep step, int64_t rows, Trainer::OnStep done) : step(std::move(step)), rows(rows), done_(std::move(done)) {}
  ~QueuedStep() { Tell(LeaderStops()); }
  QueuedStep(const QueuedStep&) = delete;

  void Tell(absl::StatusOr<StepReport> report) {
    if (!is_told_.exchange(true)) std::exchange(done_, nullptr)(std::move(report));
  }
  void Do() override {}  // The group does it, at its own pace.

  GroupStep step;
  const int64_t rows;
  std::atomic<bool> was_changed = false;  // The model was changed otherwise before the step began: the step is tried again,
  int tries = 0;                          // but not for ever.
  std::optional<FairOrder::Piece> piece;  // Its place in the order, while it is taken.

 private:
  Trainer::OnStep done_;
  std::atomic<bool> is_told_ = false;
};

// The steps that wait: those of a model in the order of their calls, and accounts in a fair order. Not thread-safe.
class StepQueue {
 public:
  using StepPtr = std::shared_ptr<QueuedStep>;

  void Add(StepPtr step);
  // The next step; null: none waits. Done or Again follow, before the next step of its model is taken.
  StepPtr Take();
  void Done(QueuedStep& step);
  // The step is taken again, after another one where one waits.
  void Again(StepPtr step);
  // Takes steps out, and tells each why.
  void Sweep(const std::function<absl::Status(const QueuedStep& step)>& why_not);

 private:
  using Clock = FairOrder::Clock;
  struct ModelsSteps {
    WorkQueue queue;
    int64_t steps = 0;  // Taken ones included.
  };

  void Forget(const QueuedStep& step);

  FairOrder order_{std::chrono::seconds(1)};
  std::map<const HostedModel*, ModelsSteps> models_;
  std::map<const Work*, StepPtr> waiting_;
  std::deque<StepPtr> again_;
  bool others_first_ = false;  // Before those of again_.
};

// The inputs of a trainer that a step may leave out: a loss takes "sample_weight", the last one.
inline size_t OptionalInputs(const Trainer& trainer) { return trainer.options().loss.type.empty() ? 0 : 1; }

// The rows of a step's batch. INVALID_ARGUMENT, by name: an input is missing, unknown, or of another shape than the model's; inputs
// have not as many rows each, or none; the batch is too large.
absl::StatusOr<int64_t> RowsOfBatch(const GroupStep& step);
// A batch of the rows, int64 [n], of a dataset, on the host in memory of its own. Errors are those of DatasetBatches.
absl::StatusOr<NamedTensors> DrawInputs(const HostedModel& hosted, const Trainer& trainer, std::shared_ptr<const Dataset> dataset,
                                        Tensor rows);
// Some rows of a batch, as views.
NamedTensors RowsOf(const NamedTensors& inputs, int64_t first, int64_t count);

// The learning rate that a step brings along. Nothing: the trainer's schedule tells it.
inline std::optional<double> RateOf(const Trainer& trainer) {
  return trainer.options().lr_schedule.type.empty() ? std::optional(trainer.learning_rate()) : std::nullopt;
}

// Takes the steps on rows of a dataset, one after the other. `step` has no inputs. `take_step` takes each.
using TakeGroupStep = std::function<void(GroupStep step, Trainer::OnStep done)>;
void TakeStepsOnRows(TakeGroupStep take_step, GroupStep step, DatasetSteps steps, Trainer::OnStep done);

}  // namespace gluond::server

#endif  // SERVER_GROUP_GROUP_STEP_H_
