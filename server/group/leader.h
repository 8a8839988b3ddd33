// GroupLeader: the leader of a group of servers, as a state machine without threads, clock and I/O. Each function is an event, and
// returns deeds, which are to be done in their order. Not thread-safe.
//
//   ASSIGN_OR_RETURN(GroupLeader leader, GroupLeader::Create({.min = 2, .max = 4, .fingerprint = fingerprint}));
//   Do(leader.Heard(member, message, now));   // A message of one of its Joins.
//   Do(leader.Run(now));                      // A command: its bytes stay with the caller. One Answer follows.
//
// All ranks go through the same phases together, the leader's own member (kOwn) among them: a phase ends when nobody owes an
// answer. A command is applied when all ranks have computed it, and only then. The answer comes when the leader's own member has
// applied it. A rank that is lost before ends the generation: the others drop what they have computed, and tell where they stand.
// Those that differ get the leader's state, and all form the next ring, where the command has the same number.
//
// Members that come wait for the end of the command under way, and so do those that leave.
//
// Messages of the leader's own member are heard when all deeds of the event before are done. A State is made from the leader's
// state there and then: its own member rests meanwhile.

#ifndef SERVER_GROUP_LEADER_H_
#define SERVER_GROUP_LEADER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/group/message.h"

namespace gluond::server {

class GroupLeader {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using MemberId = int64_t;             // One for each Join: a process that joins again is another member.
  static constexpr MemberId kOwn = 0;   // The leader's own, which joins first.
  static constexpr int64_t kMost = 64;  // Processes of a group.
  // A member that says that it is there and answers nothing is lost after so many timeouts. A step is no such question before the
  // leader's own process has computed it: an operator may take its time.
  static constexpr int kPatience = 30;
  // After so many rings in a row that did not form, a member is left out that is thought to be the cause. After so many members that
  // were lost in a row while rings formed, newcomers wait until commands have been applied without them.
  static constexpr int kMostUnformed = 3;

  struct Options {
    int64_t min = 1;  // Processes without which no command runs, the leader's own included.
    int64_t max = 1;
    bool allow_solo = false;       // A leader may go on with half of the processes or fewer.
    std::string fingerprint = {};  // FromMember::Hello has the same.
    std::chrono::milliseconds timeout = std::chrono::seconds(10);
    uint64_t crc_every = 100;  // Commands from one comparison of states to the next.
  };

  struct Send {
    MemberId to = 0;
    FromLeader::Any message;
  };
  // Ends the member's Join, of which nothing more is heard. OK: the member wanted to leave.
  struct Close {
    MemberId member = 0;
    absl::Status status;
  };
  // The command's end. OK: the command is applied. An error: no process has applied it, or will.
  struct Answer {
    absl::Status status;
  };
  // A generation has begun. No command could run in the pause before.
  struct Begun {
    uint64_t generation = 0;
    int64_t ranks = 0;  // Spares included.
    Clock::duration pause{};
  };
  // For the log: states differ that should not, or no ring has formed.
  struct Warn {
    std::string text;
    bool differs = true;  // States do.
  };
  using Deed = std::variant<Send, Close, Answer, Begun, Warn>;
  using Deeds = std::vector<Deed>;

  enum class Phase : uint8_t {
    kStanding,   // All tell where they stand, until they stand where the leader does.
    kForming,    // All form a ring.
    kFormed,     // Nobody owes anything.
    kComputing,  // All compute a command.
    kApplying,   // All apply it.
  };
  enum class CommandState : uint8_t { kNone, kWaits, kSent };  // kSent: a generation computes it, or has tried to.
  struct Seat {
    enum class Place : uint8_t { kPreparing, kWaiting, kRank };
    uint64_t process = 0;
    Place place = Place::kPreparing;
    bool owes = true;         // An answer to the last message,
    Time asked;               // which it was sent then.
    bool is_leaving = false;  // Between two commands.
    bool has_state = false;   // The leader's was sent, and is not yet found to be there.
    Standing standing;        // As it was told last.
    Time heard;
  };

  // INVALID_ARGUMENT says what is wrong with the sizes.
  static absl::StatusOr<GroupLeader> Create(Options options);

