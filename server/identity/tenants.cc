#include "server/identity/tenants.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/stored_name.h"
#include "server/identity/names.h"

namespace gluond::server {
namespace {

// Each metric of a tenant is a series, and each has its turn.
constexpr size_t kMostTenants = 1000;
constexpr double kLeastShare = 0.01, kMostShare = 100;

struct WholeQuota {
  const char* name;
  int64_t Quotas::*quota;
  bool is_bytes = false;
};
constexpr WholeQuota kWholeQuotas[] = {{"models", &Quotas::models},
                                       {"datasets", &Quotas::datasets},
                                       {"versions", &Quotas::versions},
                                       {"sessions", &Quotas::sessions},
                                       {"saved_sessions", &Quotas::saved_sessions},
                                       {"clients", &Quotas::clients},
                                       {"requests", &Quotas::requests},
                                       {"bytes", &Quotas::bytes, true},
                                       {"store_bytes", &Quotas::store_bytes, true},
                                       {"saved_session_bytes", &Quotas::saved_session_bytes, true}};

bool ReadBytes(absl::string_view text, int64_t* bytes) {
  int shift = 0;
  for (const auto& [unit, bits] : {std::pair("KiB", 10), std::pair("MiB", 20), std::pair("GiB", 30), std::pair("TiB", 40)}) {
    if (absl::ConsumeSuffix(&text, unit)) shift = bits;
  }
  if (!absl::SimpleAtoi(text, bytes) || *bytes < 1 || *bytes > std::numeric_limits<int64_t>::max() >> shift) return false;
  *bytes <<= shift;
  return true;
}

bool ReadNumber(absl::string_view text, double least, double most, double* number) {
  return absl::SimpleAtod(text, number) && std::isfinite(*number) && *number >= least && *number <= most;
}

absl::Status ReadQuota(absl::string_view word, Quotas* quotas) {
  const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
  const absl::string_view key = pair.first, value = pair.second;
  const auto want = [&](absl::string_view what) { return Invalid(key, " is '", Excerpt(value), "'; want ", what); };
  for (const WholeQuota& each : kWholeQuotas) {
    if (key != each.name) continue;
    int64_t& quota = quotas->*each.quota;
    if (each.is_bytes) return ReadBytes(value, &quota) ? absl::OkStatus() : want("bytes, as 1000000, 64MiB or 2GiB");
    return absl::SimpleAtoi(value, &quota) && quota >= 1 ? absl::OkStatus() : want("a number of 1 or more");
  }
  if (key == "requests_per_second") {
    return ReadNumber(value, 0.01, 1e9, &quotas->requests_per_second) ? absl::OkStatus() : want("0.01 or more");
  }
  if (key == "lane_share") {
    return ReadNumber(value, kLeastShare, kMostShare, &quotas->lane_share) ? absl::OkStatus()
                                                                           : want(absl::StrCat(kLeastShare, " to ", kMostShare));
  }
  return Invalid("there is no quota '", Excerpt(key),
                 "'; there are models, datasets, versions, sessions, saved_sessions, clients, requests, bytes, store_bytes, "
                 "saved_session_bytes, requests_per_second and lane_share");
}

absl::StatusOr<std::map<std::string, Quotas>> Parse(absl::string_view text) {
  std::map<std::string, Quotas> tenants;
  RETURN_IF_ERROR(ForEachLine("--tenants", text, [&](const std::vector<std::string>& words) -> absl::Status {
    RETURN_IF_ERROR(CheckTenantName(words[0]));
    if (words[0].size() > kLongestTenant) {
      return Invalid("the name has ", words[0].size(), " letters; want ", kLongestTenant,
                     " at most, as a tenant's name leads those of its models and files");
    }
    if (!absl::ascii_isalnum(words[0][0])) return Invalid("the name has to begin with a letter or digit");
    const auto [found, is_new] = tenants.try_emplace(words[0]);
    if (!is_new) return Invalid("an earlier line has the same name");
    if (tenants.size() > kMostTenants) return Invalid("there are more than ", kMostTenants);
    for (size_t i = 1; i < words.size(); ++i) RETURN_IF_ERROR(ReadQuota(words[i], &found->second));
    return absl::OkStatus();
  }));
  return tenants;
}

}  // namespace

absl::string_view QuotaName(int64_t Quotas::*quota) {
  return absl::c_find_if(kWholeQuotas, [&](const WholeQuota& each) { return each.quota == quota; })->name;
}

Tenant::Tenant(const std::string& name)
    : group_(std::make_shared<AccountGroup>(name)),
      account_(std::make_shared<const Account>(absl::StrCat("tenant ", name), group_)) {}

Quotas Tenant::quotas() const {
  MutexLock lock(mu_);
  return quotas_;
}

int64_t Tenant::Most(int64_t Quotas::*quota, int64_t of_all) const {
  const int64_t most = quotas().*quota;
  return most > 0 ? most : PartOfOneTenant(of_all);
}

void Tenant::Set(const Quotas& quotas) {
  MutexLock lock(mu_);
  quotas_ = quotas;
  group_->Set(quotas.lane_share, quotas.bytes > 0 ? quotas.bytes : AccountGroup::kNoLimit);
}

absl::Status Tenant::TakeRequest(Clock::time_point now) {
  double wait = 0;
  {
    MutexLock lock(mu_);
    const double rate = quotas_.requests_per_second;
    if (rate <= 0) return absl::OkStatus();
    const double most = std::max(rate, 1.0), passed = std::chrono::duration<double>(now - filled_).count();
    tokens_ = filled_ == Clock::time_point() ? most : std::min(most, tokens_ + passed * rate);
    filled_ = now;
    if (tokens_ >= 1) {
      tokens_ -= 1;
      return absl::OkStatus();
    }
    wait = (1 - tokens_) / rate;
  }
  return WithInfo(
      absl::ResourceExhaustedError(
          absl::StrFormat("tenant '%s' asks faster than its quota requests_per_second allows; ask again in %.3f s", name(), wait)),
      reason::kLimit,
      {{"flag", "--tenants:requests_per_second"}, {"wait_ms", absl::StrCat(static_cast<int64_t>(std::ceil(wait * 1000)))}});
}

void Tenant::Ended(absl::string_view method, absl::StatusCode code) {
  MutexLock lock(mu_);
  ++ended_[{std::string(method), code}];
}

Tenant::EndedCalls Tenant::ended() const {
  MutexLock lock(mu_);
  return ended_;
}

absl::Status Tenants::Load(std::string path) {
  file_.emplace("--tenants", std::move(path));
  return Reload().status();
}

absl::StatusOr<bool> Tenants::Reload() {
  if (!any()) return false;
  ASSIGN_OR_RETURN(const bool changed, file_->Look());
  if (!changed) return false;
  ASSIGN_OR_RETURN(const auto quotas, Parse(file_->text()));
  MutexLock lock(mu_);
  if (quotas.empty() && !tenants_.empty()) return NoLinesAnyMore(file_->flag());
  gone_.merge(tenants_);
  for (const auto& [name, each] : quotas) {
    if (auto known = gone_.extract(name); !known.empty()) tenants_.insert(std::move(known));
    TenantPtr& tenant = tenants_[name];
    if (tenant == nullptr) tenant = std::make_shared<Tenant>(name);
    tenant->Set(each);
  }
  return true;
}

TenantPtr Tenants::Find(absl::string_view name) const {
  MutexLock lock(mu_);
  const auto found = tenants_.find(name);
  return found == tenants_.end() ? nullptr : found->second;
}

TenantPtr Tenants::OwnerOf(absl::string_view name) const {
  const absl::string_view tenant = TenantOf(name);
  return tenant.empty() ? nullptr : Find(tenant);
}

AccountPtr Tenants::AccountOf(absl::string_view name) const {
  const TenantPtr owner = OwnerOf(name);
  return owner == nullptr ? nullptr : owner->account();
}

std::vector<TenantPtr> Tenants::List() const {
  MutexLock lock(mu_);
  std::vector<TenantPtr> list;
  for (const auto& [name, tenant] : tenants_) list.push_back(tenant);
  return list;
}

absl::Status Tenants::CheckCount(absl::string_view name, absl::string_view kind, int64_t Quotas::*quota, int64_t count) const {
  const TenantPtr owner = OwnerOf(name);
  if (owner == nullptr) return absl::OkStatus();
  const int64_t most = owner->quotas().*quota;
  if (most == 0 || count < most) return absl::OkStatus();
  return OverLimit(absl::StrCat("--tenants:", QuotaName(quota)), "tenant '", owner->name(), "' has ", count, " ", kind,
                   count == 1 ? "" : "s", ", and its quota is ", QuotaName(quota), "=", most, "; end or delete one");
}

}  // namespace gluond::server
