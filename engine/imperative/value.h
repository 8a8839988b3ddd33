// Value: a tensor that is known now, or will be, or has failed. A known value never changes, so that all its holders
// see the same: a change of an array makes a new Value. Only one lane uses a value, or a thread beside that lane while
// none of its work begins (Lane::ContinueAside).

#ifndef ENGINE_IMPERATIVE_VALUE_H_
#define ENGINE_IMPERATIVE_VALUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/tensor.h"
#include "engine/runtime/lane.h"

namespace gluond {

// Why values are missing. All values that fail for one reason share one Failure.
struct Failure {
  absl::Status status;
  uint64_t command = 0;  // The number of the caller's command that failed.
  bool told = false;     // The caller's mark: somebody has heard of the failure.
};
using FailurePtr = std::shared_ptr<Failure>;

// ReadyQueue: work that the lane does next. A value that becomes known sets off work on others, in chains of any
// length; the queue keeps such chains off the stack. After kReadyTurn (tuning.h) the lane's other work goes first,
// and the queue goes on behind that.
class ReadyQueue : public std::enable_shared_from_this<ReadyQueue> {
 public:
  explicit ReadyQueue(Lane& lane) : lane_(lane) {}

  // Does `work` now, or behind earlier work. A caller beside the lane leaves it to the lane.
  void Do(std::function<void()> work);
  void Do(std::vector<std::function<void()>> work);
  // Does `work` when the lane gets to it.
  void DoLater(std::function<void()> work);
  // Works still to be done.
  int64_t size() const { return static_cast<int64_t>(queue_.size()); }

 private:
  void Run();
  void RunLater();

  Lane& lane_;
  std::deque<std::function<void()>> queue_;
  bool is_taken_up_ = false;  // The queue runs, or the lane will run it.
};

class Value {
 public:
  Value() = default;  // Pending.
  explicit Value(Tensor tensor) : known_(true), tensor_(std::move(tensor)) {}
  explicit Value(FailurePtr failure) : known_(true), failure_(std::move(failure)) {}

  bool known() const { return known_; }
  // Null unless the value is known to have failed.
  const FailurePtr& failure() const { return failure_; }
  // Requires: known(), and failure() is null.
  const Tensor& tensor() const { return tensor_; }
  // The tensor, for the only holder of this value.
  Tensor Take() { return std::move(tensor_); }

  // Requires: !known(). A caller that moves the value in lets go of it before those who wait go on: the last of them may
  // overwrite the tensor.
  static void Set(std::shared_ptr<Value> value, Tensor tensor, ReadyQueue& queue) {
    value->tensor_ = std::move(tensor);
    Known(std::move(value), queue);
  }
  static void Fail(std::shared_ptr<Value> value, FailurePtr failure, ReadyQueue& queue) {
    value->failure_ = std::move(failure);
    Known(std::move(value), queue);
  }
  // Requires: !known().
  void Await(std::function<void()> then) { waiting_.push_back(std::move(then)); }

 private:
  static void Known(std::shared_ptr<Value> value, ReadyQueue& queue) {
    value->known_ = true;
    std::vector<std::function<void()>> waiting = std::exchange(value->waiting_, {});
    value.reset();
    if (!waiting.empty()) queue.Do(std::move(waiting));
  }

  bool known_ = false;
  Tensor tensor_;
  FailurePtr failure_;
  std::vector<std::function<void()>> waiting_;
};
using ValuePtr = std::shared_ptr<Value>;

// Calls `then` when all of `values` are known: now, or from the queue.
void WhenKnown(absl::Span<const ValuePtr> values, std::function<void()> then);

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_VALUE_H_
