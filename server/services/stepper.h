// Stepper: takes the steps of models by whoever trains them: this server, or the group that it leads. Thread-safe.
//
//   stepper.TrainSteps({hosted, trainer, condition, call.cancellation()}, std::move(steps), call.Then(answer));

#ifndef SERVER_SERVICES_STEPPER_H_
#define SERVER_SERVICES_STEPPER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/status_macros.h"
#include "engine/nn/strand.h"
#include "engine/runtime/cancellation.h"
#include "engine/train/trainer.h"
#include "server/group/group.h"
#include "server/hosted/hosted_model.h"
#include "server/rpc/calls_under_way.h"

namespace gluond::server {

class Stepper {
 public:
  // The model whose steps are taken, and the wishes of the call.
  struct Of {
    HostedModelPtr hosted;
    std::shared_ptr<Trainer> trainer;
    ScopedCondition::Condition condition;  // Null: none. The first step of several has it.
    std::shared_ptr<Cancellation> cancellation;
  };

  // `group`: the one that the server leads; null: none. Both outlive this, and `calls` the group.
  Stepper(Group* group, const CallsUnderWay& calls) : group_(group), calls_(calls) {}

  // Whether the group takes the model's steps. Without a group this server takes them alone: a checkpoint has brought the model.
  bool IsGroups(const HostedModel& hosted) const { return group_ != nullptr && hosted.virtual_shards().has_value(); }

  // A step on one batch. `divisor`: that of gradients; 0: the batch's rows. `done` is called once, on any thread.
  void TrainStep(Of of, NamedTensors inputs, int64_t divisor, Trainer::OnStep done) const {
    if (!IsGroups(*of.hosted)) {
      return Change(of, std::move(done), [&](Trainer::OnStep counted) {
        of.trainer->TrainStep(std::move(inputs), {.batch_size = divisor}, of.cancellation, std::move(counted));
      });
    }
    const bool is_other = divisor != 0 && (inputs.empty() || inputs.front().tensor.shape().ndim() == 0 ||
                                           divisor != inputs.front().tensor.shape()[0]);
    if (is_other) return done(Invalid("batch_size is ", divisor, "; a group divides by the batch's rows: leave batch_size out"));
    group_->TrainStep(ToGroup(std::move(of), std::move(inputs)), std::move(done));
  }
  // As Trainer::TrainSteps, on the rows that `steps` names.
  void TrainSteps(Of of, DatasetSteps steps, Trainer::OnStep done) const {
    if (IsGroups(*of.hosted)) return group_->TrainSteps(ToGroup(std::move(of), {}), std::move(steps), std::move(done));
    Change(of, std::move(done),
           [&](Trainer::OnStep counted) { of.trainer->TrainSteps(std::move(steps), of.cancellation, std::move(counted)); });
  }

  // FAILED_PRECONDITION: a group trains the model, and computes gradients in whole steps alone.
  absl::Status CheckByHand(const HostedModel& hosted) const {
    if (!IsGroups(hosted)) return absl::OkStatus();
    return FailedPrecondition("model '", hosted.model().name(),
                              "' is trained by a group, which takes whole steps: call TrainStep or ",
                              "Train, or define the model without placement.group");
  }

 private:
  GroupStep ToGroup(Of of, NamedTensors inputs) const {
    // The step may wait for other servers, for ever: a server that stops does not wait with it.
    auto wanted = [&calls = calls_, cancellation = std::move(of.cancellation)] {
      return calls.draining() ? Draining() : cancellation->Check();
    };
    return {std::move(of.hosted), std::move(of.trainer), std::move(inputs), std::move(of.condition), std::move(wanted)};
  }
  template <class Begin>
  static void Change(const Of& of, Trainer::OnStep done, const Begin& begin) {
    const ScopedCondition condition(of.condition);
    HostedModel::Change<absl::StatusOr<StepReport>>(of.hosted, HostedModel::Counts::kVersion, begin, std::move(done));
  }

  Group* const group_;
  const CallsUnderWay& calls_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_STEPPER_H_
