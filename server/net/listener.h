// Listener accepts the connections, counts them, and hands them over (accept_threads.h). gRPC's own accept loop has no
// limit, and ends for good when the process has no file descriptor left. Thread-safe.
//
// At most `max_connections` are open, and those of one network (network.h) hold at most half of them. When a further connection
// comes, a connection gives way of the network that has most, the further one included. So a few networks that fill the server
// close their own connections, and no other's. The first to go is a connection that its client has left, or a connection
// without calls for two seconds. Its client loses nothing but the connection, which his library makes again. A client that was
// answered just now may be about to send the next call. The next is one whose calls are open and were never answered, the last
// one of a client that was. Among equals the connection that has been silent for longest goes. (Nobody knows for how long a
// Unix socket has been silent: there the further connection is closed.)
//
// A network from which a connection had to be ended makes new ones less often. New connections are accepted, and handed to gRPC
// a quarter of a second later for each such end, five seconds at most.

#ifndef SERVER_NET_LISTENER_H_
#define SERVER_NET_LISTENER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "server/net/descriptor.h"
#include "server/net/ending.h"
#include "server/start/pulse.h"

namespace gluond::server {

class Listener {
 public:
  // Gives gRPC a connection. Returns at once.
  using Give = std::function<void(Descriptor connection)>;
  // The names, gRPC's, of connections that have calls under way, or had one just now, and whether a call of each was answered.
  using Busy = std::function<absl::flat_hash_map<std::string, bool>()>;

  // Listens on "HOST:PORT" (each address that HOST means), "unix:PATH" (in place of a socket that nobody serves) or
  // "unix-abstract:NAME".
  // UNAVAILABLE: the address is taken, or is none of this machine.
  // On a Unix socket others than the server's own user, root and `users` are turned away.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const std::string& address, int64_t max_connections,
                                                        std::vector<uint32_t> users = {});
  // Stops, as Stop does.
  ~Listener();

  int port() const { return port_; }  // 0 for a Unix socket.

  // From here on connections are accepted.
  void Start(
      Give give, Busy busy = [] { return absl::flat_hash_map<std::string, bool>(); });
  // Accepts no more. Connections that are open stay open.
  void Stop();

  // Closes the connection that gRPC calls `name`, "ipv4:10.0.0.7:41014", since it harms others. Connections of Unix
  // sockets have no names of their own.
  void End(const std::string& name, Ending ending);

  // The socket of that connection, while it is open; null: there is none of that name.
  std::weak_ptr<const Descriptor> Socket(const std::string& name) const;

  struct Traffic {
    std::string name;
    int64_t received, sent;  // Bytes, by the kernel.
  };
  // The traffic of each connection that gRPC has and whose bytes the kernel counts, as it does for TCP.
  std::vector<Traffic> CountTraffic() const;

  int64_t connections() const;
  // Connections so far: those that came, those that gave way to others, and those that End or gRPC closed. (Connections are
  // missed that gRPC and the client close in the same moment.)
  int64_t accepted() const { return accepted_; }
  int64_t dropped() const { return dropped_; }
  int64_t ended(Ending ending) const { return ended_[static_cast<size_t>(ending)]; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    std::shared_ptr<const Descriptor> second;  // A duplicate of `first`: it tells when gRPC has closed that one.
    Descriptor first;                          // The connection's own, until gRPC gets it.
    Clock::time_point due;                     // The time at which gRPC gets it.
    std::string network;
    std::string name;      // gRPC's; empty for a Unix socket.
    bool is_shut = false;  // By this.
  };

  Listener(int64_t max_connections, std::vector<uint32_t> users) : max_connections_(max_connections), users_(std::move(users)) {}
  absl::Status ListenOnUnix(const std::string& address);
  absl::Status ListenOnTcp(const std::string& host, const std::string& port);
  absl::Status Watch(int fd, uint32_t events);

  using Connections = absl::flat_hash_map<int, Connection>;  // By the second descriptor.

  void Loop();
  void Accept(int listening);
  bool MayConnect(int fd) const;  // The kernel tells which user is at the other end of a Unix socket.
  void Add(Descriptor accepted, std::string network, std::string name);
  // Hands connections that are due to gRPC. Returns the milliseconds until the next one is; -1: none waits.
  int HandOver();
  void Forget(Connections::iterator connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The network that has most connections, where one of `further` comes.
  std::string Fullest(const std::string& further) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Closes the connection of the network that misses it least. False: there is none.
  bool DropOne(const std::string& network);

  const int64_t max_connections_;
  const std::vector<uint32_t> users_;
  int port_ = 0;
  std::string path_;  // The Unix socket's, or empty.
  Descriptor epoll_, wake_;
  std::vector<Descriptor> listening_;
  Give give_;
  Busy busy_;
  std::atomic<int64_t> accepted_ = 0, dropped_ = 0;
  std::array<std::atomic<int64_t>, kEndings> ended_{};

  mutable Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Connections connections_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, int64_t> of_network_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, Clock::time_point> wait_until_ ABSL_GUARDED_BY(mu_);  // By network.
  std::set<std::pair<Clock::time_point, int>> waiting_ ABSL_GUARDED_BY(mu_);  // Times at which connections (by key) are due.

  Pulse pulse_{"listen"};
  std::thread thread_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_LISTENER_H_
