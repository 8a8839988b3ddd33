#include "server/durable/loads.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/runtime/account.h"

namespace gluond::server {

void Loads::Add(const std::string& name, Make make, Done done) {
  std::vector<LoadPtr> next;
  {
    MutexLock lock(mu_);
    if (stopped_) return;
    waiting_.push_back(std::make_shared<Load>(Load{name, std::move(make), std::move(done)}));
    next = TakeNext();
  }
  for (const LoadPtr& each : next) Begin(each);
}

void Loads::Wait() {
  MutexLock lock(mu_);
  while (under_way_ > 0 || !waiting_.empty() || !again_.empty()) ended_.Wait(mu_);
}

void Loads::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  waiting_.clear();
  again_.clear();
  while (under_way_ > 0) ended_.Wait(mu_);
}

Loads::LoadPtr Loads::TakeFirst(std::deque<LoadPtr>& from) {
  const LoadPtr first = std::move(from.front());
  from.pop_front();
  return first;
}

std::vector<Loads::LoadPtr> Loads::TakeNext() {
  std::vector<LoadPtr> next;
  for (; !waiting_.empty() && under_way_ < at_once_; ++under_way_) next.push_back(TakeFirst(waiting_));
  for (; waiting_.empty() && !again_.empty() && under_way_ == 0; ++under_way_) next.push_back(TakeFirst(again_));
  return next;
}

// Pools do one thing at a time for an account: each load has one of its own.
void Loads::Begin(const LoadPtr& load) {
  const TenantPtr tenant = runner_.tenants.OwnerOf(load->name);
  const ScopedAccount account(
      std::make_shared<const Account>(absl::StrCat("loading ", load->name), tenant == nullptr ? nullptr : tenant->group()));
  RunTask<absl::Status>(load->make, [this, load](const absl::Status& status) { Ended(load, status); });
}

void Loads::Ended(const LoadPtr& load, const absl::Status& status) {
  const bool is_last_try = !absl::IsResourceExhausted(status) || std::exchange(load->is_tried, true);
  if (is_last_try) load->done(status);
  std::vector<LoadPtr> next;
  {
    MutexLock lock(mu_);
    if (!is_last_try && !stopped_) again_.push_back(load);
    --under_way_;
    next = TakeNext();
    if (next.empty()) ended_.NotifyAll();  // Nothing of this is used afterwards.
  }
  for (const LoadPtr& each : next) Begin(each);
}

}  // namespace gluond::server
