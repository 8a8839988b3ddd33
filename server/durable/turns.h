// Turns: work that waits for the disk, one at a time for each name, in the order of the calls. Work is its caller's
// account's (engine/runtime/account.h), whoever had the turn before. Thread-safe.
//
//   turns_.Run("fashion", [this] { store_.Save(...); });
//   turns_.Stop();

#ifndef SERVER_DURABLE_TURNS_H_
#define SERVER_DURABLE_TURNS_H_

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "engine/core/mutex.h"
#include "engine/runtime/account.h"
#include "server/rpc/unary.h"

namespace gluond::server {

class Turns {
 public:
  // `runner` is there until Stop returns.
  explicit Turns(Runner& runner) : runner_(runner) {}

  // Does the work on a thread of the disk's (rpc/dispatch.h). Returns at once.
  using Work = std::function<void()>;
  void Run(const std::string& name, Work work) {
    {
      MutexLock lock(mu_);
      std::deque<Turn>& turns = turns_[name];
      turns.push_back({std::move(work), CurrentAccount()});
      if (turns.size() > 1) return;
    }
    Post(name);
  }

  // Waits for the work under way. Requires: no more comes.
  void Stop() {
    MutexLock lock(mu_);
    while (!turns_.empty()) ended_.Wait(mu_);
  }

 private:
  struct Turn {
    Work work;
    AccountPtr account;
  };

  void Post(const std::string& name) {
    runner_.dispatch.Run(Weight::kDisk, [this, name] { RunNext(name); });
  }
  void RunNext(const std::string& name) {
    Work work;
    {
      MutexLock lock(mu_);
      work = std::move(turns_.at(name).front().work);
    }
    work();
    work = nullptr;  // Its call ends before Stop returns.
    AccountPtr next;
    {
      MutexLock lock(mu_);
      const auto found = turns_.find(name);
      found->second.pop_front();
      if (found->second.empty()) {
        turns_.erase(found);
        ended_.NotifyAll();
        return;
      }
      next = found->second.front().account;
    }
    const ScopedAccount account(std::move(next));
    Post(name);
  }

  Runner& runner_;
  Mutex mu_;
  CondVar ended_;
  std::map<std::string, std::deque<Turn>> turns_ ABSL_GUARDED_BY(mu_);  // By name. The first of each is at work.
};

}  // namespace gluond::server

#endif  // SERVER_DURABLE_TURNS_H_
