// Peers: who is connected. A peer is a connection: what it holds is counted (shares.h), and its work has an account of
// its own, by which it takes turns with others' (engine/runtime/fair_threads.h). Thread-safe.

#ifndef SERVER_PEERS_H_
#define SERVER_PEERS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "engine/runtime/account.h"
#include "grpcpp/grpcpp.h"

struct grpc_auth_context;

namespace gluond::server {

class Peer {
 public:
  // `name` is gRPC's, like "ipv4:10.0.0.7:41014".
  explicit Peer(const std::string& name);

  const std::string& name() const { return account_->name(); }
  // The name without a port: all connections of one machine have it.
  const std::string& address() const { return address_; }
  // As does the peer's work.
  const AccountPtr& account() const { return account_; }

 private:
  const AccountPtr account_;
  const std::string address_;
};
using PeerPtr = std::shared_ptr<Peer>;

class Peers {
 public:
  Peers() = default;
  ~Peers();

  // The peer of a call.
  PeerPtr Find(grpc::CallbackServerContext* context);
  // Forgets those of whom nothing is left.
  void Sweep();

 private:
  // gRPC has one of these for each connection. While a peer refers to it, no other connection gets the same.
  using Connection = grpc_auth_context*;

  std::mutex mu_;
  absl::flat_hash_map<Connection, PeerPtr> peers_;  // Guarded by mu_.
};

}  // namespace gluond::server

#endif  // SERVER_PEERS_H_
