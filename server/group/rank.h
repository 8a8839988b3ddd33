// GroupRank does what a GroupMember has heard of its leader: it tells where the process stands, forms rings, computes steps on the
// engine, and applies or drops them. The leader's process has one, too.
//
// All functions are for the loop, which ends before the rank. Long work goes on elsewhere, and posts its end.

#ifndef SERVER_GROUP_RANK_H_
#define SERVER_GROUP_RANK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/nn/strand.h"
#include "engine/runtime/account.h"
#include "engine/runtime/cancellation.h"
#include "engine/train/sharded_step.h"
#include "engine/train/trainer.h"
#include "server/group/held_model.h"
#include "server/group/holding.h"
#include "server/group/loop.h"
#include "server/group/member.h"
#include "server/group/ring.h"
#include "server/group/ring_reducer.h"
#include "server/rpc/runner.h"

namespace gluond::server {

// A process's part of a step.
struct RankStep {
  HostedModelPtr hosted;
  std::shared_ptr<Trainer> trainer;
  NamedTensors inputs;  // The rows of this process.
  ShardedStep step;
  ScopedCondition::Condition condition = nullptr;
  AccountPtr account = nullptr;
  Trainer::OnStep applied = nullptr;  // Called on the model's lane, when the step is applied.
};

class GroupRank {
 public:
  using Clock = std::chrono::steady_clock;

  struct Parts {
    Runner& runner;
    std::shared_ptr<GroupLoop> loop;
    std::function<NamedModels()> models;  // The group's, sorted by name.
    // Whether what is held, all of the group's models or some, differs from what was held, or applied, before. Leaves out of `held`
    // what is not the group's. Null: it never differs, and a model that could not be held is an error.
    std::function<bool(HeldModels& held, bool is_all)> has_changed;
    // Takes the state that has come with FromLeader::State. Null with the leader, who is sent none.
    std::function<void(std::function<void(absl::Status)> done)> load;
    std::function<void(const FromMember::Any& message, RingReducer::Clock::duration waited)> send;
    // Join is to end. With the leader: its state is nobody's any more.
    std::function<void(absl::Status why, bool tells)> leave;
  };
  GroupRank(Parts parts, RingPlace place, FromMember::Hello hello, Standing standing, std::chrono::milliseconds timeout)
      : parts_(std::move(parts)), place_(std::move(place)), timeout_(timeout), member_(std::move(hello), standing, timeout) {}
  ~GroupRank();

  void Join() { Do(member_.Join(Clock::now())); }
  void Lost() { Do(member_.Lost()); }
  void Tick() { Do(member_.Tick(Clock::now())); }
  void Drain() { Do(member_.Drain()); }
  void Heard(const FromLeader::Any& message) { Do(member_.Heard(message, Clock::now())); }
  // To be set before FromLeader::Form is heard.
  void SetRing(std::string name, std::string key, std::shared_ptr<Rendezvous> rendezvous) {
    EndRing();
    ring_name_ = std::move(name);
    ring_key_ = std::move(key);
    rendezvous_ = std::move(rendezvous);
  }
  // To be set before FromLeader::Command is heard. An error: there is no such step here.
  void SetStep(absl::StatusOr<RankStep> step) { step_ = std::move(step); }

  const GroupMember& member() const { return member_; }
  // The sums of a step that this process has waited for since then are given up: the ring is broken.
  void GiveUpSums(Clock::time_point since);
  // Models that this process has been waiting for since then, to hold them, are left out. For the leader: clients may keep a model's
  // lane, and a member's models have no other calls than steps.
  void GiveUpLate(Clock::time_point since);
  // The step that is being computed fails, if this process has not yet computed its part.
  void GiveUpStep() {
    if (computes_) cancellation_->Cancel();
  }
  // With the leader: the models as they are where it stands without a ring; otherwise none.
  const HeldModels& held() const { return held_; }
  void ForgetHeld() { held_.clear(); }

 private:
  void Do(GroupMember::Deeds deeds);
  void On(const GroupMember::Send& send) { parts_.send(send.message, waited_); }
  void On(const GroupMember::Leave& leave) { parts_.leave(leave.status, leave.tells); }
  void On(FromLeader::Prepare) { TellStanding(); }
  void On(const FromLeader::State&);
  void On(const FromLeader::Form& form);
  void On(const FromLeader::Command& command);
  void On(const FromLeader::Apply& apply);
  void On(FromLeader::End);

  // Tells the standing, with a checksum of all models.
  void TellStanding() { TellStanding(parts_.models(), /*is_all=*/true); }
  void TellStanding(NamedModels models, bool is_all);
  void Computed(const absl::Status& status);
  // The rest of End, when nothing is computed any more.
  void DropAndStand();
  void EndRing();

  // A function that posts its argument and then calls `work` with it on the loop.
  template <class T, class Work>
  std::function<void(T)> Posted(Work work) {
    return [loop = parts_.loop, work = std::move(work)](T value) {
      loop->Post([work, value = std::make_shared<T>(std::move(value))]() mutable { work(std::move(*value)); });
    };
  }

  const Parts parts_;
  const RingPlace place_;
  const std::chrono::milliseconds timeout_;
  GroupMember member_;
  HeldModels held_;
  const std::shared_ptr<Checksums> checksums_ = std::make_shared<Checksums>();
  std::shared_ptr<Holding> holding_;  // The last one,
  Clock::time_point held_since_;      // and its beginning.

  std::string ring_name_, ring_key_;
  std::shared_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<Ring> ring_;
  uint64_t rings_ = 0;  // Counts them: what one tells late is no word of the next.

  absl::StatusOr<RankStep> step_ = absl::InternalError("there is no step");
  std::shared_ptr<RingReducer> reducer_;
  std::shared_ptr<Cancellation> cancellation_;
  RingReducer::Clock::duration waited_{};
  bool computes_ = false;     // ComputeStep is under way.
  bool is_computed_ = false;  // It wants ApplyStep or DropStep.
  bool ends_ = false;         // End waits until nothing is computed.
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_RANK_H_
