// Group: the leader's side of a group of servers. Steps of the group's models go through it: one at a time, each computed by all
// ranks, the leader's own among them, and applied when all have computed it. Members join by links.
//
//   ASSIGN_OR_RETURN(const auto group, Group::Create(runner, models, options));
//   group->TrainStep({hosted, trainer, std::move(inputs)}, [](absl::StatusOr<StepReport> report) { ... });
//
// Other changes of a model are the leader's own, as if there were no group: members that lack them get the model again before the
// next step. Thread-safe: a loop of the group's own does all (loop.h).

#ifndef SERVER_GROUP_GROUP_H_
#define SERVER_GROUP_GROUP_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/runtime/budget.h"
#include "engine/train/trainer.h"
#include "gluond/v1/group.pb.h"
#include "server/group/group_step.h"
#include "server/group/held_model.h"
#include "server/group/leader.h"
#include "server/group/loop.h"
#include "server/group/ring_transport.h"
#include "server/rpc/log.h"
#include "server/rpc/runner.h"
#include "server/wire/attachments.h"

namespace gluond::server {

class CallbackRelay;
class CustomHosts;
struct MemberCallback;
class GroupRank;
class Meeting;
class SharedDatasets;
struct RankStep;

class Group {
 public:
  using MemberId = GroupLeader::MemberId;

  struct Options {
    GroupLeader::Options leader;
    RingPlace ring;
    std::string name;                              // The leader's, for people.
    bool only_local = false;                       // Members are on this machine: nothing is encrypted.
    std::shared_ptr<CustomHosts> hosts = nullptr;  // Clients that compute operators, for members, too.
  };

  // A member's Join.
  class Link {
   public:
    virtual ~Link() = default;
    // Sends a message. `is_heartbeat`: needless where others wait to be sent.
    virtual void Send(Slices message, bool is_heartbeat) = 0;
    virtual void Finish(const absl::Status& status) = 0;
    virtual bool is_local() const = 0;
  };

  // INVALID_ARGUMENT: an option. `runner` and `models` outlive the group.
  static absl::StatusOr<std::unique_ptr<Group>> Create(Runner& runner, Models& models, Options options);
  ~Group();

  // The least number of virtual shards: each rank has one.
  int64_t least_shards() const;

  // `done` is called once, on any thread. Errors are those of Trainer::ComputeStep on any rank. UNAVAILABLE: too few processes are
  // there, or the leader stops.
  void TrainStep(GroupStep step, Trainer::OnStep done);
  // The steps on rows of a dataset, as by Trainer::TrainSteps. `step` has no inputs; `steps` names its rows.
  void TrainSteps(GroupStep step, DatasetSteps steps, Trainer::OnStep done);

  void Describe(std::function<void(v1::GetGroupResponse)> done);
  // NOT_FOUND: there is no such member. INVALID_ARGUMENT: it is the leader.
  void DrainMember(MemberId member, std::function<void(absl::Status)> done);
  // No step runs any more; members are told to go.
  void Stop();

  // For links.
  // `memory` pays for the message until it is handled.
  void Heard(const std::shared_ptr<Link>& link, v1::JoinRequest message, std::shared_ptr<Reservation> memory);
  void Asked(const std::shared_ptr<Link>& link, std::shared_ptr<MemberCallback> asked);
  void Ended(const std::shared_ptr<Link>& link);

 private:
  using Clock = std::chrono::steady_clock;

  struct Member {
    std::shared_ptr<Link> link;  // Null: the leader's own.
    std::string name;
    bool has_joined = false;    // It has a seat.
    double waited_seconds = 0;  // The mean of recent steps.
  };
  struct Place {
    int64_t rank = 0, size = 1;
  };

  Group(Runner& runner, Models& models, Options options, GroupLeader leader);
  void Begin();
  void Do(GroupLeader::Deeds deeds);
  void On(const GroupLeader::Send& send);
  void On(const GroupLeader::Close& close);
  void On(const GroupLeader::Answer& answer);
  void On(const GroupLeader::Begun& begun);
  void On(const GroupLeader::Warn& warn);
  void HeardNow(const std::shared_ptr<Link>& link, const v1::JoinRequest& message);
  void HeardOwn(const FromMember::Any& message, Clock::duration waited);
  void Tick();
  void SendTo(MemberId member, const v1::JoinResponse& message, const Attachments& attachments = {});
  void SendState(MemberId member, const FromLeader::State& state);
  void SendForm(MemberId member, const FromLeader::Form& form);
  void SendStep(MemberId member, const FromLeader::Command& command);
  void Tell(MemberId from, const std::string& key, const std::string& value);
  // Any thread calls it, also when the group is no more: then its loop does nothing any more.
  static void Enqueue(Group* group, const std::shared_ptr<GroupLoop>& loop, GroupStep step, Trainer::OnStep done);
  void RunNext();
  // Why the step is not to begin. OK: it may.
  absl::Status WhyNot(const QueuedStep& step) const;
  // Why no step runs. Empty: steps run.
  std::string WhyNoStep() const;
  void EndCurrent(const absl::Status& why);
  void Applied(const std::string& name, int64_t rows);
  void Fail(absl::Status why, LogLevel level);

  // A process's part of the step under way.
  RankStep PartOf(const QueuedStep& queued, const Place& place) const;
  v1::GetGroupResponse DescribeNow() const;

  Runner& runner_;
  Models& models_;
  const Options options_;
  const uint64_t incarnation_;
  const std::shared_ptr<GroupLoop> loop_ = std::make_shared<GroupLoop>();

  const std::shared_ptr<CallbackRelay> relay_;

  // The loop's.
  GroupLeader leader_;
  std::unique_ptr<GroupRank> own_;
  std::map<MemberId, Member> members_;
  MemberId next_member_ = 1;
  std::map<MemberId, Place> places_;  // The last generation's.
  std::string ring_name_, ring_key_;
  std::shared_ptr<Meeting> meeting_;  // The leader's own, of the last generation.
  std::map<MemberId, int> texts_;     // Texts of that ring, which members have told.
  KnownModels known_;
  const std::unique_ptr<SharedDatasets> datasets_;
  std::map<std::string, std::shared_ptr<PackedModel>> packed_;  // The state as it is now, for members.
  StepQueue queue_;
  std::shared_ptr<QueuedStep> current_;
  Clock::time_point waits_since_;       // The current step waits to begin since then.
  std::optional<double> current_rate_;  // The learning rate that members are told.
  std::string warned_;                  // The log has this warning already.
  absl::Status failed_;                 // Why no step runs any more.
  uint64_t steps_ = 0;
  std::deque<std::pair<Clock::time_point, int64_t>> recent_;  // Applied steps, with their rows.
  Clock::duration pause_{};
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_GROUP_H_
