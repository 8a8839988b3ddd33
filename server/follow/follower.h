// Follower keeps a server serving what another one, its leader, publishes: by two threads, of which one listens to the leader and the
// other does what follow_plan.h says. While the leader is away, the server serves what it has. Thread-safe.
//
//   Follower follower(options, runner, devices, publisher, log);
//   follower.Begin(on_ready);   // Before that nothing happens.
//   follower.Leave();           // No more steps begin, and those under way are cut short. Does not wait.
//
// A version is fetched, made and warmed up beside those that serve, and is there when a request can find it (publisher.h).

#ifndef SERVER_FOLLOW_FOLLOWER_H_
#define SERVER_FOLLOW_FOLLOWER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "engine/runtime/cancellation.h"
#include "server/follow/follow_options.h"
#include "server/follow/follow_plan.h"
#include "server/hosted/devices.h"
#include "server/rpc/log.h"
#include "server/rpc/runner.h"
#include "server/serving/publisher.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace gluond::server {

class LeaderFiles;

class Follower {
 public:
  using Clock = std::chrono::steady_clock;
  // A leader that says nothing for so long is called anew; it says something every few seconds.
  static constexpr std::chrono::seconds kSilence{20};

  // All outlive this; the publisher's Stop comes after End.
  Follower(FollowOptions options, Runner& runner, Devices& devices, Publisher& publisher, LogSink log);
  ~Follower();

  // `on_ready` is called once, and never after Leave: at once where this server's store had versions, else when FollowPlan has caught
  // up with the leader.
  void Begin(std::function<void()> on_ready);
  void Leave();
  // Leaves, and waits until the steps under way have ended. The publisher may be stopped then.
  void End();

  const FollowOptions& options() const { return options_; }
  // For metrics.
  int64_t behind() const { return behind_; }      // Versions of the leader's that are not served here.
  int64_t failures() const { return failures_; }  // Steps that have failed.
  std::chrono::nanoseconds silent() const { return Clock::now() - heard_.load(); }

 private:
  void Listen();
  // Reads what the leader says until the stream ends; returns why.
  absl::Status ListenOnce();
  void Work();
  // All steps that are to be done now.
  void DoSteps();
  absl::Status Do(const FollowStep& step, const VersionTable::Indices& own);
  absl::Status Fetch(const FollowStep& step);
  // Waits; false: the follower leaves.
  bool Rest(Clock::time_point until);
  void SayReady();
  void Log(absl::string_view event, LogLevel level, absl::string_view message) const { log_(EventLine(event, level, message)); }

  const FollowOptions options_;
  Runner& runner_;
  Devices& devices_;
  Publisher& publisher_;
  const LogSink log_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  FollowPlan plan_;         // The worker's.
  std::string told_;        // The listener's: why the leader was away, as the log was told last.
  bool tells_back_ = true;  // The listener's: the log is to be told that the leader is there.
  std::atomic<Clock::time_point> heard_ = Clock::now();
  std::atomic<int64_t> behind_ = 0, failures_ = 0;

  Mutex mu_;
  CondVar changed_;
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> on_ready_ ABSL_GUARDED_BY(mu_);             // Null: it was called.
  std::optional<VersionTable::Indices> said_ ABSL_GUARDED_BY(mu_);  // The leader's last list, which the worker has not taken.
  std::shared_ptr<LeaderFiles> files_ ABSL_GUARDED_BY(mu_), fetching_ ABSL_GUARDED_BY(mu_);  // The last way there; Fetch's.
  grpc::ClientContext* listening_ ABSL_GUARDED_BY(mu_) = nullptr;
  Clock::time_point listening_since_ ABSL_GUARDED_BY(mu_);
  std::thread listener_, worker_;
};

}  // namespace gluond::server

#endif  // SERVER_FOLLOW_FOLLOWER_H_
