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
#include <vector>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
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
  void Add(const std::string& name, Make make, Done done);

  // Waits until all have ended.
  void Wait();
  // Begins no load any more, and waits for those under way.
  void Stop();

 private:
  struct Load {
    std::string name;
    Make make;
    Done done;
    bool is_tried = false;  // The load has been made beside others, without memory enough.
  };
  using LoadPtr = std::shared_ptr<Load>;

  static LoadPtr TakeFirst(std::deque<LoadPtr>& from);
  // The loads that may begin now. They count as begun.
  std::vector<LoadPtr> TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Begin(const LoadPtr& load);
  void Ended(const LoadPtr& load, const absl::Status& status);

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
