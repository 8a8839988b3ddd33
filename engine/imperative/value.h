// Value: a tensor that is there now, or will be, or never, because its making failed. Immutable once known, so that all
// who hold it see the same: what would change an array makes a new Value. Used by one lane only, or beside it while none
// of its work begins (Lane::GoOnBeside).

#ifndef ENGINE_IMPERATIVE_VALUE_H_
#define ENGINE_IMPERATIVE_VALUE_H_

#include <chrono>
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

// Why values are missing: shared by all that one failure has cost.
struct Failure {
  absl::Status status;
  uint64_t command = 0;  // The number of the caller's command that failed.
  bool told = false;     // The caller's mark: somebody has heard of it.
};
using FailurePtr = std::shared_ptr<Failure>;

// ReadyQueue: work that the lane does next, beside the stack: values that become known set off others, in chains of any
// length. After a while it gives way to what else the lane has to do, and goes on behind that.
class ReadyQueue : public std::enable_shared_from_this<ReadyQueue> {
 public:
  // How long a lane's user holds it while others wait.
  static constexpr std::chrono::microseconds kTurn{500};

  explicit ReadyQueue(Lane& lane) : lane_(lane) {}

  // Does `work`: now, or when what is before it is done; beside the lane, when the lane gets to it.
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
  bool is_taken_up_ = false;  // It runs, or the lane will see to it.
};

class Value {
 public:
  Value() = default;  // Pending.
  explicit Value(Tensor tensor) : known_(true), tensor_(std::move(tensor)) {}
  explicit Value(FailurePtr failure) : known_(true), failure_(std::move(failure)) {}

  bool known() const { return known_; }
  // Null unless it is known to have failed.
  const FailurePtr& failure() const { return failure_; }
  // Requires: known(), and failure() is null.
  const Tensor& tensor() const { return tensor_; }
  // The tensor, for the only holder of this value.
  Tensor Take() { return std::move(tensor_); }

  // Requires: !known().
  void Set(Tensor tensor, ReadyQueue& queue) {
    tensor_ = std::move(tensor);
    Known(queue);
  }
  void Fail(FailurePtr failure, ReadyQueue& queue) {
    failure_ = std::move(failure);
    Known(queue);
  }
  // Requires: !known().
  void Await(std::function<void()> then) { waiting_.push_back(std::move(then)); }

 private:
  void Known(ReadyQueue& queue) {
    known_ = true;
    if (!waiting_.empty()) queue.Do(std::exchange(waiting_, {}));
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
