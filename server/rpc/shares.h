// Shares divides a limit between peers: the connections of one address share half of it, and each of them that holds
// something may hold as much as any other. So the holdings of one client keep no other out. Where connections come
// later than others' holdings, all together may hold some more than the limit, until those are given back.
// A tenant's peers together hold what its quota allows, if the limit has one. Thread-safe. Outlives its permits.
//
//   ASSIGN_OR_RETURN(Shares::Permit permit, requests.Enter(peer, 1, reach.tenant()));

#ifndef SERVER_RPC_SHARES_H_
#define SERVER_RPC_SHARES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "server/identity/tenants.h"
#include "server/net/peers.h"

namespace gluond::server {

class Shares {
 public:
  // `what`: the limited things, in the plural, and `flag`: the limit's flag, for errors. `quota`: a tenant's (Tenant::Most);
  // null: tenants have none.
  Shares(std::string what, int64_t limit, std::string flag, int64_t Quotas::*quota = nullptr)
      : what_(std::move(what)), limit_(limit), flag_(std::move(flag)), quota_(quota) {}

  // A part of the limit that a peer holds, given back when the permit is destroyed.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept { std::swap(part_, other.part_); }
    Permit& operator=(Permit&& other) noexcept {
      std::swap(part_, other.part_);
      return *this;
    }
    ~Permit() {
      if (holds()) part_.shares->Leave(*part_.peer, part_.tenant.get(), part_.amount);
    }

    bool holds() const { return part_.shares != nullptr; }
    // The peer's holdings when this was given, this included.
    int64_t held_by_peer() const { return part_.held_by_peer; }

   private:
    friend class Shares;
    struct Part {
      Shares* shares = nullptr;
      PeerPtr peer;
      TenantPtr tenant;
      int64_t amount = 0;
      int64_t held_by_peer = 0;
    };
    explicit Permit(Part part) : part_(std::move(part)) {}

    Part part_;
  };

  // RESOURCE_EXHAUSTED names the limit and its flag, or the quota. A peer or a tenant without holdings always gets the amount:
  // other limits bound the size of one thing. `tenant`: the caller's tenant; null: the caller has none.
  absl::StatusOr<Permit> Enter(const PeerPtr& peer, int64_t amount, const TenantPtr& tenant = nullptr);

  // All holdings.
  int64_t held() const;

 private:
  struct Holding {
    int64_t amount = 0;
    int64_t permits = 0;
  };
  absl::Status CheckQuota(const Tenant& tenant, int64_t most, int64_t amount) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave(const Peer& peer, const Tenant* tenant, int64_t amount);

  const std::string what_;
  const int64_t limit_;
  const std::string flag_;
  int64_t Quotas::*const quota_;
  mutable Mutex mu_;
  int64_t held_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<const Peer*, Holding> holdings_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, int64_t> active_ ABSL_GUARDED_BY(mu_);  // Peers with holdings, by address.
  absl::flat_hash_map<const Tenant*, int64_t> of_tenants_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_RPC_SHARES_H_
