#include "engine/runtime/fair_order.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gluond {
namespace {

// Time used fades to 1/e within so many seconds.
constexpr double kMemory = 1;
// Less than this much time apart, in seconds, accounts count as equals.
constexpr double kAlike = 1e-3;
// An account that has been idle for so many seconds has nothing to be remembered for.
constexpr double kForgotten = 10;

double Seconds(FairOrder::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double Faded(double used, FairOrder::Clock::duration since) { return used * std::exp(-Seconds(since) / kMemory); }

}  // namespace

void WorkQueue::Push(Work* work) {
  work->next_ = nullptr;
  *tail_ = work;
  tail_ = &work->next_;
}

Work* WorkQueue::Pop() {
  Work* const work = head_;
  head_ = work->next_;
  if (head_ == nullptr) tail_ = &head_;
  return work;
}

bool WorkQueue::Remove(Work* work) {
  for (Work** link = &head_; *link != nullptr; link = &(*link)->next_) {
    if (*link != work) continue;
    *link = work->next_;
    if (work->next_ == nullptr) tail_ = link;
    return true;
  }
  return false;
}

double FairOrder::Tenant::Used(Clock::time_point now) const { return Faded(used, now - at); }

void FairOrder::Add(WorkQueue& queue, Work* work, AccountPtr account, Clock::time_point now) {
  work->account_ = std::move(account);
  work->added_ = now;
  const bool first = queue.empty();
  queue.Push(work);
  ++load_.waiting;
  if (first && !queue.running_) MakeReady(queue, now);
}

void FairOrder::Add(Work* work, AccountPtr account, Clock::time_point now) {
  WorkQueue& own = Find(account, now).own;
  Add(own, work, std::move(account), now);
}

bool FairOrder::Remove(WorkQueue& queue, Work* work) {
  if (queue.empty()) return false;
  Work* const first = queue.head_;
  const AccountPtr account = first->account_;
  if (!queue.Remove(work)) return false;
  work->account_.reset();
  --load_.waiting;
  if (first == work && !queue.running_) {  // The queue was in its account's list, and may be another account's now.
    Tenant& tenant = *tenants_.at(account.get());
    std::erase(tenant.ready, &queue);
    Refresh(tenant);
    if (!queue.empty()) MakeReady(queue, Clock::now());
  }
  return true;
}

std::optional<FairOrder::Piece> FairOrder::Take(Clock::time_point now) {
  Tenant* best = nullptr;
  double least = 0;
  for (Tenant* tenant : able_) {
    const double used = tenant->Used(now) + std::min(tenant->length, longest_.count());
    const bool first = best == nullptr || used < least - kAlike ||
                       (used < least + kAlike && tenant->ready.front()->arrival_ < best->ready.front()->arrival_);
    if (!first) continue;
    best = tenant;
    least = used;
  }
  if (best == nullptr) return std::nullopt;
  came_with_ = best->Used(now);
  came_at_ = now;
  WorkQueue* const queue = best->ready.front();
  best->ready.erase(best->ready.begin());
  best->running = true;
  Refresh(*best);
  queue->running_ = true;
  Work* const work = queue->Pop();
  const Clock::duration waited = now - work->added_;
  --load_.waiting;
  ++load_.taken;
  load_.waited += waited;
  load_.longest = std::max(load_.longest, waited);
  ++running_;
  ++open_;
  return Piece{queue, work, std::move(work->account_), now};
}

void FairOrder::Done(const Piece& piece, Clock::time_point now) {
  Leave(piece, now);
  End(*piece.queue, now);
}

void FairOrder::Leave(const Piece& piece, Clock::time_point now) {
  Tenant& tenant = *tenants_.at(piece.account.get());
  const double length = Seconds(now - piece.begun);
  load_.worked += now - piece.begun;
  tenant.used = tenant.Used(now) + length;
  tenant.at = now;
  tenant.length = (tenant.length + length) / 2;
  tenant.running = false;
  --running_;
  Refresh(tenant);
}

void FairOrder::End(WorkQueue& queue, Clock::time_point now) {
  queue.running_ = false;
  --open_;
  if (!queue.empty()) MakeReady(queue, now);
}

FairOrder::Tenant& FairOrder::Find(const AccountPtr& account, Clock::time_point now) {
  const auto found = tenants_.find(account.get());
  if (found != tenants_.end()) return *found->second;
  ForgetIdle(now);
  auto tenant = std::make_unique<Tenant>();
  tenant->account = account;
  tenant->at = now;
  tenant->length = longest_.count();
  return *(tenants_[account.get()] = std::move(tenant));
}

void FairOrder::ForgetIdle(Clock::time_point now) {
  if (tenants_.size() < forget_at_) return;
  absl::erase_if(tenants_, [now](const auto& entry) {
    const Tenant& tenant = *entry.second;
    return !tenant.running && tenant.ready.empty() && tenant.own.empty() && Seconds(now - tenant.at) > kForgotten;
  });
  forget_at_ = std::max<size_t>(64, 2 * tenants_.size());
}

void FairOrder::MakeReady(WorkQueue& queue, Clock::time_point now) {
  queue.arrival_ = ++arrivals_;
  Tenant& tenant = Find(queue.head_->account_, now);
  if (!tenant.running && tenant.ready.empty()) {
    tenant.used = std::max(tenant.Used(now), Faded(came_with_, now - came_at_));
    tenant.at = now;
  }
  tenant.ready.push_back(&queue);
  Refresh(tenant);
}

// Puts the tenant into the list of those that may begin, or takes it out.
void FairOrder::Refresh(Tenant& tenant) {
  const auto found = std::find(able_.begin(), able_.end(), &tenant);
  if (tenant.may_begin() == (found != able_.end())) return;
  if (tenant.may_begin()) {
    able_.push_back(&tenant);
  } else {
    *found = able_.back();
    able_.pop_back();
  }
}

}  // namespace gluond
