// A step of a model of a group: what a call wants, and how it waits for its turn.

#ifndef SERVER_GROUP_GROUP_STEP_H_
#define SERVER_GROUP_GROUP_STEP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/nn/strand.h"
#include "engine/runtime/account.h"
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
  AccountPtr account = CurrentAccount();
};

inline absl::Status LeaderStops() {
  return absl::UnavailableError("the leader of the group is stopping; try again when it has been started anew");
}

// A step that waits for its turn, or is under way. It is told that the leader stops when nobody is left who could take it.
struct QueuedStep {
  static constexpr int kMostTries = 3;

  QueuedStep(GroupStep step, int64_t rows, Trainer::OnStep done) : step(std::move(step)), rows(rows), done_(std::move(done)) {}
  ~QueuedStep() { Tell(LeaderStops()); }
  QueuedStep(const QueuedStep&) = delete;

  void Tell(absl::StatusOr<StepReport> report) {
    if (!is_told_.exchange(true)) std::exchange(done_, nullptr)(std::move(report));
  }
  absl::Status Wanted() const { return step.wanted(); }

  GroupStep step;
  const int64_t rows;
  bool was_changed = false;  // The model was changed otherwise before the step began: the step is tried again,
  int tries = 0;             // but not for ever.

 private:
  Trainer::OnStep done_;
  std::atomic<bool> is_told_ = false;
};

// The inputs of a trainer that a step may leave out: a loss takes "sample_weight", the last one.
inline size_t OptionalInputs(const Trainer& trainer) { return trainer.options().loss.type.empty() ? 0 : 1; }

// The rows of a step's batch. INVALID_ARGUMENT, by name: an input is missing, unknown, or of another shape than the model's; inputs
// have not as many rows each, or none; the batch is too large.
absl::StatusOr<int64_t> RowsOfBatch(const GroupStep& step);

// Takes the steps on rows of a dataset, one after the other. `step` has no inputs. `take_step` takes each.
using TakeGroupStep = std::function<void(GroupStep step, Trainer::OnStep done)>;
void TakeStepsOnRows(TakeGroupStep take_step, GroupStep step, DatasetSteps steps, Trainer::OnStep done);

}  // namespace gluond::server

#endif  // SERVER_GROUP_GROUP_STEP_H_
