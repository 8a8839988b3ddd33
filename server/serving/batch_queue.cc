#include "server/serving/batch_queue.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"

namespace gluond::server {

absl::Status BatchQueue::Add(InferRequestPtr request) {
  const auto levels = static_cast<uint64_t>(options_.priority_levels);
  if (request->priority > levels) {
    return InField("priority", absl::InvalidArgumentError(absl::StrCat(
                                   "the priority is ", request->priority, "; ",
                                   levels == 0 ? "this version has no priorities: leave it out"
                                               : absl::StrCat("want 1, the highest, to ", levels))));
  }
  if (request->timeout.has_value() && !options_.allow_timeout_override) {
    return InField("timeout", absl::InvalidArgumentError("this version takes no `timeout` from requests; leave it out, or "
                                                         "publish with allow_timeout_override"));
  }
  if (options_.max_batch_size > 0 && request->rows > options_.max_batch_size) {
    return absl::InvalidArgumentError(absl::StrCat("the request has a batch of ", request->rows, " rows, the limit of this "
                                                   "version's max_batch_size is ", options_.max_batch_size));
  }
  if (size_ >= most_) {
    return absl::UnavailableError(absl::StrCat(size_, " requests wait for this version, the limit of ",
                                               options_.max_queue_size > 0 ? "max_queue_size" : "--max_requests",
                                               "; try again later"));
  }
  if (request->priority == 0) request->priority = static_cast<uint64_t>(options_.default_priority);
  const std::chrono::microseconds timeout = request->timeout.value_or(options_.default_timeout);
  if (timeout.count() > 0) request->too_late = request->arrived + timeout;
  by_priority_[request->priority].push_back(std::move(request));
  ++size_;
  return absl::OkStatus();
}

std::vector<InferRequestPtr> BatchQueue::Take(Clock::time_point now, Clock::time_point* again) {
  using Place = std::pair<Requests*, Requests::iterator>;
  struct Group {
    std::vector<Place> joined;
    size_t preferred = 0;  // So many of them have a preferred size.
    int64_t rows = 0;
    bool is_full = false;
    Clock::time_point longest = Clock::time_point::max();
  };
  const auto& sizes = options_.preferred_batch_sizes;
  std::vector<Group> groups;  // By kind, in the order of their leaders.
  absl::flat_hash_map<absl::string_view, size_t> by_kind;
  const auto join = [&](Requests& requests, Requests::iterator it) {
    const InferRequest& request = **it;
    const auto [place, is_new] = by_kind.try_emplace(request.kind, groups.size());
    if (is_new) groups.emplace_back();
    Group& group = groups[place->second];
    if (!group.is_full && !group.joined.empty() && group.rows + request.rows > options_.max_batch_size) group.is_full = true;
    if (group.is_full) return;
    group.joined.emplace_back(&requests, it);
    group.rows += request.rows;
    group.is_full = request.is_alone || group.rows >= options_.max_batch_size;
    group.longest = std::min(group.longest, request.arrived);
    if (std::find(sizes.begin(), sizes.end(), group.rows) != sizes.end()) group.preferred = group.joined.size();
  };
  for (auto& [priority, requests] : by_priority_) {
    for (auto it = requests.begin(); it != requests.end(); ++it) {
      join(requests, it);
      if (groups.front().is_full) break;
    }
    if (!groups.empty() && groups.front().is_full) break;
  }
  *again = Clock::time_point::max();
  for (Group& group : groups) {
    const Clock::time_point due = group.longest + options_.max_queue_delay;
    if (!group.is_full && now < due && group.preferred == 0) {
      *again = std::min(*again, due);
      continue;
    }
    if (!group.is_full && now < due) group.joined.resize(group.preferred);
    std::vector<InferRequestPtr> batch;
    for (const auto& [requests, it] : group.joined) {
      batch.push_back(std::move(*it));
      requests->erase(it);
    }
    size_ -= static_cast<int64_t>(batch.size());
    return batch;
  }
  return {};
}

void BatchQueue::Return(const std::vector<InferRequestPtr>& batch) {
  for (auto it = batch.rbegin(); it != batch.rend(); ++it) {
    (*it)->is_alone = true;
    (*it)->kind = absl::StrCat("alone ", reinterpret_cast<uintptr_t>(it->get()));
    by_priority_[(*it)->priority].push_front(*it);
    ++size_;
  }
}

std::vector<std::pair<InferRequestPtr, absl::Status>> BatchQueue::TakeDead(Clock::time_point now) {
  std::vector<std::pair<InferRequestPtr, absl::Status>> dead;
  for (auto& [priority, requests] : by_priority_) {
    for (auto it = requests.begin(); it != requests.end();) {
      absl::Status status = (*it)->cancellation == nullptr ? absl::OkStatus() : (*it)->cancellation->Check();
      if (status.ok() && (*it)->too_late.has_value() && now >= *(*it)->too_late) {
        status = absl::UnavailableError(absl::StrCat(
            "the request has waited for longer than its timeout, ",
            std::chrono::duration_cast<std::chrono::microseconds>(*(*it)->too_late - (*it)->arrived).count(), " us"));
      }
      if (status.ok()) {
        ++it;
        continue;
      }
      dead.emplace_back(std::move(*it), std::move(status));
      it = requests.erase(it);
      --size_;
    }
  }
  return dead;
}

std::vector<InferRequestPtr> BatchQueue::TakeAll() {
  std::vector<InferRequestPtr> all;
  for (auto& [priority, requests] : by_priority_) {
    for (InferRequestPtr& request : requests) all.push_back(std::move(request));
  }
  by_priority_.clear();
  size_ = 0;
  return all;
}

BatchQueue::Clock::time_point BatchQueue::next_death() const {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [priority, requests] : by_priority_) {
    for (const InferRequestPtr& request : requests) {
      if (request->too_late.has_value()) next = std::min(next, *request->too_late);
    }
  }
  return next;
}

}  // namespace gluond::server
