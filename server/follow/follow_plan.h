// FollowPlan decides what a server does next to serve what its leader publishes. No threads, no I/O: its caller tells it what the
// leader has said, what this server has, what the time is, and how each step has ended.
//
//   plan.Hear(list);
//   for (FollowStep step = plan.Next(own, now); step.kind != FollowStep::kNothing; step = plan.Next(own, now)) {
//     plan.Ended(step, ... fetch, route or drop ..., now);
//   }
//   wait for a second, or until the leader says something;
//
// A name's versions come first, then its routes, and last of all its retired versions leave: each request finds a version. A version
// that cannot be fetched leaves labels and weights where they are, and the versions that they need. Retired versions that nothing
// needs leave all the same, since they may hold the room that the fetch lacks: after that a fetch that lacked room is tried again.
// A name that the leader does not know is left as it is, since a leader may have lost its store. Not thread-safe.

#ifndef SERVER_FOLLOW_FOLLOW_PLAN_H_
#define SERVER_FOLLOW_FOLLOW_PLAN_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/serving/version_table.h"

namespace gluond::server {

struct FollowStep {
  enum Kind {
    kNothing,
    kFetch,  // Get a version from the leader, and serve it.
    kRoute,  // Take `routes` and `next` over.
    kDrop,   // End a version.
  };
  Kind kind = kNothing;
  std::string name;
  int64_t number = 0;
  VersionFacts facts = {};  // A version's to fetch, with its checksum.
  Routes routes = {};
  int64_t next = 0;
};

class FollowPlan {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Indices = VersionTable::Indices;
  // A step that fails is tried again after the first of these times, then after twice as long, and so on up to the last.
  static constexpr std::chrono::seconds kFirstPause{1}, kLastPause{60};

  // The leader publishes this.
  void Hear(Indices list);
  // `own`: what this server has. Before a fetch, see Conflict.
  FollowStep Next(const Indices& own, Time now);
  void Ended(const FollowStep& step, const absl::Status& status, Time now);
  // OK, or why a version of the leader's cannot be served under its number: this server has another one there.
  static absl::Status Conflict(const Indices& own, const FollowStep& fetch);
  // The leader's versions that this server has not.
  int64_t Behind(const Indices& own) const;
  // Whether the leader was heard and nothing is left to fetch, but for versions that this server cannot serve however often it tries.
  bool HasCaughtUp(const Indices& own) const;

 private:
  struct Failure {
    absl::Status status;
    std::chrono::seconds pause = kFirstPause;  // The last one.
    Time again;
  };
  using Key = std::pair<std::string, int64_t>;  // Number 0: a step of the name's.

  bool IsPaused(const Key& key, Time now) const;
  // Whether this server has the leader's version.
  static bool Has(const Indices& own, const std::string& name, int64_t number, const VersionFacts& facts);
  // The leader's routes as far as they lead to versions that are here; else those that this server has.
  static Routes Wanted(const VersionIndex& leaders, const VersionIndex& own);
  // Whether requests that name no number may get this version here: by a label, by weights, or as the highest one.
  static bool IsNeeded(const VersionIndex& leaders, const VersionIndex& own, int64_t number);

  bool heard_ = false;
  Indices list_;
  std::map<Key, Failure> failures_;
};

}  // namespace gluond::server

#endif  // SERVER_FOLLOW_FOLLOW_PLAN_H_
