// Registry: the things of one kind that clients share by name: models, datasets. Thread-safe. A removed thing lives on
// until the last call that uses it ends.

#ifndef SERVER_HOSTED_REGISTRY_H_
#define SERVER_HOSTED_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/stored_name.h"
#include "server/identity/tenants.h"

namespace gluond::server {

// The check of a name that a call gives to something new.
// OK for a plain name, and for a tenant's ("acme/digits") where there is such a tenant. `tenants`: null where there are
// none. INVALID_ARGUMENT: as CheckName.
inline absl::Status CheckOwnedName(const Tenants* tenants, absl::string_view kind, absl::string_view name) {
  const bool has_owner = tenants != nullptr && tenants->OwnerOf(name) != nullptr;
  return has_owner ? CheckStoredName(kind, name) : CheckName(kind, name);
}

template <class T>
class Registry {
 public:
  using Ptr = std::shared_ptr<T>;

  // `kind` is "model", `flag` the limit's name for messages, and `quota` a tenant's limit. `tenants` outlives this; null:
  // there are none.
  Registry(std::string kind, int64_t limit, std::string flag, const Tenants* tenants, int64_t Quotas::*quota)
      : kind_(std::move(kind)), limit_(static_cast<size_t>(limit)), flag_(std::move(flag)), tenants_(tenants), quota_(quota) {}

  // NOT_FOUND lists the closest names. UNAVAILABLE, here and where it would be added: it is being loaded.
  absl::StatusOr<Ptr> Find(const std::string& name) const {
    MutexLock lock(mu_);
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    RETURN_IF_ERROR(CheckLoadedLocked(name));
    return WithInfo(NotFound("there is no ", kind_, " '", Excerpt(name), "'", DidYouMean(name, NamesBesideLocked(name))),
                    reason::kNotFound, {{"kind", kind_}, {"name", Excerpt(name)}});
  }

  // Whether there is one of that name, be it that it is still being loaded.
  bool Has(const std::string& name) const {
    MutexLock lock(mu_);
    return values_.contains(name) || loading_.contains(name);
  }

  // Whether `name` could be added now, to be asked before the work of making the value.
  // INVALID_ARGUMENT: the name. ALREADY_EXISTS: unless `replace`. RESOURCE_EXHAUSTED: there are too many.
  absl::Status CanAdd(const std::string& name, bool replace) const {
    RETURN_IF_ERROR(CheckOwnedName(tenants_, kind_, name));
    MutexLock lock(mu_);
    return CanAddLocked(name, replace);
  }
  absl::Status Add(const std::string& name, Ptr value, bool replace) {
    RETURN_IF_ERROR(CheckOwnedName(tenants_, kind_, name));
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CanAddLocked(name, replace));
    values_[name].swap(value);  // The replaced one goes without the lock, with the argument.
    return absl::OkStatus();
  }

