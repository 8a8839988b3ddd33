// Which clients Sequences knows whole, which as a number alone, and which it refuses.

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "server/rpc/find_in.h"
#include "server/rpc/sequence.h"

namespace gluond::server {

void Sequences::Recall(const Key& key, Series* series) const {
  const auto silent = silent_.Find(key.model, key.client);
  series->is_rewound = silent.has_value() ? silent->is_rewound : rewound_;
  if (!silent.has_value()) return;
  series->last = series->settled = silent->last;
  series->is_in_part = silent->is_in_part;
  series->durable = silent->is_durable ? silent->last : 0;
}

Holder Sequences::HolderOf(absl::string_view client, std::optional<int64_t>* most) const {
  const absl::string_view prefix = TenantPrefix(client), tenant = TenantOf(client);
  if (most_of_tenant_ != nullptr && !tenant.empty()) *most = most_of_tenant_(tenant);
  if (!most->has_value()) return {"", std::string(tenant)};
  return {std::string(tenant), absl::StrCat(prefix, TenantOf(client.substr(prefix.size())))};
}

Sequences::OfModel& Sequences::AddModel(const std::string& model) {
  const auto [of_model, is_new] = models_.try_emplace(model);
  if (is_new) of_model->second.calls = calls_;
  return of_model->second;
}

absl::Status Sequences::Add(const Key& key) {
  std::optional<int64_t> most;
  Holder holder = HolderOf(key.client, &most);
  RETURN_IF_ERROR(MakeRoomFor(holder, most));
  Series& series = AddModel(key.model).series[key.client];
  Recall(key, &series);
  silent_.Remove(key.model, key.client);
  series.place = holdings_.Add(holder, key);
  series.holder = std::move(holder);
  series.used = Clock::now();
  return absl::OkStatus();
}

void Sequences::Renew(Series& series) {
  series.used = Clock::now();
  holdings_.Renew(series.holder, series.place);
}

void Sequences::EraseIfNew(const Key& key) {
  const Series& series = models_.at(key.model).series.at(key.client);
  if (series.idle() && series.last == 0) Erase(key);
}

void Sequences::Erase(const Key& key) {
  const auto of_model = models_.find(key.model);
  const auto series = of_model->second.series.find(key.client);
  answers_.Drop(&series->second.answers);
  holdings_.Remove(series->second.holder, series->second.place);
  of_model->second.series.erase(series);
  EraseIfEmpty(key.model);
}

void Sequences::EraseIfEmpty(const std::string& model) {
  const OfModel* const found = FindIn(models_, model);
  if (found != nullptr && found->series.empty() && found->pauses.empty()) models_.erase(model);
}

bool Sequences::Silence(const Key& key, bool within_share) {
  const Series& series = models_.at(key.model).series.at(key.client);
  const bool is_durable = series.durable == series.last;
  const SilentClients::Number number = {series.last, series.is_rewound, is_durable, series.is_in_part};
  if (!silent_.Add(key.model, key.client, series.holder.identity, number, within_share)) return false;
  Erase(key);
  return true;
}

absl::Status Sequences::SilenceOldest(const Holdings<Key>::OfIdentity* of, bool within_share) {
  if (of == nullptr) return absl::NotFoundError("there is none");
  for (const Key& key : of->items) {
    if (!models_.at(key.model).series.at(key.client).idle()) continue;
    if (Silence(Key(key), within_share)) return absl::OkStatus();
    return OverLimit("--max_silent_clients", "the last numbers of ", silent_.size(), " silent clients are kept, and the limit of ",
                     "--max_silent_clients leaves no more to this one's identity; use client ids again, or delete models");
  }
  return absl::NotFoundError("all have calls under way");
}

// Within a tenant that has `all` places, all of which are taken.
absl::Status Sequences::TakePlaceWithin(const Holdings<Key>::OfTenant& tenant, const std::string& identity, size_t all) {
  const Holdings<Key>::OfIdentity* const its = FindIn(tenant.identities, identity);
  const size_t own = its == nullptr ? 0 : its->size, identities = tenant.identities.size() + (own == 0);
  if (own < all / identities) {
    const absl::Status taken = SilenceOldest(&tenant.largest(), /*within_share=*/false);
    if (!absl::IsNotFound(taken)) return taken;
  }
  return SilenceOldest(its, /*within_share=*/true);
}

absl::Status Sequences::MakeRoomFor(const Holder& holder, std::optional<int64_t> most) {
  const Holdings<Key>::OfTenant* const tenant = FindIn(holdings_.tenants(), holder.tenant);
  const size_t of_tenant = tenant == nullptr ? 0 : tenant->size;
  if (most.has_value() && tenant != nullptr && static_cast<int64_t>(of_tenant) >= *most) {
    const absl::Status taken = TakePlaceWithin(*tenant, holder.identity, static_cast<size_t>(*most));
    if (!absl::IsNotFound(taken)) return taken;
    return OverLimit("--tenants:clients", "numbered calls of ", of_tenant, " clients of tenant '", holder.tenant,
                     "' run or are recent, and its quota is clients=", *most, "; try again later");
  }
  if (holdings_.size() < max_clients_) return absl::OkStatus();
  absl::Status taken = absl::NotFoundError("nobody has more than his share");
  if (of_tenant < max_clients_ / (holdings_.tenants().size() + (of_tenant == 0))) {
    taken = SilenceOldest(&holdings_.largest().largest(), /*within_share=*/false);
  }
  if (absl::IsNotFound(taken) && tenant != nullptr) taken = TakePlaceWithin(*tenant, holder.identity, of_tenant);
  if (!absl::IsNotFound(taken)) return taken;
  return OverLimit("--max_clients", "numbered calls of ", holdings_.size(),
                   " clients run or are recent, the limit of --max_clients; try again later");
}

void Sequences::SilenceOlderThan(Clock::duration age, const Exists& exists, Clock::time_point now) {
  std::vector<Key> silent;
  absl::flat_hash_map<std::string, bool> there;  // By model.
  {
    MutexLock lock(mu_);
    for (const auto& [tenant, of_tenant] : holdings_.tenants()) {
      for (const auto& [identity, its] : of_tenant.identities) {
        for (const Key& key : its.items) {
          if (now - models_.at(key.model).series.at(key.client).used <= age) break;
          silent.push_back(key);
          there[key.model] = true;
        }
      }
    }
    for (const auto& [model, its] : silent_.models()) there[model] = true;
  }
  for (auto& [model, is_there] : there) is_there = exists(model);
  MutexLock lock(mu_);
  for (const auto& [model, is_there] : there)
    if (!is_there) silent_.RemoveModel(model);
  for (const Key& key : silent) {
    const Series* const series = Find(key.client, key.model);
    if (series == nullptr || !series->idle() || now - series->used <= age) continue;
    there[key.model] ? (void)Silence(key, /*within_share=*/true) : Erase(key);
  }
}

}  // namespace gluond::server
