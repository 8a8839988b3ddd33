// Tenants are the parties that share a server, each with names and quotas of its own: a file with a line for each,
//
//   # name  quotas
//   acme    models=20 bytes=4GiB sessions=8 store_bytes=100GiB requests_per_second=200 lane_share=2
//   globex  models=5
//
// Identities (identities.h) say which tenant a caller belongs to. The default tenant has no name, and no line.
// Thread-safe.

#ifndef SERVER_IDENTITY_TENANTS_H_
#define SERVER_IDENTITY_TENANTS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/mutex.h"
#include "engine/runtime/account.h"
#include "server/identity/lines.h"

namespace gluond::server {

// The most that a tenant may have; 0, where nothing else is said: as much as the server has.
struct Quotas {
  int64_t models = 0;
  int64_t datasets = 0;
  int64_t versions = 0;  // Published ones.
  int64_t sessions = 0;
  int64_t saved_sessions = 0;
  // Without a quota of these, a tenant has half of what the server has (Tenant::Most).
  int64_t clients = 0;              // Clients (per model) with sequence numbers that are remembered.
  int64_t requests = 0;             // Requests at work or waiting.
  int64_t saved_session_bytes = 0;  // Saves in memory; on each device, named sessions with clients that are away.
  int64_t bytes = 0;                // Tensors on each device, and as many of requests, replies and queues.
  int64_t store_bytes = 0;          // On the disk.
  double requests_per_second = 0;
  double lane_share = 1;  // A part of the threads' time, beside others'; the default tenant has 1.
};

class Tenant {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Tenant(const std::string& name);
  const std::string& name() const { return group_->name(); }

  Quotas quotas() const;
  // The quota, or where the tenant's line has none, half of what the server has for all.
  int64_t Most(int64_t Quotas::*quota, int64_t of_all) const;
  void Set(const Quotas& quotas);
  // The group of the accounts of its callers.
  AccountGroupPtr group() const { return group_; }
  // The account of work that is for the tenant and for no connection.
  const AccountPtr& account() const { return account_; }

  // Counts a request. RESOURCE_EXHAUSTED: requests come faster than requests_per_second; tells when one may come. As many
  // as those of a second may come at once.
  absl::Status TakeRequest(Clock::time_point now = Clock::now());

  // Counts a call that has ended. `method`: a word that the server has for it, of which there are as many as methods.
  void Ended(absl::string_view method, absl::StatusCode code);
  // The calls that have ended, by method and code.
  using EndedCalls = std::map<std::pair<std::string, absl::StatusCode>, int64_t>;
  EndedCalls ended() const;

 private:
  const std::shared_ptr<AccountGroup> group_;
  const AccountPtr account_;
  mutable Mutex mu_;
  EndedCalls ended_ ABSL_GUARDED_BY(mu_);
  Quotas quotas_ ABSL_GUARDED_BY(mu_);
  double tokens_ ABSL_GUARDED_BY(mu_) = 0;  // Requests that may come, as of filled_.
  Clock::time_point filled_ ABSL_GUARDED_BY(mu_);
};
using TenantPtr = std::shared_ptr<Tenant>;

// The quota's name in the file, "models", for each quota that is a whole number.
absl::string_view QuotaName(int64_t Quotas::*quota);

// Without a file there is the default tenant alone.
class Tenants {
 public:
  // Reads the file. Before the first call. NOT_FOUND: no such file. INVALID_ARGUMENT: a line, by its number.
  absl::Status Load(std::string path);
  // Takes up a file that has changed; returns whether it has. One that is broken, or has lost all its lines, changes nothing,
  // and the error is told once. Quotas hold for what comes from then on. A tenant whose line is gone lets nobody in; it is
  // the same one, with what it uses, when the line comes back. For one thread at a time.
  absl::StatusOr<bool> Reload();

  // Whether the server has tenants: a file names them.
  bool any() const { return file_.has_value(); }
  // Null: there is no such tenant.
  TenantPtr Find(absl::string_view name) const;
  // The tenant who owns a name, as "acme/digits"; null: the default one does, or nobody.
  TenantPtr OwnerOf(absl::string_view name) const;
  // The account of OwnerOf; null where that is null.
  AccountPtr AccountOf(absl::string_view name) const;
  // Sorted by name.
  std::vector<TenantPtr> List() const;

  // Whether one more thing named `name` is within a quota, `count` of whose kind its owner has. RESOURCE_EXHAUSTED names
  // the quota. `kind` is "model".
  absl::Status CheckCount(absl::string_view name, absl::string_view kind, int64_t Quotas::*quota, int64_t count) const;

 private:
  std::optional<WatchedFile> file_;  // Set before the first call; the rest is used in Reload alone.
  mutable Mutex mu_;
  using ByName = std::map<std::string, TenantPtr, std::less<>>;
  ByName tenants_ ABSL_GUARDED_BY(mu_), gone_ ABSL_GUARDED_BY(mu_);  // Those with a line, and those that had one.
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_TENANTS_H_
