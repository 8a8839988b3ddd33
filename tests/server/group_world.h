// World: a leader, three members and a client who wants two steps, with all that is on its way between them, as a value. Moves
// lead from a World to the next ones; group_walk_test.cc walks all of them.
//
// The parameters are modelled as the list of the steps that they have seen, each with the batch that the client sent for it. So
// *answers equal history* can be held in each World: what the client was told is what the leader's list says.
//
// Moves of a member touch nobody else until the leader hears of them. So they are one with the hearing (kAnswer): the member
// hears messages, its engine works, its answer arrives. They would come out the same before or between others' moves, but for
// two. A ring can break from the moment on in which one of its ranks may have left (IsWhole). An answer may be on its way when its
// process dies, its Join is cut, or its rank fails, and others may be heard first: so these leave it there. Messages of a Join
// that is cut are heard, or are not, when its process joins again.
//
// Members differ in nothing, so Worlds that only swap members have one hash. Numbers of generations count by their order alone.

#ifndef TESTS_SERVER_GROUP_WORLD_H_
#define TESTS_SERVER_GROUP_WORLD_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "server/group/leader.h"
#include "server/group/member.h"
#include "server/group/message.h"

namespace gluond::server::group_walk {

constexpr int kMembers = 3, kOwnMember = kMembers;  // Processes; the leader's own member comes last.
constexpr size_t kSteps = 2;
constexpr GroupLeader::Time kNow{};  // The time stands still: a lost Join is cut. Timeouts are zero, and nobody is held for a flap.

// The batches of the steps that were applied.
struct History {
  std::array<uint8_t, kSteps> batches{};
  uint8_t size = 0;

  void Add(uint8_t batch) { batches.at(size++) = batch; }
  bool operator==(const History&) const = default;
};

inline History Prefix(const History& history, int size) {
  History prefix;
  for (int i = 0; i < size; ++i) prefix.Add(history.batches[i]);
  return prefix;
}

struct Down {
  FromLeader::Any message;
  uint8_t batch = 0;  // A Command's.
  History state;      // A State's.
};

struct Connection {
  GroupLeader::MemberId id = 0;
  uint64_t incarnation = 0;
  absl::InlinedVector<FromMember::Any, 1> up = {};
  absl::InlinedVector<Down, 1> down = {};
  bool leader_hears = true;
  bool member_hears = true;
  bool is_cut = false;  // Each side that hears can find its end at any time, before or after what still waits.
};

struct Process {
  GroupMember member;
  History history = {};
  bool lives = true;
  bool drains = false;
  bool applies = false;                      // While it works.
  uint8_t batch = 0;                         // The batch of the command that the process computes.
  int64_t ranks = 0;                         // The ranks of the process's ring.
  std::optional<History> taken = {};         // A state on its way to the engine.
  std::vector<Connection> connections = {};  // The last one may be that of its Join.

  // The connection of the process's Join; null: there is none.
  Connection* connection() { return connections.empty() || !connections.back().member_hears ? nullptr : &connections.back(); }
};

struct Move {
  enum Kind : uint8_t {
    kSubmit,      // The client sends the next step.
    kTick,        // The leader's clock.
    kRenew,       // The leader hears that another generation is to begin.
    kJoin,        // A process finds that it has no Join, and says Hello.
    kAnswer,      // A member's work, until the leader has its next message.
    kFinish,      // The engine of the leader's own member has done its work.
    kFail,        // A rank fails, and leaves its ring. The leader has not heard of it.
    kToLeader,    // The leader hears what was on its way,
    kFindGone,    // or the end of a Join.
    kDrain,       // A member wants to leave,
    kExit,        // and does.
    kCut,         // A Join is cut.
    kKill,        // A member's process dies,
    kReturn,      // and comes back.
    kKillLeader,  // The leader's process dies, and another one begins with so many steps.
  };
  enum Outcome : uint8_t { kNone, kWorks, kBreaks, kFails };
  Kind kind;
  int process = 0;
  int n = 0;                // The messages that the member hears first; or the connection, or the steps.
  Outcome outcome = kNone;  // The end of the ring's work that the member does then.
  bool is_sure = true;      // It comes in the end if nothing else happens: no fault, and no luck.

