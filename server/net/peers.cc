#include "server/net/peers.h"

#include <linux/tcp.h>  // As in listener.cc: netinet/tcp.h cannot stand beside it.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "engine/core/error_info.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "grpc/support/alloc.h"
#include "server/net/network.h"

namespace gluond::server {
namespace {

// The clients of a connection may reset so many calls at once, ten times as many as one may have under way, and afterwards
// so many each second. So 500 that are cancelled before they are sent, or ten thousand that are late, end by themselves.
constexpr double kMostResets = 2560;
constexpr double kResetsPerSecond = 256;

// A client knows of a call's end, and opens the next one, before this server does: for so long any number of calls may
// seem to be there.
constexpr std::chrono::milliseconds kHearing{250};
// So many times the calls that may be open: those that are open, and the answers that gRPC still has.
constexpr int64_t kTimesOpen = 2, kTimesUnread = 8;

// A client whose last answer came no longer ago is between two calls: the next one may be under way.
constexpr std::chrono::seconds kBetweenCalls{10};

// Whether `are` has held for longer than kHearing; `since` remembers from when on.
bool Last(bool are, std::chrono::steady_clock::time_point now, std::chrono::steady_clock::time_point* since) {
  if (!are) *since = {};
  if (are && *since == std::chrono::steady_clock::time_point()) *since = now;
  return are && now - *since > kHearing;
}

}  // namespace

Peer::Peer(const std::string& name, std::weak_ptr<const Descriptor> socket)
    : account_(std::make_shared<const Account>(name)), address_(NetworkOf(name)), socket_(std::move(socket)) {}

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

bool Peer::IsBusy(Time now) {
  MutexLock lock(mu_);
  return open_ > 0 || now - last_answer_ < kBetweenCalls;
}

bool Peer::WasAnswered() {
  MutexLock lock(mu_);
  return last_answer_ != Time();
}

bool Peer::IsRenewed() {
  MutexLock lock(mu_);
  if (of_era_[1 - era_] > 0 || !is_changed_) return false;
  is_changed_ = false;
  era_ = 1 - era_;
  return true;
}

Peer::Room Peer::CountCall(int64_t most, int* era) {
  MutexLock lock(mu_);
  *era = era_;
  ++of_era_[era_];
  is_changed_ = true;
  const auto now = std::chrono::steady_clock::now();
  const bool is_flooded = Last(calls_ - open_ >= kTimesUnread * most, now, &unread_since_);
  ++calls_;
  ++open_;
  const bool is_full = Last(open_ > kTimesOpen * most, now, &too_many_since_);
  if (is_flooded && !std::exchange(floods_, true)) return Room::kFlooded;
  return is_full ? Room::kNone : Room::kThereIs;
}

void Peers::Count(Peer& peer, double weight) {
  if (peer.CountReset(weight)) end_(peer.name(), Ending::kResets);
}

void Peers::SentFarTooLongHeaders(Peer& peer) {
  {
    MutexLock lock(peer.mu_);
    if (std::exchange(peer.floods_, true)) return;
  }
  end_(peer.name(), Ending::kHeaders);
}

Guest::Guest(Peers& peers, grpc_call* call) : Guest(peers, peers.Find(call)) {}

Guest::Guest(Peers& peers, PeerPtr peer) : peer_(std::move(peer)) {
  const Peer::Room room = peer_->CountCall(peers.most_calls_, &era_);
  may_stay_ = room != Peer::Room::kNone;
  if (room == Peer::Room::kFlooded) peers.end_(peer_->name(), Ending::kUnreadAnswers);
}

absl::Status Guest::MayStay() const {
  if (may_stay_) return absl::OkStatus();
  return WithInfo(
      absl::ResourceExhaustedError(
          "this connection has far more calls open than one may have; wait until some have ended, or use another connection"),
      reason::kTooManyCalls);
}

void Guest::Leave() {
  if (left_.exchange(true)) return;
  MutexLock lock(peer_->mu_);
  --peer_->open_;
  peer_->last_answer_ = std::chrono::steady_clock::now();
}

void Guest::End() {
  Leave();
  if (ended_.exchange(true)) return;
  MutexLock lock(peer_->mu_);
  --peer_->calls_;
}

void Guest::Go() {
  End();
  if (gone_.exchange(true)) return;
  MutexLock lock(peer_->mu_);
  --peer_->of_era_[era_];
  peer_->is_changed_ = true;
}

Peers::~Peers() {
  for (const auto& [connection, peer] : peers_) grpc_auth_context_release(connection);
}

PeerPtr Peers::Find(grpc_call* call) {
  const Connection connection = grpc_call_auth_context(call);  // Null for calls within the process.
  PeerPtr peer;
  {
    MutexLock lock(mu_);
    PeerPtr& known = peers_[connection];
    if (known != nullptr) {
      grpc_auth_context_release(connection);
    } else {
      const std::unique_ptr<char, decltype(&gpr_free)> name(grpc_call_get_peer(call), &gpr_free);
      known = std::make_shared<Peer>(name.get(),
                                     find_socket_ == nullptr ? std::weak_ptr<const Descriptor>() : find_socket_(name.get()));
    }
    peer = known;
  }
  peer->given_.fetch_add(Peer::kHeaderBytes, std::memory_order_relaxed);
  return peer;
}

absl::flat_hash_map<std::string, Peers::Given> Peers::Look() {
  MutexLock lock(mu_);
  absl::flat_hash_map<std::string, Given> given;
  for (const auto& [connection, peer] : peers_) given[peer->name()] = {peer->given(), peer->IsRenewed()};
  return given;
}

absl::flat_hash_map<std::string, bool> Peers::Busy() {
  MutexLock lock(mu_);
  absl::flat_hash_map<std::string, bool> busy;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [connection, peer] : peers_) {
    if (peer->IsBusy(now)) busy[peer->name()] = peer->WasAnswered();
  }
  return busy;
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

ScopedCork::ScopedCork(std::vector<Peer*> peers) {
  std::sort(peers.begin(), peers.end());
  for (size_t i = 1; i < peers.size(); ++i) {
    if (peers[i] != peers[i - 1] || (!corked_.empty() && corked_.back() == peers[i])) continue;
    peers[i]->Cork(true);
    corked_.push_back(peers[i]);
  }
}

ScopedCork::~ScopedCork() {
  for (Peer* const peer : corked_) peer->Cork(false);
}

}  // namespace gluond::server
