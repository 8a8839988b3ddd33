// GroupMember: a process that computes for the leader of a group, as a state machine without threads, clock and I/O. Each function
// is an event, and returns deeds, which are to be done in their order. The leader's process computes by a member of its own, whose
// messages stay within the process. Not thread-safe.
//
//   GroupMember member({.process = random, .fingerprint = fingerprint}, Standing{});
//   Do(member.Join(now));                  // Send{Hello}
//   Do(member.Heard(message, now));        // FromLeader::Command: the engine computes, and calls Computed.
//   Do(member.Computed(status));           // Send{Computed}
//
// The engine's contract. Prepare, State, Apply and End are each done to the end, and then Stands or Failed is called, once. Form
// ends with Formed or Broken, Command with Computed or Broken. End ends them, too: their own end may be told before Stands, or
// never, but not after it. A ring that is not in use need not be watched.

#ifndef SERVER_GROUP_MEMBER_H_
#define SERVER_GROUP_MEMBER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/group/message.h"

namespace gluond::server {

class GroupMember {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Send {
    FromMember::Any message;
  };
  // Ends Join: the leader has said nothing for too long, or something out of order, or the engine has failed.
  struct Leave {
    absl::Status status;
    bool tells = true;  // The leader is told why, and closes Join.
  };
  // A message of the leader's, as a deed, is the engine's to do.
  using Deed = std::variant<Send, Leave, FromLeader::Prepare, FromLeader::State, FromLeader::Form, FromLeader::Command,
                            FromLeader::Apply, FromLeader::End>;
  using Deeds = std::vector<Deed>;

  enum class Phase : uint8_t {
    kOut,        // There is no Join.
    kJoining,    // Hello is said.
    kWorking,    // The engine calls Stands when it has done its work.
    kWaiting,    // There is no ring.
    kForming,    // The engine calls Formed or Broken.
    kFormed,     // There is a ring.
    kComputing,  // The engine calls Computed or Broken.
    kComputed,   // The engine holds the reduced gradients.
    kBroken,     // There is a ring no more, and the leader knows.
  };

  // `standing`: the leader's own member has the incarnation of its process, any other begins with nothing.
  GroupMember(FromMember::Hello hello, Standing standing, std::chrono::milliseconds timeout = std::chrono::seconds(10))
      : hello_(std::move(hello)), timeout_(timeout), standing_(standing) {}

  // A Join is open. Requires: the phase is kOut.
  Deeds Join(Time now);
  Deeds Heard(const FromLeader::Any& message, Time now);
  // The end of Join, by whichever side. The standing stays; another Join may follow when the phase is kOut.
  Deeds Lost();
  // The time passes: called several times in a timeout. The leader's own member has no need of it.
  Deeds Tick(Time now);
  // The process ends soon: the leader closes Join between two commands.
  Deeds Drain();

  Deeds Formed();
  Deeds Computed(absl::Status status);
  // `rank`: as of FromMember::Broken.
  Deeds Broken(std::string text = {}, std::optional<int64_t> rank = {});
  // `crc`: without a value only after an Apply that did not want it.
  Deeds Stands(std::optional<uint32_t> crc);
  // The engine's state has changed otherwise than by a command: the next standing is another one. The leader's own member alone.
  void Changed() { ++standing_.applied; }
  // The engine's state is nobody's any more: the leader sends its own at the next Join.
  Deeds Failed(absl::Status status);

  Phase phase() const { return phase_; }
  Phase after() const { return after_; }
  uint64_t generation() const { return generation_; }
  const Standing& standing() const { return standing_; }

 private:
  Deeds On(const FromLeader::Prepare& prepare);
  Deeds On(const FromLeader::State& state);
  Deeds On(const FromLeader::Form& form);
  Deeds On(const FromLeader::Command& command);
  Deeds On(const FromLeader::Apply& apply);
  Deeds On(const FromLeader::End& end);
  Deeds On(Heartbeat) { return {}; }
  // The engine does the leader's word, and is in that phase when it Stands.
  template <class Word>
  Deeds Work(const Word& word, Phase after);
  Deeds OutOfOrder(absl::string_view message);
  Deeds Part(absl::Status status, bool tells);

  FromMember::Hello hello_;
  std::chrono::milliseconds timeout_;
  Phase phase_ = Phase::kOut;
  Phase after_ = Phase::kOut;  // While kWorking: the phase that follows.
  uint64_t generation_ = 0;    // The last one of this Join.
  Standing standing_;
  Time heard_;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_MEMBER_H_