  // The first message of a member is Hello.
  Deeds Heard(MemberId member, const FromMember::Any& message, Time now);
  // The end of a member's Join by its side.
  Deeds Lost(MemberId member, Time now);
  // The next command runs when it can. Requires: the last one is answered, or withdrawn.
  Deeds Run(Time now);
  // The caller has no need of the command any more. False: the ranks compute or apply it now, and an Answer follows.
  bool Withdraw();
  // The leader's state has changed otherwise than by a command, as its own member tells when it stands next. Another generation
  // begins before the next command.
  Deeds Renew(Time now);
  // The time passes: called several times in a timeout.
  Deeds Tick(Time now);
  // The member leaves between two commands. Requires: `member` is not the leader's own.
  Deeds Drain(MemberId member, Time now);

  Phase phase() const { return phase_; }
  uint64_t generation() const { return generation_; }
  const std::map<MemberId, Seat>& seats() const { return seats_; }
  // Processes that are prepared: ranks, and those that wait.
  int64_t present() const;
  CommandState command() const { return command_; }
  // Something has changed that the next generation takes up.
  bool has_changed() const { return has_changed_; }
  // A ring has not formed, though nobody is lost. The next attempt follows a Tick or a loss.
  bool waits_for_tick() const { return waits_for_tick_; }
  // Rings in a row that did not form, and why the last one did not.
  int unformed() const { return unformed_; }
  const std::string& why_unformed() const { return why_unformed_; }

 private:
  struct Loss {
    Time last;
    Time out_until = {};  // No Join of the process is taken before.
    int strikes = 0;      // Times that the others had to wait because of it.
  };

  explicit GroupLeader(Options options) : options_(std::move(options)) {}

  // The errors say that a message is out of order. The member has a seat, unless it says Hello.
  absl::Status On(MemberId member, const FromMember::Hello& hello, Time now);
  absl::Status On(MemberId member, const Standing& standing, Time now);
  absl::Status On(MemberId member, const FromMember::Ready& ready, Time now);
  absl::Status On(MemberId member, const FromMember::Computed& computed, Time now);
  absl::Status On(MemberId member, const FromMember::Broken& broken, Time now);
  absl::Status On(MemberId member, const FromMember::Failed& failed, Time now);
  absl::Status On(MemberId member, FromMember::Leaving leaving, Time now);
  absl::Status On(MemberId, Heartbeat, Time) { return absl::OkStatus(); }

  // Goes on as far as it can, and returns all deeds of the event.
  Deeds Advance(Time now);
  // Goes on to the next phase. False: somebody owes an answer, or there is nothing to do.
  bool EndPhase(Time now);
  bool IsOwed() const;
  void SendStates(Time now);
  // A ring has not formed: `broken` says why.
  void Unformed(MemberId member, const FromMember::Broken& broken, Time now);
  // The member leaves, and comes back after `pause`, which doubles from one time to the next.
  void Strike(MemberId member, absl::Status status, Clock::duration pause, Time now);
  // Lets newcomers in that are prepared, unless they are held back.
  void Admit();
  // Stops the training if most processes have one state, and the leader another.
  void CheckOwn();
  void BeginForming(Time now);
  void EndGeneration(Time now);
  // All ranks owe an answer to the message, which belongs to the phase.
  void Say(const FromLeader::Any& message, Phase phase, Time now);
  void Finish(absl::Status status);
  void Part(MemberId member, absl::Status status, Time now);
  void Remove(MemberId member, Time now);
  const Standing& own() const { return seats_.at(kOwn).standing; }

  Options options_;
  std::map<MemberId, Seat> seats_;   // The ranks' order is that of the ids.
  std::map<uint64_t, Loss> losses_;  // By process; recent ones.
  Phase phase_ = Phase::kStanding;
  uint64_t generation_ = 0;
  CommandState command_ = CommandState::kNone;
  bool has_changed_ = false;
  bool waits_for_tick_ = false;
  int unformed_ = 0;
  std::string why_unformed_;
  std::map<uint64_t, std::set<uint64_t>> accused_;  // The tellers, by the process that they say keeps these rings from forming.
  int lost_forming_ = 0;                            // Members that were lost in a row while rings formed.
  int64_t held_back_ = 0;                           // Commands without newcomers that are still to be applied,
  int times_held_back_ = 0;                         // which are the more, the more often newcomers were held back
  Time last_held_back_;                             // lately.
  absl::Status stopped_;                            // Why no command runs any more.
  Time paused_;                                     // Since when.
  Deeds deeds_;                                     // The event's.
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_LEADER_H_
