#include "server/rpc/shares.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"

namespace gluond::server {

absl::StatusOr<Shares::Permit> Shares::Enter(const PeerPtr& peer, int64_t amount) {
  MutexLock lock(mu_);
  const auto [it, is_new] = holdings_.try_emplace(peer.get());
  Holding& holding = it->second;
  int64_t& active = active_[peer->address()];
  if (is_new) {
    ++active;
  } else if (const int64_t share = std::max<int64_t>(1, (limit_ + 1) / 2 / active); amount > share - holding.amount) {
    return OverLimit(flag_, "this connection has ", holding.amount, " ", what_, ", and ", amount, " more exceed its "
                     "share, ", share, ", of the ", limit_, " of ", flag_, "; wait until some have ended, or free "
                     "some");
  }
  holding.amount += amount;
  ++holding.permits;
  held_ += amount;
  return Permit(this, peer, amount, holding.amount);
}

void Shares::Leave(const Peer& peer, int64_t amount) {
  MutexLock lock(mu_);
  held_ -= amount;
  const auto holding = holdings_.find(&peer);
  holding->second.amount -= amount;
  if (--holding->second.permits > 0) return;
  holdings_.erase(holding);
  const auto active = active_.find(peer.address());
  if (--active->second == 0) active_.erase(active);
}

int64_t Shares::held() const {
  MutexLock lock(mu_);
  return held_;
}

}  // namespace gluond::server