  std::string Describe() const;
};
// Those that may still happen.
struct Faults {
  int deaths = 0;
  int returns = 0;
  int failures = 0;
  int drains = 0;
  int renewals = 0;
};

class World {
 public:
  // `min`: processes without which no step runs.
  World(Faults faults, int64_t min) : faults_(faults), min_(min) {
    for (int i = 0; i <= kMembers; ++i) processes_.push_back(NewProcess(i));
    StartLeader();
    HearOwn();
  }

  std::vector<Move> Moves() const;
  void Do(const Move& move);
  uint64_t Hash() const;
  // Empty: the state keeps all promises.
  const std::string& problem() const { return problem_; }
  // The client has his answers, and all that live are one group.
  bool IsAtRest() const;
  std::string Describe() const;

 private:
  static Process NewProcess(int i) {
    return {GroupMember({.process = static_cast<uint64_t>(i) + 1}, Standing{}, std::chrono::milliseconds(0))};
  }
  void StartLeader() {
    ++incarnation_;
    leader_.emplace(
        *GroupLeader::Create({.min = min_, .max = kMembers + 1, .allow_solo = true, .timeout = std::chrono::milliseconds(0)}));
    Process& own = processes_[kOwnMember];
    const History history = own.history;
    own = NewProcess(kOwnMember);
    own.history = history;
    own.member = GroupMember({.process = kOwnMember + 1}, {.incarnation = incarnation_, .applied = history.size},
                             std::chrono::milliseconds(0));
    DoAll(kOwnMember, own.member.Join(kNow));
  }

  void Hear(int process, const Down& down);
  void DoAll(int process, const GroupMember::Deeds& deeds);
  void DoAll(const GroupLeader::Deeds& deeds);
  void HearOwn();
  void LeaderHears(Connection& connection);
  void End(const absl::Status& status);
  void Finish(int process);
  void Die(int process);
  void LoseJoin(int process);
  void Check();
  void Require(bool holds, absl::string_view what) {
    if (!holds && problem_.empty()) problem_ = std::string(what);
  }
  uint64_t IncarnationOf(const Process& process) const {
    return &process == &processes_[kOwnMember] ? incarnation_
           : process.connections.empty()       ? 0
                                               : process.connections.back().incarnation;
  }
  static bool IsInRing(const Process& process) {
    return process.lives && process.member.phase() >= GroupMember::Phase::kForming &&
           process.member.phase() != GroupMember::Phase::kBroken;
  }
  bool IsWhole(uint64_t incarnation, uint64_t generation, int64_t ranks) const;
  std::vector<Move> Answers(int i) const;
  // Until a message is on its way.
  void Work(const Move& move);
  void FinishIfWorking(int i) {
    if (processes_[i].member.phase() == GroupMember::Phase::kWorking) Finish(i);
  }
  const History& history() const { return processes_[kOwnMember].history; }

  Faults faults_;
  int64_t min_;
  uint64_t incarnation_ = 0;
  GroupLeader::MemberId last_id_ = 0;
  std::optional<GroupLeader> leader_;
  std::vector<Process> processes_;
  std::vector<FromMember::Any> own_up_;  // Messages of the leader's own member, heard before anything else happens.
  // The client.
  uint8_t next_ = 1;         // The number of his next step.
  uint8_t batch_ = 1;        // He repeats a step that has failed, or was lost, with another batch.
  bool is_waiting_ = false;  // For an answer.
  bool was_too_few_ = false;
  History told_;         // The batches of those that he takes for applied.
  uint8_t durable_ = 0;  // Steps.
  std::string problem_;
};

}  // namespace gluond::server::group_walk

#endif  // TESTS_SERVER_GROUP_WORLD_H_