  // The store has these, and they are being loaded, until EndLoading says of each that it is there, or cannot be had.
  void BeginLoading(const std::vector<std::string>& names) {
    MutexLock lock(mu_);
    loading_.insert(names.begin(), names.end());
  }
  void EndLoading(const std::string& name) {
    MutexLock lock(mu_);
    loading_.erase(name);
  }
  absl::Status CheckLoaded(const std::string& name) const {
    MutexLock lock(mu_);
    return CheckLoadedLocked(name);
  }
  // Adds one of them. Errors as Add.
  absl::Status AddLoaded(const std::string& name, Ptr value) {
    RETURN_IF_ERROR(CheckOwnedName(tenants_, kind_, name));
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CheckRoomLocked(name, /*replace=*/false));
    values_[name].swap(value);
    return absl::OkStatus();
  }

  // Adds what the store had before the first call; no limit refuses it.
  void Load(const std::string& name, Ptr value) {
    MutexLock lock(mu_);
    values_[name] = std::move(value);
  }

  // Puts `value` in the place of `expected`, or where nothing is when that is null. ALREADY_EXISTS: something else is
  // there by now.
  absl::Status Replace(const std::string& name, const Ptr& expected, Ptr value) {
    RETURN_IF_ERROR(CheckOwnedName(tenants_, kind_, name));
    MutexLock lock(mu_);
    const auto found = values_.find(name);
    const bool as_expected = found == values_.end() ? expected == nullptr : found->second == expected;
    if (!as_expected) {
      return absl::AlreadyExistsError(
          absl::StrCat("another call has just made or deleted the ", kind_, " '", name, "'; look at it, and try again"));
    }
    RETURN_IF_ERROR(CanAddLocked(name, /*replace=*/true));
    values_[name].swap(value);
    return absl::OkStatus();
  }

  // Puts `value` in the place of this very one; null: nothing. ABORTED, with the reason VERSION_CHANGED: something else is
  // there by now.
  absl::Status Exchange(const std::string& name, const Ptr& expected, Ptr value) {
    MutexLock lock(mu_);
    const auto found = values_.find(name);
    if (found == values_.end() || found->second != expected) return Changed(name);
    found->second.swap(value);
    if (found->second == nullptr) values_.erase(found);
    return absl::OkStatus();
  }
  // Removes this very value. NOT_FOUND as Find. ABORTED as Exchange.
  absl::Status Remove(const std::string& name, const Ptr& expected) {
    RETURN_IF_ERROR(Find(name).status());
    return Exchange(name, expected, nullptr);
  }
  // The error about a value of that name which is not the expected one.
  absl::Status Changed(const std::string& name) const {
    return WithInfo(absl::AbortedError(absl::StrCat("the ", kind_, " '", Excerpt(name),
                                                    "' is another one by now than the expected; look at it again")),
                    reason::kVersionChanged);
  }
  // NOT_FOUND as Find.
  absl::StatusOr<Ptr> Remove(const std::string& name) {
    RETURN_IF_ERROR(Find(name).status());
    MutexLock lock(mu_);
    const auto node = values_.extract(name);
    if (node.empty()) return NotFound("there is no ", kind_, " '", Excerpt(name), "'");
    return node.mapped();
  }
  // Removes the values that no call uses and that have `expired`.
  void RemoveIf(const std::function<bool(const T&)>& expired) {
    std::vector<Ptr> removed;
    MutexLock lock(mu_);
    for (auto it = values_.begin(); it != values_.end();) {
      if (it->second.use_count() > 1 || !expired(*it->second)) {
        ++it;
        continue;
      }
      removed.push_back(std::move(it->second));
      it = values_.erase(it);
    }
  }

  std::vector<std::pair<std::string, Ptr>> List() const {
    MutexLock lock(mu_);
    return {values_.begin(), values_.end()};
  }
  size_t size() const {
    MutexLock lock(mu_);
    return values_.size();
  }

 private:
  absl::Status CheckLoadedLocked(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!loading_.contains(name)) return absl::OkStatus();
    return WithInfo(Unavailable("the ", kind_, " '", name, "' is being loaded; try again in a moment"), reason::kLoading);
  }
  absl::Status CanAddLocked(const std::string& name, bool replace) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    RETURN_IF_ERROR(CheckLoadedLocked(name));
    return CheckRoomLocked(name, replace);
  }
  absl::Status CheckRoomLocked(const std::string& name, bool replace) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const bool exists = values_.contains(name);
    if (exists && !replace) {
      return WithInfo(absl::AlreadyExistsError(absl::StrCat("there is a ", kind_, " '", name, "' already; replace or delete it")),
                      reason::kAlreadyExists, {{"kind", kind_}, {"name", name}});
    }
    if (!exists && values_.size() >= limit_) {
      return OverLimit(flag_, "the server holds ", values_.size(), " ", kind_, "s, the limit of ", flag_, "; delete one");
    }
    if (exists || TenantPrefix(name).empty()) return absl::OkStatus();
    return tenants_->CheckCount(name, kind_, quota_, static_cast<int64_t>(NamesBesideLocked(name).size()));
  }
  // The names of the same tenant's things.
  std::vector<std::string> NamesBesideLocked(absl::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const absl::string_view tenant = TenantPrefix(name);
    std::vector<std::string> names;
    for (auto it = values_.lower_bound(std::string(tenant)); it != values_.end() && absl::StartsWith(it->first, tenant); ++it) {
      if (TenantPrefix(it->first) == tenant) names.push_back(it->first);
    }
    return names;
  }

  const std::string kind_;
  const size_t limit_;
  const std::string flag_;
  const Tenants* const tenants_;
  int64_t Quotas::*const quota_;
  mutable Mutex mu_;
  std::map<std::string, Ptr> values_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> loading_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_HOSTED_REGISTRY_H_
