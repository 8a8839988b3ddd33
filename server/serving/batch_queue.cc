#include "server/serving/batch_queue.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

// The turn of a request that goes on although it is late.
constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

}  // namespace

BatchQueue::Who BatchQueue::WhoSent(const InferRequest& request) {
  return {request.caller, request.caller.empty() ? request.account : nullptr};
}

absl::Status BatchQueue::Add(InferRequestPtr request) {
  if (options_.max_batch_size > 0 && request->rows > options_.max_batch_size) {
    return Invalid("the request has a batch of ", request->rows, " rows, the limit of this version's max_batch_size is ",
                   options_.max_batch_size);
  }
  if (request->priority == 0 || request->priority > static_cast<uint64_t>(options_.priority_levels)) {
    request->priority = static_cast<uint64_t>(options_.default_priority);
  }
  Level& level = by_priority_[request->priority];
  const auto waiting = static_cast<int64_t>(level.requests.size());
  if (waiting >= most_ && !MakeRoomFor(WhoSent(*request), level)) {
    return Unavailable(waiting, " requests ", options_.priority_levels > 0 ? "of this priority " : "",
                       "wait for this version, the limit of ", options_.max_queue_size > 0 ? "max_queue_size" : "--max_requests",
                       "; try again later");
  }
  std::chrono::microseconds timeout = options_.default_timeout;
  if (options_.allow_timeout_override && request->timeout.has_value()) {
    timeout = timeout.count() > 0 ? std::min(timeout, *request->timeout) : *request->timeout;
  }
  if (timeout.count() > 0) request->too_late = request->arrived + timeout;
  Enter(std::move(request));
  return absl::OkStatus();
}

void BatchQueue::Enter(InferRequestPtr request) {
  Level& level = by_priority_[request->priority];
  Level::Caller& caller = level.callers[WhoSent(*request)];
  request->turn = std::max(level.turn, caller.next);
  caller.next = request->turn + request->rows;
  ++caller.waiting;
  auto place = level.requests.end();
  while (place != level.requests.begin() && (*std::prev(place))->turn > request->turn) --place;
  level.requests.insert(place, std::move(request));
  ++size_;
}

void BatchQueue::Left(Level& level, const InferRequest& request) {
  const auto caller = level.callers.find(WhoSent(request));
  if (--caller->second.waiting == 0) level.callers.erase(caller);
  --size_;
}

bool BatchQueue::MakeRoomFor(const Who& caller, Level& level) {
  const auto its = level.callers.find(caller);
  Who most = caller;
  int64_t count = its == level.callers.end() ? 1 : its->second.waiting + 1;  // With the request that comes.
  for (const auto& [each, who] : level.callers) {
    if (who.waiting <= count) continue;
    most = each;
    count = who.waiting;
  }
  if (most == caller) return false;
  const auto last = std::find_if(level.requests.rbegin(), level.requests.rend(),
                                 [&](const InferRequestPtr& request) { return WhoSent(*request) == most; });
  Left(level, **last);
  gave_way_.emplace_back(
      std::move(*last),
      Unavailable("the version's queue is full, and the request gave way to one of another caller: ", count, " of the ", most_,
                  " requests that may wait were this caller's; send fewer at once, or raise max_queue_size"));
  level.requests.erase(std::next(last).base());
  return true;
}

Batch BatchQueue::Take(Clock::time_point now, Clock::time_point* again) {
  using Place = std::pair<Level*, Requests::iterator>;
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
  const auto join = [&](Level& level, Requests::iterator it) {
    const InferRequest& request = **it;
    const auto [place, is_new] = by_kind.try_emplace(request.kind, groups.size());
    if (is_new) groups.emplace_back();
    Group& group = groups[place->second];
    if (!group.is_full && !group.joined.empty() && group.rows + request.rows > options_.max_batch_size) group.is_full = true;
    if (group.is_full) return;
    group.joined.emplace_back(&level, it);
    group.rows += request.rows;
    group.is_full = request.is_alone || group.rows >= options_.max_batch_size;
    group.longest = std::min(group.longest, request.arrived);
    if (absl::c_linear_search(sizes, group.rows)) group.preferred = group.joined.size();
  };
  for (auto& [priority, level] : by_priority_) {
    for (auto it = level.requests.begin(); it != level.requests.end(); ++it) {
      join(level, it);
      if (groups.front().is_full) break;
    }
    if (!groups.empty() && groups.front().is_full) break;
  }
  *again = Clock::time_point::max();
  const auto delay = hurries_ ? std::chrono::microseconds(0) : options_.max_queue_delay;
  for (Group& group : groups) {
    const Clock::time_point due = group.longest + delay;
    if (!group.is_full && now < due && group.preferred == 0) {
      *again = std::min(*again, due);
      continue;
    }
    if (!group.is_full && now < due) group.joined.resize(group.preferred);
    Batch batch;
    for (const auto& [level, it] : group.joined) {
      if (batch.empty() && (*it)->turn != kLast) level->turn = std::max(level->turn, (*it)->turn);
      Left(*level, **it);
      batch.push_back(std::move(*it));
      level->requests.erase(it);
    }
    return batch;
  }
  return {};
}

