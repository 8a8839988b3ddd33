// Membership: this process is a member of a group. It joins the leader, computes at its word, and joins again when it has lost the
// leader, until it is told to leave.
//
//   auto membership = Membership::Start(runner, devices, {.leader = "10.0.0.7:50051", ...});
//   membership->Leave(std::chrono::seconds(5));  // Between two steps.

#ifndef SERVER_GROUP_MEMBERSHIP_H_
#define SERVER_GROUP_MEMBERSHIP_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "gluond/v1/group.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/group/held_model.h"
#include "server/group/loop.h"
#include "server/group/message.h"
#include "server/group/ring_reducer.h"
#include "server/group/ring_transport.h"
#include "server/hosted/devices.h"
#include "server/rpc/runner.h"

namespace gluond::server {

class CopiedDatasets;
class GroupRank;
class Meeting;
struct RankStep;
class RelayedOperators;

class Membership {
 public:
  struct Options {
    std::string leader;  // HOST:PORT
    // Read anew for each Join: files may change. Empty: no encryption, no bearer token.
    std::string authority_file = {}, token_file = {};
    std::string name = {};  // For people.
    std::string fingerprint = {};
    std::chrono::milliseconds timeout = std::chrono::seconds(10);
    RingPlace ring = {};
  };

  // `runner` and `devices` outlive the membership.
  static std::unique_ptr<Membership> Start(Runner& runner, Devices& devices, Options options);
  ~Membership();

  // Asks the leader to go on without this process, and waits until it does, or for so long.
  void Leave(std::chrono::nanoseconds most);

 private:
  using Stream = grpc::ClientReaderWriter<v1::JoinRequest, v1::JoinResponse>;

  // How far a call of Join has come.
  enum class Reached : uint8_t { kNothing, kState, kRing };
  // One call of Join.
  struct Session {
    std::unique_ptr<v1::GroupService::Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream;
    Mutex mu;  // Held by writes, and by the end.
    bool is_over ABSL_GUARDED_BY(mu) = false;
  };

  Membership(Runner& runner, Devices& devices, Options options);
  void Begin();
  // Joins, and joins again. The thread's.
  void Work();
  // Reads until the call ends.
  void JoinOnce(const std::shared_ptr<Session>& session);
  void TellEnd(const grpc::Status& ended);
  // INVALID_ARGUMENT: a file that an option names.
  absl::Status Open(Session& session) const;

  // The loop's.
  void JoinWhenOut();
  void HeardNow(v1::JoinResponse& message);
  void SetReached(Reached reached);
  void Say(const v1::JoinRequest& message);
  void SayWord(const FromMember::Any& message, RingReducer::Clock::duration waited);
  // Ends Join, and joins again. `tells`: the leader hears why, and closes it.
  void Cancel(const absl::Status& why, bool tells);
  void CancelNow();
  absl::StatusOr<RankStep> ToStep(const v1::JoinResponse::Step& step);
  absl::StatusOr<NamedTensors> Draw(const v1::JoinResponse::RowsOf& rows_of, const RankStep& part);
  void Load(std::function<void(absl::Status)> done);
  void LoadNext(std::function<void(absl::Status)> done);
  NamedModels ListModels() const;
  // The account of the tenant that has a model of that name here, too: shares and quotas of this process hold. Null: nobody has.
  AccountPtr AccountOf(const std::string& model) const;

  Runner& runner_;
  Devices& devices_;
  const Options options_;
  const uint64_t process_;
  const std::shared_ptr<GroupLoop> loop_ = std::make_shared<GroupLoop>();

  Mutex mu_;
  CondVar changed_;
  bool leaves_ ABSL_GUARDED_BY(mu_) = false;  // No call of Join follows the one under way.
  bool is_out_ ABSL_GUARDED_BY(mu_) = true;   // There is no call.
  Reached reached_ ABSL_GUARDED_BY(mu_) = Reached::kNothing;
  std::shared_ptr<Session> session_ ABSL_GUARDED_BY(mu_);

  // The loop's.
  std::unique_ptr<GroupRank> rank_;
  const std::unique_ptr<RelayedOperators> operators_;
  const std::unique_ptr<CopiedDatasets> datasets_;
  std::map<std::string, HostedModelPtr> models_;
  std::map<std::string, StateFiles> files_;  // Files of the state that comes.
  Reservation files_memory_;
  std::vector<std::string> listed_;  // The state's models.
  bool wants_join_ = false;          // A call is open, and Hello is not said.
  std::string ring_;                 // The ring's name; empty: the leader has named none in this Join.
  std::shared_ptr<Meeting> meeting_;

  std::optional<std::chrono::steady_clock::time_point> given_up_;  // The leader was told then that this Join is to end.

  std::string told_;  // The thread's: the log has this end of a Join already.
  std::thread thread_;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_MEMBERSHIP_H_
