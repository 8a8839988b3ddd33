#include "server/custom/providers.h"

#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
#include "server/custom/scope.h"

namespace gluond::server {
namespace {

constexpr size_t kMostOffers = 10'000;
constexpr int64_t kOfferBytes = 512;  // Memory that one takes, by which its name is found.
constexpr int kInstanceBits = 40;     // Bits of a forward pass's own number; the rest tells its client.

}  // namespace

std::string Describe(const CustomOperator& op) { return absl::StrCat("custom operator '", Excerpt(op.op_type), "'"); }

std::shared_ptr<HostChannel> CustomProviders::Add(std::unique_ptr<Provider> provider) {
  provider->tag = absl::HashOf(provider->sharer.scope) >> (kInstanceBits + 1);
  HostChannel*& channel = by_scope_[provider->sharer.scope];
  std::shared_ptr<HostChannel> before;
  if (channel != nullptr) before = providers_.at(channel)->channel;
  channel = provider->channel.get();
  providers_[channel] = std::move(provider);
  return before;
}

CustomProviders::Provider* CustomProviders::Find(HostChannel* channel) const {
  const auto found = providers_.find(channel);
  return found == providers_.end() ? nullptr : found->second.get();
}

CustomProviders::Provider* CustomProviders::FindScope(const std::string& scope) const {
  const auto found = by_scope_.find(scope);
  return found == by_scope_.end() ? nullptr : Find(found->second);
}

std::unique_ptr<CustomProviders::Provider> CustomProviders::Remove(HostChannel* channel, SharedOperators::Left* left) {
  const auto node = providers_.extract(channel);
  if (node.empty()) return nullptr;
  const Sharer& sharer = node.mapped()->sharer;
  const auto scope = by_scope_.find(sharer.scope);
  const bool has_its_scope = scope != by_scope_.end() && scope->second != channel;  // Another stream does.
  if (scope != by_scope_.end() && !has_its_scope) by_scope_.erase(scope);
  *left = shared_.Leave(sharer, channel, has_its_scope, [&](const std::string& op_type) { return HeirOf(sharer, op_type); });
  return std::move(node.mapped());
}

absl::StatusOr<CustomProviders::Changed> CustomProviders::Offer(Provider& provider, const std::string& op_type, bool is_shared) {
  const bool is_new = !provider.offered.contains(op_type);
  if (is_new && provider.offered.size() >= kMostOffers) {
    return absl::ResourceExhaustedError(absl::StrCat("a client offers at most ", kMostOffers, " operators"));
  }
  if (is_new) RETURN_IF_ERROR(provider.memory.Grow(kOfferBytes));
  Changed changed;
  if (is_shared) {
    const absl::StatusOr<SharedOperators::Claimed> claimed =
        shared_.Claim(op_type, provider.sharer, provider.channel.get(), provider.new_memory);
    if (!claimed.ok()) {
      if (is_new) provider.memory.Shrink(kOfferBytes);
      return claimed.status();
    }
    changed.offered = claimed->is_taken_over ? Offered::kTakenOver : Offered::kShared;
    if (claimed->before != nullptr) changed.before = providers_.at(claimed->before)->channel;
  }
  uint64_t& shared_at = provider.offered[op_type];
  if (is_shared) shared_at = ++last_share_;
  return changed;
}

absl::StatusOr<std::shared_ptr<HostChannel>> CustomProviders::Release(const Provider& releasing, const std::string& op_type) {
  ASSIGN_OR_RETURN(HostChannel* const computed, shared_.Release(op_type, releasing.sharer));
  for (const auto& [channel, provider] : providers_) {
    const auto offered = provider->offered.find(op_type);
    if (provider->sharer.tenant == releasing.sharer.tenant && offered != provider->offered.end()) offered->second = 0;
  }
  if (computed == nullptr || computed == releasing.channel.get()) return nullptr;
  return providers_.at(computed)->channel;
}

HostChannel* CustomProviders::HeirOf(const Sharer& sharer, const std::string& op_type) const {
  HostChannel* heir = nullptr;
  uint64_t last = 0;
  for (const auto& [channel, provider] : providers_) {
    if (provider->sharer.tenant != sharer.tenant || provider->sharer.identity != sharer.identity) continue;
    const auto offered = provider->offered.find(op_type);
    if (offered == provider->offered.end() || offered->second <= last) continue;
    heir = channel;
    last = offered->second;
  }
  return heir;
}

absl::Status CustomProviders::NobodyComputes(const std::string& scope, const std::string& op_type, absl::string_view owner) const {
  std::string hint;
  if (IsOfNoClient(scope)) {
    const auto outside = [](absl::string_view name) { return name.substr(TenantPrefix(name).size()); };
    const std::string now = shared_.OwnerOf({scope, op_type});
    hint = !owner.empty() && now != owner ? absl::StrCat("; its version was published with that of '", outside(owner),
                                                         "', who does not share it now; publish it again to have another one's")
           : now.empty()                  ? "; its client must share it"
                         : absl::StrCat("; it is that of '", outside(now), "', whose client must come back or release it");
  }
  return WithInfo(Unavailable("custom operator '", Excerpt(op_type), "': no client that computes it is connected", hint),
                  reason::kProviderGone, {{"operator", Excerpt(op_type)}});
}

absl::StatusOr<CustomProviders::Provider*> CustomProviders::Find(const std::string& scope, const std::string& op_type, bool offered,
                                                                 absl::string_view owner) const {
  Provider* const provider = IsOfNoClient(scope) ? Find(shared_.Find({scope, op_type}, owner)) : FindScope(scope);
  if (provider != nullptr && (!offered || provider->offered.contains(op_type))) return provider;
  return NobodyComputes(scope, op_type, owner);
}

absl::StatusOr<CustomProviders::Provider*> CustomProviders::Find(const CustomOperator& op) const {
  return Find(op.scope, op.op_type, /*offered=*/true, op.owner);
}

// A shared name may have been taken over since the forward pass got its number: one client computes both passes.
absl::StatusOr<CustomProviders::Provider*> CustomProviders::Find(const CustomCall& call) const {
  const std::string& owner = call.op.owner;
  if (call.kind == CustomCall::kFunction || !IsOfNoClient(call.op.scope)) {
    return Find(call.op.scope, call.op.op_type, call.kind != CustomCall::kFunction, owner);
  }
  for (const auto& [channel, provider] : providers_) {
    const auto offered = provider->offered.find(call.op.op_type);
    if (provider->tag != call.instance >> kInstanceBits || offered == provider->offered.end()) continue;
    if (offered->second == 0) continue;  // It is offered to the client's own graphs alone.
    if (provider->sharer.tenant != call.op.scope || (!owner.empty() && provider->sharer.identity != owner)) continue;
    return provider.get();
  }
  if (call.kind == CustomCall::kForward) return Find(call.op);
  return WithInfo(Unavailable("backward of ", Describe(call.op),
                              ": the client that computed its forward pass is not connected any more; run the forward pass again"),
                  reason::kProviderGone, {{"operator", Excerpt(call.op.op_type)}});
}

uint64_t CustomProviders::NextInstance(const CustomOperator& op) {
  const absl::StatusOr<Provider*> provider = Find(op);
  const uint64_t number = ++last_instance_ & ((uint64_t{1} << kInstanceBits) - 1);
  return number | (provider.ok() ? (*provider)->tag << kInstanceBits : 0);
}

bool CustomProviders::IsShared(const std::string& scope, const std::string& op_type) const {
  const absl::StatusOr<Provider*> provider = Find(scope, op_type, /*offered=*/true, "");
  return provider.ok() && (*provider)->offered.at(op_type) > 0 && shared_.IsOwnedBy(op_type, (*provider)->sharer);
}

absl::StatusOr<std::string> CustomProviders::OwnerOf(const std::string& tenant, const std::string& op_type) const {
  if (!shared_.IsOwned({tenant, op_type})) return NobodyComputes(tenant, op_type, "");
  return shared_.OwnerOf({tenant, op_type});
}

}  // namespace gluond::server
