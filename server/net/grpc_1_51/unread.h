// Unread counts the bytes that gRPC has received and given to nobody: parts of messages that have not come whole. gRPC
// 1.51 has no limit for them but its quota, where it ends any stream at all. They are charged to the process's budget.
// Where they are too many, the connections that have kept most of them for longest within the last seconds are to be
// ended.
//
// gRPC does not tell their number. It is the number of bytes that the kernel has received on a connection, less those of the
// messages that came of them, less an estimate for headers and frames. A call that is refused or cancelled within its message
// gives nobody what has come of the message, and gRPC frees that. So bytes that are older than all calls of a connection do not
// count. Not thread-safe.
//
// No release of gRPC makes it needless yet: its quota of memory still ends any stream at all.

#ifndef SERVER_NET_GRPC_1_51_UNREAD_H_
#define SERVER_NET_GRPC_1_51_UNREAD_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/runtime/budget.h"

namespace gluond::server {

class Unread {
 public:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    std::string name;         // gRPC's.
    int64_t received;         // Bytes that the kernel has received.
    int64_t sent;             // Bytes that the client has taken.
    int64_t given;            // Bytes of messages and of their heads: Peer::given(). From 0 again where the peer was forgotten.
    bool is_renewed = false;  // All its calls have begun since the last look that had this: older bytes are kept by none.
    bool has_calls = true;    // Without any, what still comes may be headers that are no call yet.
  };

  // At most `most` bytes, of `memory`.
  Unread(std::shared_ptr<Budget> memory, int64_t most) : memory_(std::move(memory)), most_(most) {}

  // Takes all connections that there are, and returns the names of those to be ended.
  std::vector<std::string> Look(const std::vector<Connection>& connections, Clock::time_point now);

  // As of the last look.
  int64_t bytes() const { return bytes_; }

 private:
  struct Seen {
    int64_t given = 0, received = 0;
    int64_t correction = 0;  // Added to the estimate.
    int64_t renewed = 0;     // The estimate, without correction, when its calls were renewed last.
    double kept = 0;         // Bytes times seconds, fading.
  };

  Reservation memory_;
  const int64_t most_;
  int64_t bytes_ = 0;
  Clock::time_point last_look_;
  absl::flat_hash_map<std::string, Seen> seen_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_GRPC_1_51_UNREAD_H_
