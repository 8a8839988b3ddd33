#include "server/identity/owners.h"

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"

namespace gluond::server {
namespace {

absl::string_view Outside(absl::string_view name) { return name.substr(TenantPrefix(name).size()); }

absl::string_view Verb(Deed deed) { return deed == Deed::kDelete ? "delete" : deed == Deed::kRead ? "read" : "change"; }

}  // namespace

absl::string_view NameOf(Thing thing) {
  static constexpr absl::string_view kNames[] = {"", "model", "dataset", "checkpoint", "versions", "saved session"};
  return kNames[static_cast<size_t>(thing)];
}

void Owners::Load(Names names) {
  MutexLock lock(mu_);
  owners_ = std::move(names);
}

bool Owners::Exists(const Key& key) const {
  const auto& exists = exists_[Index(key.first)];
  return exists != nullptr && exists(key.second);
}

absl::StatusOr<Owners::ClaimPtr> Owners::May(const IdentityPtr& caller, absl::Span<const Touched> touched) {
  if (caller == nullptr) return nullptr;
  const std::string name = caller->is_anybodys ? "" : caller->name;
  auto claim = std::make_shared<Claim>(*this, name);
  for (const Touched& each : touched) {
    if (each.deed != Deed::kAsk && !each.name.empty()) RETURN_IF_ERROR(MayTouch(*caller, name, each, claim.get()));
  }
  return claim->keys_.empty() ? nullptr : claim;
}

absl::Status Owners::MayTouch(const Identity& caller, const std::string& name, const Touched& touched, Claim* claim) {
  const Key key(touched.thing, touched.name);
  if (touched.deed == Deed::kMake && !Exists(key)) {
    RETURN_IF_ERROR(Begin(key, claim));
    if (!Exists(key)) return absl::OkStatus();
    claim->End(/*made=*/false);  // Another call has just made it.
  }
  if (!strict_ || !Exists(key)) return absl::OkStatus();
  MutexLock lock(mu_);
  return CheckRight(caller, name, touched);
}

absl::Status Owners::Begin(const Key& key, Claim* claim) {
  MutexLock lock(mu_);
  Making& making = making_[key];
  if (making.calls > 0 && making.maker != claim->maker_ && strict_) {
    return absl::AbortedError(
        absl::StrCat("another caller is just making the ", NameOf(key.first), " '", Excerpt(key.second), "'; try again"));
  }
  making.maker = claim->maker_;
  ++making.calls;
  claim->keys_.push_back(key);
  return absl::OkStatus();
}

absl::Status Owners::CheckRight(const Identity& caller, const std::string& name, const Touched& touched) const {
  if (caller.roles.Has(Role::kAdmin)) return absl::OkStatus();
  const Key key(touched.thing, touched.name);
  const auto making = making_.find(key);
  const auto found = owners_.find(key);
  // A thing is there a moment before the call that makes it has ended.
  const std::string owner = making != making_.end() ? making->second.maker : found == owners_.end() ? "" : found->second;
  if (!owner.empty() && owner == name) return absl::OkStatus();
  const bool is_of_his_tenant = TenantPrefix(caller.name) == TenantPrefix(touched.name);
  if (is_of_his_tenant && caller.grants.Allow(touched.deed, Outside(touched.name))) return absl::OkStatus();
  return NoPermission("the ", NameOf(touched.thing), " '", Excerpt(touched.name), "' ",
                      owner.empty() ? "has no owner, and is the admin's" : absl::StrCat("is that of '", Outside(owner), "'"), "; '",
                      Outside(caller.name), "' may not ", Verb(touched.deed),
                      " it (--ownership=strict): ask for a grant in the server's --identities, or choose another name");
}

void Owners::End(Claim& claim, bool made) {
  const std::vector<Key> keys = std::exchange(claim.keys_, {});
  if (keys.empty()) return;
  {
    MutexLock lock(mu_);
    ++changes_;
    for (const Key& key : keys) {
      const auto making = making_.find(key);
      if (--making->second.calls == 0) making_.erase(making);
      if (!made) continue;
      if (claim.maker_.empty()) {
        owners_.erase(key);
      } else {
        owners_[key] = claim.maker_;
      }
    }
  }
  if (made && changed_ != nullptr) changed_();
}

Owners::Names Owners::Take() {
  Names names;
  uint64_t changes = 0;
  {
    MutexLock lock(mu_);
    names = owners_;
    changes = changes_;
  }
  std::vector<Key> gone;
  for (const auto& [key, owner] : names) {
    if (!Exists(key)) gone.push_back(key);
  }
  MutexLock lock(mu_);
  for (const Key& key : gone) {
    if (changes == changes_) owners_.erase(key);  // Else it may be there again by now.
    names.erase(key);
  }
  return names;
}

std::string Owners::OwnerOf(Thing thing, const std::string& name) const {
  MutexLock lock(mu_);
  const auto found = owners_.find({thing, name});
  return found == owners_.end() ? "" : found->second;
}

}  // namespace gluond::server
