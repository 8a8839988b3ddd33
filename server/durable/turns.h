// Turns: work that waits for the disk, one at a time for each name, in the order of the calls. Work is its caller's
// account's (engine/runtime/account.h), whoever had the turn before. Thread-safe.
//
//   turns_.Run("fashion", [this] { store_.Save(...); });
//   turns_.RunTask<absl::Status>("digits", [this] { return PublishNow("digits"); }, [](absl::Status status) { ... });
//   turns_.Stop();
//
// The disk's threads read and write, and do nothing else. Work that computes, or waits for anybody, is a task. It goes on
// on other threads meanwhile, and says PostedToDisk where it wants to write.

#ifndef SERVER_DURABLE_TURNS_H_
#define SERVER_DURABLE_TURNS_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/core/mutex.h"
#include "engine/runtime/account.h"
#include "engine/runtime/posted.h"
#include "engine/runtime/task.h"
#include "server/rpc/runner.h"

namespace gluond::server {

// co_await PostedToDisk(dispatch): the code that follows reads or writes, for `account`. It runs on a thread of the disk.
inline Posted PostedToDisk(Dispatch& dispatch, AccountPtr account = CurrentAccount()) {
  return Posted([&dispatch, account = std::move(account)](Posted::Work rest) {
    const ScopedAccount owner(account);
    dispatch.Run(Weight::kDisk, std::move(rest));
  });
}

class Turns {
 public:
  // `runner` is there until Stop returns.
  explicit Turns(Runner& runner) : runner_(runner) {}

  // Does the work on a thread of the disk's (rpc/dispatch.h). Returns at once.
  using Work = std::function<void()>;
  void Run(const std::string& name, Work work) {
    Begin(name, [work = std::move(work)](const Hold&) { work(); });
  }

  // The same for a task, which holds the name's turn, and no thread, until it has ended and `done` has returned.
  template <class T>
  void RunTask(const std::string& name, std::function<Task<T>()> make, std::function<void(T)> done) {
    Begin(name, [make = std::move(make), done = std::move(done)](Hold hold) mutable {
      gluond::RunTask<T>(std::move(make), [done = std::move(done), hold = std::move(hold)](T result) mutable {
        std::exchange(done, nullptr)(std::move(result));  // Its call ends before the turn, and before Stop returns.
        hold.reset();
      });
    });
  }

  // Waits for the work under way. Requires: no more comes.
  void Stop() {
    MutexLock lock(mu_);
    while (!turns_.empty()) ended_.Wait(mu_);
  }

 private:
  // A turn lasts until the last copy is gone.
  using Hold = std::shared_ptr<void>;
  using Held = std::function<void(Hold)>;
  struct Turn {
    Held work;
    AccountPtr account;
  };

  void Begin(const std::string& name, Held work) {
    {
      MutexLock lock(mu_);
      std::deque<Turn>& turns = turns_[name];
      turns.push_back({std::move(work), CurrentAccount()});
      if (turns.size() > 1) return;
    }
    Post(name);
  }
  void Post(const std::string& name) {
    runner_.dispatch.Run(Weight::kDisk, [this, name] { RunNext(name); });
  }
  void RunNext(const std::string& name) {
    Hold hold(nullptr, [this, name](void*) { End(name); });
    Held work;
    {
      MutexLock lock(mu_);
      work = std::move(turns_.at(name).front().work);
    }
    work(hold);
    work = nullptr;  // Its call ends before Stop returns.
  }
  void End(const std::string& name) {
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
