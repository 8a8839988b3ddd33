// Loads: the things that a starting server has in its store, taken up several at once, each as its tenant's work. A thing that
// finds no memory is tried once more when nothing else is under way, as things that fit one after the other may not fit
// together. Thread-safe.
//
//   Loads loads(runner, /*at_once=*/4);
//   loads.Add("digits", [this] { return LoadOne("digits"); }, [](const absl::Status& status) { ... });
//   loads.Wait();

#ifndef SERVER_DURABLE_LOADS_H_
#define SERVER_DURABLE_LOADS_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"
#include "engine/runtime/account.h"
#include "engine/runtime/task.h"
#include "server/rpc/runner.h"

namespace gluond::server {

class Loads {
 public:
  // `runner` is there until Stop returns.
  Loads(Runner& runner, int at_once) : runner_(runner), at_once_(at_once) {}

  // `make` makes the task that loads the thing of a name, which goes on elsewhere before it waits for the disk or a lane.
  // `done` is told its end once, on any thread; never where Stop comes before the beginning.
  using Make = std::function<Task<absl::Status>()>;
  using Done = std::function<void(const absl::Status&)>;

  void Add(const std::string& name, Make make, Done done) {
    std::vector<LoadPtr> next;
    {
      MutexLock lock(mu_);
      if (stopped_) return;
      waiting_.push_back(std::make_shared<Load>(Load{name, std::move(make), std::move(done)}));
      next = TakeNext();
    }
    for (const LoadPtr& each : next) Begin(each);
  }

  // Waits until all have ended.
  void Wait() {
    MutexLock lock(mu_);
    while (under_way_ > 0 || !waiting_.empty() || !again_.empty()) ended_.Wait(mu_);
  }

  // Begins no load any more, and waits for those under way.
  void Stop() {
    MutexLock lock(mu_);
    stopped_ = true;
    waiting_.clear();
    again_.clear();
    while (under_way_ > 0) ended_.Wait(mu_);
  }

 private:
  struct Load {
    std::string name;
    Make make;
    Done done;
    bool is_tried = false;  // The load has been made beside others, without memory enough.
  };
  using LoadPtr = std::shared_ptr<Load>;

  static LoadPtr TakeFirst(std::deque<LoadPtr>& from) {
    const LoadPtr first = std::move(from.front());
    from.pop_front();
    return first;
  }

  // The loads that may begin now. They count as begun.
  std::vector<LoadPtr> TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::vector<LoadPtr> next;
    for (; !waiting_.empty() && under_way_ < at_once_; ++under_way_) next.push_back(TakeFirst(waiting_));
    for (; waiting_.empty() && !again_.empty() && under_way_ == 0; ++under_way_) next.push_back(TakeFirst(again_));
    return next;
  }

  // Pools do one thing at a time for an account: each load has one of its own.
  void Begin(const LoadPtr& load) {
    const TenantPtr tenant = runner_.tenants.OwnerOf(load->name);
    const ScopedAccount account(
        std::make_shared<const Account>(absl::StrCat("loading ", load->name), tenant == nullptr ? nullptr : tenant->group()));
    RunTask<absl::Status>(load->make, [this, load](const absl::Status& status) { Ended(load, status); });
  }

  void Ended(const LoadPtr& load, const absl::Status& status) {
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

  Runner& runner_;
  const int at_once_;
  Mutex mu_;
  CondVar ended_;
  std::deque<LoadPtr> waiting_ ABSL_GUARDED_BY(mu_);
  std::deque<LoadPtr> again_ ABSL_GUARDED_BY(mu_);  // To be made alone.
  int under_way_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace gluond::server

#endif  // SERVER_DURABLE_LOADS_H_
