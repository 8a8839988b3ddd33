// Value: a tensor that is there now, or will be, or never, because its making failed. Immutable once known, so that all who
// hold it see the same: what would change an array makes a new Value. Used by one lane only.

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
#include "engine/core/tensor.h"

namespace gluond {

// Why values are missing: shared by all that one failure has cost.
struct Failure {
  absl::Status status;
  uint64_t command = 0;  // Of the caller's, that failed.
  bool told = false;     // The caller's mark: somebody has heard of it.
};
using FailurePtr = std::shared_ptr<Failure>;

// What is to be done next on the lane, beside the stack: values that become known set off others, in chains of any length.
class ReadyQueue {
 public:
  // Does `work`, now or when the work that runs is done.
  void Do(std::function<void()> work) {
    queue_.push_back(std::move(work));
    Run();
  }
  void Do(std::vector<std::function<void()>> work) {
    for (auto& one : work) queue_.push_back(std::move(one));
    Run();
  }

 private:
  void Run() {
    if (std::exchange(running_, true)) return;
    while (!queue_.empty()) {
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      work();
    }
    running_ = false;
  }

  std::deque<std::function<void()>> queue_;
  bool running_ = false;
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
void WhenKnown(const std::vector<ValuePtr>& values, std::function<void()> then);

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_VALUE_H_
