#include "server/rpc/shares.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/rpc/find_in.h"

namespace gluond::server {

absl::Status Shares::CheckQuota(const Tenant& tenant, int64_t most, int64_t amount) const {
  const int64_t* const found = FindIn(of_tenants_, &tenant);
  const int64_t held = found == nullptr ? 0 : *found;
  if (held == 0 || amount <= most - held) return absl::OkStatus();
  return OverLimit(absl::StrCat("--tenants:", QuotaName(quota_)), "tenant '", tenant.name(), "' has ", held, " ", what_, ", and ",
                   amount, " more exceed its quota, ", QuotaName(quota_), "=", most, ", of the ", limit_, " of ", flag_,
                   "; wait until some have ended");
}

absl::StatusOr<Shares::Permit> Shares::Enter(const PeerPtr& peer, int64_t amount, const TenantPtr& tenant) {
  const bool has_quota = tenant != nullptr && quota_ != nullptr;
  const int64_t most = has_quota ? tenant->Most(quota_, limit_) : limit_;
  MutexLock lock(mu_);
  if (has_quota) RETURN_IF_ERROR(CheckQuota(*tenant, most, amount));
  const auto [it, is_new] = holdings_.try_emplace(peer.get());
  Holding& holding = it->second;
  int64_t& active = active_[peer->address()];
  if (is_new) {
    ++active;
  } else if (const int64_t share = std::max<int64_t>(1, (limit_ + 1) / 2 / active); amount > share - holding.amount) {
    return OverLimit(flag_, "this connection has ", holding.amount, " ", what_, ", and ", amount, " more exceed its share, ", share,
                     ", of the ", limit_, " of ", flag_, "; wait until some have ended, or free some");
  }
  holding.amount += amount;
  ++holding.permits;
  held_ += amount;
  if (has_quota) of_tenants_[tenant.get()] += amount;
  return Permit({this, peer, has_quota ? tenant : nullptr, amount, holding.amount});
}

void Shares::Leave(const Peer& peer, const Tenant* tenant, int64_t amount) {
  MutexLock lock(mu_);
  held_ -= amount;
  if (const auto found = of_tenants_.find(tenant); found != of_tenants_.end()) {
    found->second -= amount;
    if (found->second == 0) of_tenants_.erase(found);
  }
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
