#include "server/custom/shared_operators.h"

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"

namespace gluond::server {
namespace {

constexpr size_t kMostOwned = 10'000;
constexpr int64_t kShareBytes = 512;  // Memory that one name takes, about.

absl::Status NotYours(const std::string& op_type, const std::string& identity) {
  const absl::string_view name = absl::string_view(identity).substr(TenantPrefix(identity).size());
  const std::string owner = identity.empty() ? "a connected client that has not shown your key" : absl::StrCat("'", name, "'");
  return WithInfo(absl::PermissionDeniedError(absl::StrCat(
                      "the shared operator '", Excerpt(op_type), "' belongs to ", owner, "; its owner releases it ",
                      identity.empty() ? "when its stream ends" : "(HostRequest.release)",
                      ", or open the stream with the owner's OpenHost.key or as an admin, or share yours under another name")),
                  reason::kNoPermission);
}

}  // namespace

SharedOperators::OwnerKey SharedOperators::KeyOf(const Sharer& sharer) {
  return {sharer.tenant, sharer.identity.empty() ? absl::StrCat("scope:", sharer.scope) : absl::StrCat("name:", sharer.identity)};
}

bool SharedOperators::MayTake(const Sharer& owner, const Sharer& sharer) {
  const bool is_owner = !owner.identity.empty() && owner.identity == sharer.identity;
  const bool has_its_key = !owner.scope.empty() && owner.scope == sharer.scope;
  return is_owner || has_its_key || sharer.is_admin;
}

absl::Status SharedOperators::Add(const std::string& op_type, const Sharer& owner, absl::FunctionRef<Reservation()> memory) {
  const auto [found, is_new] = owned_.try_emplace(KeyOf(owner));
  Owned& owned = found->second;
  if (is_new) owned.memory = memory();
  absl::Status status;
  if (owned.op_types.size() >= kMostOwned) {
    status = absl::ResourceExhaustedError(absl::StrCat("one client shares at most ", kMostOwned, " operators; release some"));
  }
  if (status.ok()) status = owned.memory.Grow(kShareBytes);
  if (status.ok()) {
    owned.op_types.insert(op_type);
  } else if (owned.op_types.empty()) {
    owned_.erase(found);
  }
  return status;
}

void SharedOperators::Remove(const Name& name) {
  const auto share = shared_.find(name);
  const auto owned = owned_.find(KeyOf(share->second.owner));
  owned->second.op_types.erase(name.second);
  owned->second.memory.Shrink(kShareBytes);
  if (owned->second.op_types.empty()) owned_.erase(owned);
  shared_.erase(share);
}

absl::StatusOr<SharedOperators::Claimed> SharedOperators::Claim(const std::string& op_type, const Sharer& sharer,
                                                                HostChannel* channel, absl::FunctionRef<Reservation()> memory) {
  const Name name(sharer.tenant, op_type);
  Claimed claimed;
  const auto found = shared_.find(name);
  if (found != shared_.end()) {
    const Share& share = found->second;
    if (!MayTake(share.owner, sharer)) return NotYours(op_type, share.owner.identity);
    claimed.is_taken_over = KeyOf(share.owner) != KeyOf(sharer);
    if (share.channel != channel) claimed.before = share.channel;
  }
  if (found == shared_.end() || claimed.is_taken_over) {
    RETURN_IF_ERROR(Add(op_type, sharer, memory));
    if (claimed.is_taken_over) Remove(name);
  }
  shared_[name] = {sharer, channel};
  return claimed;
}

void SharedOperators::Keep(const Name& name, const std::string& identity) {
  if (shared_.contains(name)) return;
  const Sharer owner = {.tenant = name.first, .identity = identity};
  const auto nobody_pays = [] { return Reservation(); };
  if (Add(name.second, owner, nobody_pays).ok()) shared_[name] = {owner, nullptr};
}

absl::StatusOr<HostChannel*> SharedOperators::Release(const std::string& op_type, const Sharer& sharer) {
  const Name name(sharer.tenant, op_type);
  const auto found = shared_.find(name);
  if (found == shared_.end()) {
    return NotFound("nobody shares an operator '", Excerpt(op_type), "'");
  }
  if (!MayTake(found->second.owner, sharer)) return NotYours(op_type, found->second.owner.identity);
  HostChannel* const channel = found->second.channel;
  Remove(name);
  return channel;
}

SharedOperators::Left SharedOperators::Leave(const Sharer& sharer, HostChannel* channel, bool has_its_scope,
                                             absl::FunctionRef<HostChannel*(const std::string& op_type)> heir) {
  Left left;
  const auto owned = owned_.find(KeyOf(sharer));
  if (owned == owned_.end()) return left;
  const bool stays = !sharer.identity.empty() || has_its_scope;
  for (const std::string& op_type : owned->second.op_types) {
    Share& share = shared_.at(Name(sharer.tenant, op_type));
    if (share.channel != nullptr && share.channel != channel) continue;
    if (share.channel != nullptr) left.changed.push_back(op_type);
    share.channel = sharer.identity.empty() ? nullptr : heir(op_type);
    if (!stays) left.released.push_back(op_type);
  }
  for (const std::string& op_type : left.released) Remove(Name(sharer.tenant, op_type));
  return left;
}

HostChannel* SharedOperators::Find(const Name& name, absl::string_view owner) const {
  const auto found = shared_.find(name);
  if (found == shared_.end() || (!owner.empty() && found->second.owner.identity != owner)) return nullptr;
  return found->second.channel;
}

bool SharedOperators::IsOwnedBy(const std::string& op_type, const Sharer& sharer) const {
  const auto found = shared_.find(Name(sharer.tenant, op_type));
  return found != shared_.end() && KeyOf(found->second.owner) == KeyOf(sharer);
}

std::string SharedOperators::OwnerOf(const Name& name) const {
  const auto found = shared_.find(name);
  return found == shared_.end() ? "" : found->second.owner.identity;
}

}  // namespace gluond::server
