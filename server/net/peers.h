// Peers are the connections to the server. The bytes that a peer holds are counted (shares.h), and its work has an
// account of its own, by which it takes turns with others' (engine/runtime/fair_threads.h). Thread-safe.
//
// A client of HTTP/2 may open a stream, reset it, and open the next one, without an end. gRPC 1.51 makes a call of each, counts
// none of them against its limit of streams, and frees them later than they come. A peer's connection that does so is ended. So
// is one that for a quarter of a second leaves eight times as many answers unread as it may have calls open. Behind a proxy a
// connection may have many clients. A connection with more than twice as many open calls as it may have loses none of them, and
// further calls are refused.
//
// gRPC 1.60 answers some resets with a ping, which slows the client down (grpc/grpc, pull request 34637). No release is known that
// bounds the answers that a client leaves unread.

#ifndef SERVER_NET_PEERS_H_
#define SERVER_NET_PEERS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "engine/runtime/account.h"
#include "grpcpp/grpcpp.h"
#include "server/net/descriptor.h"
#include "server/net/ending.h"

struct grpc_auth_context;
struct grpc_call;

namespace gluond::server {

class Peer {
 public:
  // `name` is gRPC's, like "ipv4:10.0.0.7:41014". `socket`: the connection's; it may be null or gone.
  explicit Peer(const std::string& name, std::weak_ptr<const Descriptor> socket = {});

  const std::string& name() const { return account_->name(); }
  // The network that the peer is in (network.h): all connections of one machine have it.
  const std::string& address() const { return address_; }
  // A message of so many bytes has come from the peer.
  void Gave(int64_t bytes) { given_.fetch_add(bytes + bytes / 512 + kFrameBytes, std::memory_order_relaxed); }
  // An estimate of the bytes that the kernel received for the messages and calls that have come.
  int64_t given() const { return given_.load(std::memory_order_relaxed); }
  // Whether all calls that gRPC has by now have begun since this said so last.
  // False where no call has begun or gone since: gRPC may have headers that are no call yet.
  bool IsRenewed();
  using Time = std::chrono::steady_clock::time_point;
  // Whether a call is open, or one was answered within the last two seconds.
  bool IsBusy(Time now);
  // Whether any call was answered, or ended otherwise.
  bool WasAnswered();
  // While `on` the kernel holds back what is sent to the peer, for 0.2 s at most, and sends it together afterwards. Does
  // nothing for a Unix socket.
  void Cork(bool on) const;
  // The account of the peer's work.
  const AccountPtr& account() const { return account_; }
  // The account of the work that one of several groups does by this connection: a proxy has callers of some.
  AccountPtr AccountIn(const AccountGroupPtr& group);

 private:
  friend class Guest;
  friend class Peers;
  static constexpr int64_t kFrameBytes = 64, kHeaderBytes = 1024;
  // Counts a call that was reset as `weight`. Returns whether resets come too fast; true once.
  bool CountReset(double weight);
  enum class Room { kThereIs, kNone, kFlooded };
  // Counts a call that is opened. kNone: far more than `most` have been open for too long, as far as this server knows.
  // kFlooded, once: far more answers than that have been unread for too long.
  Room CountCall(int64_t most, int* era);

  const AccountPtr account_;
  const std::string address_;
  const std::weak_ptr<const Descriptor> socket_;
  std::atomic<int64_t> given_ = 0;

  // Whether some work of the peer is left.
  bool has_work();

  Mutex mu_;
  std::vector<AccountPtr> in_groups_ ABSL_GUARDED_BY(mu_);
  int64_t open_ ABSL_GUARDED_BY(mu_) = 0;            // Calls that are not answered yet.
  int64_t calls_ ABSL_GUARDED_BY(mu_) = 0;           // The open calls, and those whose answers gRPC still has.
  bool is_changed_ ABSL_GUARDED_BY(mu_) = false;     // A call has begun or gone since IsRenewed last was true.
  int era_ ABSL_GUARDED_BY(mu_) = 0;                 // The era of the calls that begin now; IsRenewed begins the next.
  int64_t of_era_[2] ABSL_GUARDED_BY(mu_) = {0, 0};  // The calls that gRPC has, by the era in which they began.
  Time last_answer_ ABSL_GUARDED_BY(mu_);            // When a call was answered, or ended otherwise.
  Time too_many_since_ ABSL_GUARDED_BY(mu_), unread_since_ ABSL_GUARDED_BY(mu_);  // 0: not too many, open and unread.
  double resets_ ABSL_GUARDED_BY(mu_) = 0;                                        // Recent resets, as of last_reset_.
  Time last_reset_ ABSL_GUARDED_BY(mu_);
  bool floods_ ABSL_GUARDED_BY(mu_) = false;
};
using PeerPtr = std::shared_ptr<Peer>;

class Peers {
 public:
  // Ends the connection of the peer that gRPC calls so.
  using End = std::function<void(const std::string& name, Ending ending)>;
  // The socket of the peer that gRPC calls so; null: it has none that is known.
  using FindSocket = std::function<std::weak_ptr<const Descriptor>(const std::string& name)>;

