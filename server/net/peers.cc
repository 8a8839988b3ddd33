#include "server/net/peers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "grpc/support/alloc.h"

namespace gluond::server {
namespace {

// A client may reset so many calls at once, twice as many as it may have under way, and afterwards so many each second.
constexpr double kMostResets = 512;
constexpr double kResetsPerSecond = 256;

// A client knows of a call's end, and opens the next one, before this server does: for so long any number of calls may
// seem to be there.
constexpr std::chrono::milliseconds kHearing{250};
// So many times the calls that may be open: those that are open, and those with the answers that gRPC still has.
constexpr int64_t kTimesOpen = 2, kTimesInAll = 8;

std::string WithoutPort(const std::string& name) { return name.substr(0, name.rfind(':')); }

}  // namespace

Peer::Peer(const std::string& name, std::weak_ptr<const Descriptor> socket)
    : account_(std::make_shared<const Account>(name)), address_(WithoutPort(name)), socket_(std::move(socket)) {}

void Peer::Cork(bool on) const {
  const int value = on ? 1 : 0;
  if (const auto socket = socket_.lock()) setsockopt(socket->get(), IPPROTO_TCP, TCP_CORK, &value, sizeof(value));
}

AccountPtr Peer::AccountIn(const AccountGroupPtr& group) {
  MutexLock lock(mu_);
  for (const AccountPtr& account : in_groups_) {
    if (account->group() == group) return account;
  }
  return in_groups_.emplace_back(std::make_shared<const Account>(name(), group));
}

bool Peer::has_work() {
  MutexLock lock(mu_);
  const auto works = [](const AccountPtr& account) { return account.use_count() > 1; };
  return works(account_) || std::any_of(in_groups_.begin(), in_groups_.end(), works);
}

bool Peer::CountReset(double weight) {
  MutexLock lock(mu_);
  const auto now = std::chrono::steady_clock::now();
  const double passed = std::chrono::duration<double>(now - last_reset_).count();
  resets_ = std::max(0.0, resets_ - passed * kResetsPerSecond) + weight;
  last_reset_ = now;
  return resets_ > kMostResets && !std::exchange(floods_, true);
}

bool Peer::CountCall(int64_t most) {
  MutexLock lock(mu_);
  const auto now = std::chrono::steady_clock::now();
  ++calls_;
  ++open_;
  if (open_ <= kTimesOpen * most && calls_ <= kTimesInAll * most) {
    too_many_since_ = {};
    return false;
  }
  if (too_many_since_ == std::chrono::steady_clock::time_point()) too_many_since_ = now;
  return now - too_many_since_ > kHearing && !std::exchange(floods_, true);
}

void Peers::Count(Peer& peer, double weight) {
  if (peer.CountReset(weight)) end_(peer.name(), "it has ended more calls before their answers than it may have under way");
}

Guest::Guest(Peers& peers, grpc_call* call) : Guest(peers, peers.Find(call)) {}

Guest::Guest(Peers& peers, PeerPtr peer) : peer_(std::move(peer)) {
  if (peer_->CountCall(peers.most_calls_)) {
    peers.end_(peer_->name(), "it has more calls open, or answers to read, than a connection may have");
  }
}

void Guest::Leave() {
  if (left_.exchange(true)) return;
  MutexLock lock(peer_->mu_);
  --peer_->open_;
}

void Guest::End() {
  Leave();
  if (ended_.exchange(true)) return;
  MutexLock lock(peer_->mu_);
  --peer_->calls_;
}

Peers::~Peers() {
  for (const auto& [connection, peer] : peers_) grpc_auth_context_release(connection);
}

PeerPtr Peers::Find(grpc_call* call) {
  const Connection connection = grpc_call_auth_context(call);  // Null for calls within the process.
  PeerPtr peer;
  bool known = true;
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(connection);
    if (found != peers_.end()) {
      peer = found->second;
    } else {
      known = false;
      const std::unique_ptr<char, decltype(&gpr_free)> name(grpc_call_get_peer(call), &gpr_free);
      peer = peers_[connection] = std::make_shared<Peer>(
          name.get(), find_socket_ == nullptr ? std::weak_ptr<const Descriptor>() : find_socket_(name.get()));
    }
  }
  if (known) grpc_auth_context_release(connection);
  peer->given_.fetch_add(Peer::kHeaderBytes, std::memory_order_relaxed);
  return peer;
}

absl::flat_hash_map<std::string, int64_t> Peers::Given() {
  MutexLock lock(mu_);
  absl::flat_hash_map<std::string, int64_t> given;
  for (const auto& [connection, peer] : peers_) given[peer->name()] = peer->given();
  return given;
}

void Peers::Sweep() {
  MutexLock lock(mu_);
  absl::erase_if(peers_, [](const auto& entry) {
    const auto& [connection, peer] = entry;
    // The registry's own reference, and the accounts' in the peer: no call, session or work is left.
    const bool left = peer.use_count() > 1 || peer->has_work();
    if (!left) grpc_auth_context_release(connection);
    return !left;
  });
}

}  // namespace gluond::server
