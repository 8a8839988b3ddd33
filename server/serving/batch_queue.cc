#include "server/serving/batch_queue.h"

#include <algorithm>
#include <utility>

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
  *again = Clock::time_point::max();
  if (size_ == 0) return {};
  using Place = std::pair<Requests*, Requests::iterator>;
  std::vector<Place> joined;
  size_t preferred = 0;  // So many of them have a preferred size.
  int64_t rows = 0;
  bool is_full = options_.max_batch_size <= 0;
  std::string kind;
  for (auto& [priority, requests] : by_priority_) {
    for (auto it = requests.begin(); it != requests.end() && !(is_full && !joined.empty()); ++it) {
      if (joined.empty()) kind = (*it)->kind;
      if ((*it)->kind != kind) continue;
      if (!joined.empty() && rows + (*it)->rows > options_.max_batch_size) {
        is_full = true;
        break;
      }
      joined.emplace_back(&requests, it);
      rows += (*it)->rows;
      is_full = is_full || rows >= options_.max_batch_size;
      const auto& sizes = options_.preferred_batch_sizes;
      if (std::find(sizes.begin(), sizes.end(), rows) != sizes.end()) preferred = joined.size();
    }
  }
  Clock::time_point longest = (*joined.front().second)->arrived;
  for (const auto& [requests, it] : joined) longest = std::min(longest, (*it)->arrived);
  const Clock::time_point due = longest + options_.max_queue_delay;
  if (!is_full && now < due) {
    if (preferred == 0) {
      *again = due;
      return {};
    }
    joined.resize(preferred);
  }
  std::vector<InferRequestPtr> batch;
  for (const auto& [requests, it] : joined) {
    batch.push_back(std::move(*it));
    requests->erase(it);
  }
  size_ -= static_cast<int64_t>(batch.size());
  return batch;
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
