// Messages that the leader of a group and its members send each other over Join. The fields are those that the state machines
// (leader.h, member.h) act by. The carrier of a message adds what they only pass on: a command's bytes, a state, a ring's key.
//
//   Hello                     ->            A member comes.
//                             <-  Prepare   The member gets datasets and compiles, while training goes on.
//   Standing                  ->            The member waits for the next generation.
//                             <-  State     Only to a member that differs from the leader. Answered by Standing.
//                             <-  Form      A generation begins, with a ring of its own.
//   Ready, or Broken          ->
//                             <-  Command   All ranks compute, and apply nothing.
//   Computed, or Broken       ->
//                             <-  Apply     All ranks are healthy.
//   Standing                  ->
//                             <-  End       The generation ends: computed results are dropped. Answered by Standing.
//   Failed                    ->            The member cannot go on, and leaves.
//
// Messages of one direction arrive in their order. The leader's next message waits for the answer to its last one; End alone may
// overtake the answer to Form or Command.

#ifndef SERVER_GROUP_MESSAGE_H_
#define SERVER_GROUP_MESSAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"

namespace gluond::server {

// The state that a process holds of the group's models, as far as others need to know it.
struct Standing {
  uint64_t incarnation = 0;          // The leader's process, whose commands were applied; 0: nobody's.
  uint64_t applied = 0;              // The number of the last command.
  std::optional<uint32_t> crc = {};  // Parameters, states, auxiliaries, counters. After Apply only where the leader asked for it.

  bool operator==(const Standing&) const = default;
};

// Each side says so several times in a timeout, and takes a silent one for lost.
struct Heartbeat {};

struct FromMember {
  struct Hello {
    uint64_t process = 0;          // A random number, which a process keeps over all its Joins.
    std::string fingerprint = {};  // Build, registry, passes, instruction sets: all that decides about bits.
  };
  struct Ready {
    uint64_t generation = 0;
  };
  struct Computed {
    uint64_t generation = 0;
    absl::Status status;  // The rank's own. An error: the rank has ended its ring.
  };
  // The ring has not formed, or has ended.
  struct Broken {
    uint64_t generation = 0;
    std::string text = {};             // Why.
    std::optional<int64_t> rank = {};  // The rank that others cannot reach, as far as this one can tell: itself, or a peer.
  };
  // The member leaves for a reason of its own. The leader closes its Join.
  struct Failed {
    absl::Status status;
  };
  // The member wants to leave between two commands. The leader closes its Join then.
  struct Leaving {};
  using Any = std::variant<Hello, Standing, Ready, Computed, Broken, Failed, Leaving, Heartbeat>;
};

struct FromLeader {
  struct Prepare {};
  struct State {
    Standing standing;  // The leader's.
  };
  // Ranks below `size`, a power of two, compute. Spare rank `size + i` receives what rank `i` has reduced.
  struct Form {
    uint64_t generation = 0;
    int64_t rank = 0;
    int64_t size = 0;
    int64_t spares = 0;
  };
  struct Command {
    uint64_t number = 0;
  };
  struct Apply {
    uint64_t number = 0;
    bool wants_crc = false;
  };
  struct End {};
  using Any = std::variant<Prepare, State, Form, Command, Apply, End, Heartbeat>;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_MESSAGE_H_
