// Shares divides a limit between peers: the connections of one address share half of it, and each of them that holds
// something may hold as much as any other. So the holdings of one client keep no other out. Where connections come
// later than others' holdings, all together may hold some more than the limit, until those are given back.
// Thread-safe. Outlives its permits.
//
//   ASSIGN_OR_RETURN(Shares::Permit permit, requests.Enter(peer, 1));

#ifndef SERVER_RPC_SHARES_H_
#define SERVER_RPC_SHARES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "server/net/peers.h"

namespace gluond::server {

class Shares {
 public:
  // `what`: the limited things, in the plural, and `flag`: the limit's flag, for errors.
  Shares(std::string what, int64_t limit, std::string flag)
      : what_(std::move(what)), limit_(limit), flag_(std::move(flag)) {}

  // A part of the limit that a peer holds, given back when the permit is destroyed.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept
        : shares_(std::exchange(other.shares_, nullptr)), peer_(std::move(other.peer_)), amount_(other.amount_),
          held_by_peer_(other.held_by_peer_) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(shares_, other.shares_);
      std::swap(peer_, other.peer_);
      std::swap(amount_, other.amount_);
      std::swap(held_by_peer_, other.held_by_peer_);
      return *this;
    }
    ~Permit() {
      if (shares_ != nullptr) shares_->Leave(*peer_, amount_);
    }

    bool holds() const { return shares_ != nullptr; }
    // The peer's holdings when this was given, this included.
    int64_t held_by_peer() const { return held_by_peer_; }

   private:
    friend class Shares;
    Permit(Shares* shares, PeerPtr peer, int64_t amount, int64_t held_by_peer)
        : shares_(shares), peer_(std::move(peer)), amount_(amount), held_by_peer_(held_by_peer) {}

    Shares* shares_ = nullptr;
    PeerPtr peer_;
    int64_t amount_ = 0;
    int64_t held_by_peer_ = 0;
  };

  // RESOURCE_EXHAUSTED names the limit and its flag. A peer that holds nothing always gets what it asks for: the size
  // of one thing has limits of its own.
  absl::StatusOr<Permit> Enter(const PeerPtr& peer, int64_t amount);

  // All holdings.
  int64_t held() const;

 private:
  struct Holding {
    int64_t amount = 0;
    int64_t permits = 0;
  };
  void Leave(const Peer& peer, int64_t amount);

  const std::string what_;
  const int64_t limit_;
  const std::string flag_;
  mutable Mutex mu_;
  int64_t held_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<const Peer*, Holding> holdings_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, int64_t> active_ ABSL_GUARDED_BY(mu_);  // Peers with holdings, by address.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_SHARES_H_
