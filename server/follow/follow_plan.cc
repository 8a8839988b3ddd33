#include "server/follow/follow_plan.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

const VersionIndex& IndexOf(const VersionTable::Indices& indices, const std::string& name) {
  static const auto& none = *new VersionIndex;
  const auto found = indices.find(name);
  return found == indices.end() ? none : found->second;
}

// Whether another try ends as this one did, whatever room there is, and whoever comes back.
bool IsForGood(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ||
         absl::IsAlreadyExists(status) || absl::IsUnimplemented(status);
}

}  // namespace

void FollowPlan::Hear(Indices list) {
  heard_ = true;
  list_ = std::move(list);
  std::erase_if(failures_, [this](const auto& each) {
    const auto& [name, number] = each.first;
    return number != 0 && !IndexOf(list_, name).versions.contains(number);
  });
}

bool FollowPlan::IsPaused(const Key& key, Time now) const {
  const auto found = failures_.find(key);
  return found != failures_.end() && now < found->second.again;
}

bool FollowPlan::Has(const Indices& own, const std::string& name, int64_t number, const VersionFacts& facts) {
  const VersionIndex& index = IndexOf(own, name);
  const auto found = index.versions.find(number);
  return found != index.versions.end() && found->second.checksum == facts.checksum;
}

absl::Status FollowPlan::Conflict(const Indices& own, const FollowStep& fetch) {
  if (!IndexOf(own, fetch.name).versions.contains(fetch.number)) return absl::OkStatus();
  return absl::AlreadyExistsError(
      "this server has another version of that number, of another leader's, or from before the leader lost its store; it goes on. "
      "Start this server with an empty --store_dir to have the leader's");
}

Routes FollowPlan::Wanted(const VersionIndex& leaders, const VersionIndex& own) {
  const auto is_here = [&own](int64_t number) { return own.versions.contains(number); };
  Routes wanted;
  for (const auto& [label, number] : leaders.routes.labels) {
    const auto old = own.routes.labels.find(label);
    if (is_here(number)) {
      wanted.labels[label] = number;
    } else if (old != own.routes.labels.end()) {
      wanted.labels[label] = old->second;
    }
  }
  const bool all = absl::c_all_of(leaders.routes.weights, [&](const auto& each) { return is_here(each.first); });
  wanted.weights = all ? leaders.routes.weights : own.routes.weights;
  return wanted;
}

bool FollowPlan::IsNeeded(const VersionIndex& leaders, const VersionIndex& own, int64_t number) {
  const Routes& routes = own.routes;
  const auto leads_there = [number](const auto& label) { return label.second == number; };
  if (routes.weights.contains(number) || absl::c_any_of(routes.labels, leads_there)) return true;
  if (routes.labels.contains(kStable) || number != own.versions.rbegin()->first || leaders.versions.empty()) return false;
  // Requests that name no version go to the highest one, until the leader's highest one is here.
  const auto& [last, facts] = *leaders.versions.rbegin();
  const auto found = own.versions.find(last);
  return found == own.versions.end() || found->second.checksum != facts.checksum;
}

FollowStep FollowPlan::Next(const Indices& own, Time now) {
  FollowStep last;  // A fetch that lacked room waits until all that makes room is done.
  for (const auto& [name, leaders] : list_) {
    const VersionIndex& mine = IndexOf(own, name);
    for (const auto& [number, facts] : leaders.versions) {
      if (Has(own, name, number, facts)) continue;
      const auto failure = failures_.find({name, number});
      const FollowStep fetch = {FollowStep::kFetch, name, number, facts};
      if (failure == failures_.end()) return fetch;
      if (now < failure->second.again) continue;
      if (!absl::IsResourceExhausted(failure->second.status)) return fetch;
      if (last.kind == FollowStep::kNothing) last = fetch;
    }
    if (mine.versions.empty() || IsPaused({name, 0}, now)) continue;
    const Routes wanted = Wanted(leaders, mine);
    if (wanted != mine.routes || mine.next < leaders.next) return {FollowStep::kRoute, name, 0, {}, wanted, leaders.next};
    for (const auto& [number, facts] : mine.versions) {
      const bool is_retired = number < leaders.next && !leaders.versions.contains(number);
      if (is_retired && !IsNeeded(leaders, mine, number)) return {FollowStep::kDrop, name, number};
    }
  }
  return last;
}

void FollowPlan::Ended(const FollowStep& step, const absl::Status& status, Time now) {
  const Key key(step.name, step.kind == FollowStep::kFetch ? step.number : 0);
  if (status.ok()) {
    failures_.erase(key);
    if (step.kind != FollowStep::kDrop) return;
    for (auto& [fetch, failure] : failures_) {
      if (absl::IsResourceExhausted(failure.status)) failure.again = now;  // There is more room.
    }
    return;
  }
  const auto [failure, is_first] = failures_.try_emplace(key);
  if (!is_first) failure->second.pause = std::min(kLastPause, 2 * failure->second.pause);
  failure->second.status = status;
  failure->second.again = now + failure->second.pause;
}

int64_t FollowPlan::Behind(const Indices& own) const {
  int64_t behind = 0;
  for (const auto& [name, leaders] : list_) {
    behind += absl::c_count_if(leaders.versions, [&](const auto& each) { return !Has(own, name, each.first, each.second); });
  }
  return behind;
}

bool FollowPlan::HasCaughtUp(const Indices& own) const {
  return heard_ && absl::c_all_of(list_, [&](const auto& name) {
           return absl::c_all_of(name.second.versions, [&](const auto& each) {
             const auto failure = failures_.find({name.first, each.first});
             return Has(own, name.first, each.first, each.second) ||
                    (failure != failures_.end() && IsForGood(failure->second.status));
           });
         });
}

}  // namespace gluond::server