void BatchQueue::Return(const Batch& batch) {
  for (auto it = batch.rbegin(); it != batch.rend(); ++it) {
    (*it)->is_alone = true;
    (*it)->kind = absl::StrCat("alone ", reinterpret_cast<uintptr_t>(it->get()));
    Level& level = by_priority_[(*it)->priority];
    (*it)->turn = 0;
    ++level.callers[WhoSent(**it)].waiting;
    level.requests.push_front(*it);
    ++size_;
  }
}

absl::Status BatchQueue::WhyDead(const InferRequest& request, Clock::time_point now) {
  if (request.cancellation != nullptr) RETURN_IF_ERROR(request.cancellation->Check());
  if (!request.too_late.has_value() || now < *request.too_late) return absl::OkStatus();
  const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(*request.too_late - request.arrived);
  return Unavailable("the request has waited for longer than its timeout, ", waited.count(), " us");
}

BatchQueue::Dead BatchQueue::TakeDead(Clock::time_point now) {
  Dead dead = std::exchange(gave_way_, {});
  for (auto& [priority, level] : by_priority_) {
    Requests late;
    for (auto it = level.requests.begin(); it != level.requests.end();) {
      const auto each = it++;
      absl::Status status = WhyDead(**each, now);
      if (status.ok()) continue;
      if (options_.delay_late_requests && absl::IsUnavailable(status)) {
        (*each)->too_late.reset();
        (*each)->turn = kLast;
        late.splice(late.end(), level.requests, each);
        continue;
      }
      Left(level, **each);
      dead.emplace_back(std::move(*each), std::move(status));
      level.requests.erase(each);
    }
    level.requests.splice(level.requests.end(), late);
  }
  return dead;
}

std::vector<InferRequestPtr> BatchQueue::TakeAll() {
  std::vector<InferRequestPtr> all;
  for (auto& [request, status] : gave_way_) all.push_back(std::move(request));
  gave_way_.clear();
  for (auto& [priority, level] : by_priority_) {
    for (InferRequestPtr& request : level.requests) all.push_back(std::move(request));
  }
  by_priority_.clear();
  size_ = 0;
  return all;
}

BatchQueue::Clock::time_point BatchQueue::next_death() const {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [priority, level] : by_priority_) {
    for (const InferRequestPtr& request : level.requests) {
      if (request->too_late.has_value()) next = std::min(next, *request->too_late);
    }
  }
  return next;
}

std::shared_ptr<Cancellation> CancelledTogether(const Batch& batch) {
  auto deadline = InferRequest::Clock::time_point::min();
  for (const InferRequestPtr& request : batch) {
    if (request->cancellation == nullptr) return nullptr;
    deadline = std::max(deadline, request->cancellation->deadline());
  }
  if (batch.size() == 1) return batch.front()->cancellation;
  const auto all = std::make_shared<Cancellation>(deadline);
  const auto left = std::make_shared<std::atomic<size_t>>(batch.size());
  for (const InferRequestPtr& request : batch) {
    request->wake = [all, left] {
      if (--*left == 0) all->Cancel();
    };
    if (!request->cancellation->Listen(request.get())) request->wake();
  }
  return all;
}

bool IsWanted(const Batch& batch) {
  return absl::c_any_of(batch, [](const InferRequestPtr& request) {
    return request->cancellation == nullptr || request->cancellation->Check().ok();
  });
}

}  // namespace gluond::server