  Peers() = default;
  ~Peers();
  // Called before the first call comes. A peer may have `most_calls` open.
  void Guard(int64_t most_calls, End end, FindSocket find_socket = nullptr) {
    MutexLock lock(mu_);  // Find takes the lock, too, and so sees what is set here.
    most_calls_ = most_calls;
    end_ = std::move(end);
    find_socket_ = std::move(find_socket);
  }

  // The client has reset a call before it was answered.
  void WasReset(Peer& peer) { Count(peer, 1); }
  // A call that was reset had not been sent before, as is rare with clients: it counts for more.
  void WasNeverSent(Peer& peer) { Count(peer, 3); }
  // A call's deadline has passed, which may befall many at once.
  void WasLate(Peer& peer) { Count(peer, 0.25); }
  // A call's headers were far longer than they may be.
  void SentFarTooLongHeaders(Peer& peer);
  // Forgets the peers that have no call, session or work left.
  void Sweep();
  struct Given {
    int64_t bytes;    // Peer::given().
    bool is_renewed;  // All calls of the peer have begun since the last look that said so.
  };
  // Takes a look at all peers, by name.
  absl::flat_hash_map<std::string, Given> Look();
  // The names of those who are busy, and whether a call of each was answered.
  absl::flat_hash_map<std::string, bool> Busy();

 private:
  friend class Guest;
  PeerPtr Find(grpc_call* call);
  void Count(Peer& peer, double weight);

  // gRPC has one of these for each connection. While a peer refers to it, no other connection gets the same.
  using Connection = grpc_auth_context*;

  int64_t most_calls_ = std::numeric_limits<int32_t>::max();
  End end_ = [](const std::string&, Ending) {};
  FindSocket find_socket_;  // May be null.
  Mutex mu_;
  absl::flat_hash_map<Connection, PeerPtr> peers_ ABSL_GUARDED_BY(mu_);
};

// A Guest counts a call for its peer, as open until it leaves. gRPC 1.51 holds a client to its limit of open calls only once
// the client has said that it knows the limit. It keeps answers that the client does not read.
class Guest {
 public:
  Guest(Peers& peers, grpc_call* call);
  Guest(Peers& peers, PeerPtr peer);
  Guest(Guest&& other) noexcept
      : peer_(std::move(other.peer_)),
        may_stay_(other.may_stay_),
        left_(other.left_.exchange(true)),
        ended_(other.ended_.exchange(true)),
        gone_(other.gone_.exchange(true)),
        era_(other.era_) {}
  ~Guest() { Go(); }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  // OK, or RESOURCE_EXHAUSTED: the peer has too many calls open, and this one is to be refused.
  absl::Status MayStay() const;
  // The call was answered. The client may know of that, and open the next call, before gRPC is done with it.
  void Leave();
  // gRPC has nothing left of the call that waits for the client.
  void End();
  // gRPC is done with the call, and has freed what had come of it.
  void Go();

  const PeerPtr& peer() const { return peer_; }

 private:
  PeerPtr peer_;  // Null where another guest has become this one.
  bool may_stay_ = true;
  std::atomic<bool> left_ = false, ended_ = false, gone_ = false;
  int era_ = 0;
};

// A ScopedCork holds back what is sent to those who get several answers, and sends it together at its end. Without it each
// answer is a packet of its own, for which the kernel wakes the client: among 32 callers a tenth of the processors' time.
class ScopedCork {
 public:
  // `peers` get the answers that are given from here on; one that gets several is there several times. They outlive this.
  explicit ScopedCork(std::vector<Peer*> peers);
  ~ScopedCork();
  ScopedCork(const ScopedCork&) = delete;
  ScopedCork& operator=(const ScopedCork&) = delete;

 private:
  std::vector<Peer*> corked_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_PEERS_H_
