// Scheduler runs calls on values: each as soon as its inputs are known, on the lane of the inputs' device, while other
// calls go on. An error makes a call's outputs fail, and all values computed from them; the inputs that the call would
// have written, as states are, stay what they were. Calls that have waited take
// turns with the lane's other users.
//
// A scheduler belongs to one lane, the first place's. Its functions are called on that lane, or beside it while none of
// the lane's work begins (Lane::ContinueAside); a call made beside the lane runs on it later. Calls under way keep the
// scheduler alive.

#ifndef ENGINE_IMPERATIVE_SCHEDULER_H_
#define ENGINE_IMPERATIVE_SCHEDULER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/device.h"
#include "engine/core/kernel_cache.h"
#include "engine/imperative/direct.h"
#include "engine/imperative/prepared_op.h"
#include "engine/imperative/value.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/executor_cache.h"
#include "engine/runtime/lane.h"

namespace gluond {

// A call, the values that it reads, and the values that it will make known.
struct Invocation {
  // Pending values for the inputs that the call writes, and for those outputs that `is_wanted(i)` asks for.
  template <class IsWanted>
  Invocation(PreparedOpPtr prepared, IsWanted is_wanted) : op(std::move(prepared)) {
    out.resize(op->facts().num_outputs);
    for (size_t i = 0; i < out.size(); ++i)
      if (is_wanted(i)) out[i] = std::make_shared<Value>();
    for (size_t i = 0; i < op->facts().mutated.size(); ++i) written.push_back(std::make_shared<Value>());
  }

  using Values = absl::InlinedVector<ValuePtr, 3>;
  PreparedOpPtr op;
  Values in;       // The call may overwrite a value that nobody else holds.
  Values out;      // By output of the call; null: nobody wants it.
  Values written;  // By OpFacts::mutated: the inputs' new values; where the call fails, their old ones.
  bool training = false;
  Device device;         // The place of a call without inputs.
  uint64_t command = 0;  // The caller's number, for failures.
  uint64_t seed = 0;     // As of a Run.
  uint32_t draw = 0;
  std::shared_ptr<Cancellation> cancellation = nullptr;  // Instead of the scheduler's.
};

class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  struct Place {
    Device device;
    Lane* lane;  // Outlives all work.
    std::shared_ptr<Allocator> allocator;
  };
  // `on_failure` hears of each call that fails, but not of calls that fail because an input has failed.
  using OnFailure = std::function<void(const FailurePtr&)>;
  // `most_idle_bytes`: as of each place's ExecutorCache.
  static std::shared_ptr<Scheduler> Create(
      std::vector<Place> places, OnFailure on_failure = [](const FailurePtr&) {},
      int64_t most_idle_bytes = std::numeric_limits<int64_t>::max());

  // Runs the call. `now`: within this function, where the inputs are known and the lane is the caller's.
  void Run(Invocation&& invoked, bool now);
  // Runs an operator within this function on memory of the home device, which nobody else holds where the operator writes it.
  // Requires: the home lane is the caller's, and its device a CPU.
  absl::Status RunInPlace(const PreparedOp& op, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                          absl::Span<const TBlob> out);
  // The call does not run, because of `status`.
  void Refuse(Invocation&& invoked, const absl::Status& status);
  // A value that has failed with `status`. on_failure hears of it.
  ValuePtr Failed(const absl::Status& status, uint64_t command);
  // Ends the calls under way with CANCELLED; later calls fail. on_failure hears nothing more.
  void Cancel();

  // The number of calls that have begun and not ended, and of works that wait in the queue.
  int64_t pending() const { return pending_ + queue_->size(); }
  // Lets go of arrays that are nobody else's, and of what was made of them.
  void DropConstants();
  // Lets go of the executors that nobody uses.
  void ForgetExecutors();
  // The number of executors of graphs and of operators that wait.
  int64_t num_compiled() const;
  const Place& home() const { return places_[0]; }
  // Null: no such place.
  const Place* Find(Device device) const;
  ReadyQueue& queue() { return *queue_; }

 private:
  using InvocationPtr = std::shared_ptr<Invocation>;
  using DirectPtr = std::shared_ptr<DirectRun>;  // A call's tensors, on any lane.

  Scheduler(std::vector<Place> places, OnFailure on_failure, int64_t most_idle_bytes);

  // Runs the call before it returns. False: the call has to wait, or runs on another lane.
  bool StartHere(Invocation& invoked);
  void Start(InvocationPtr invoked);
  void StartThere(InvocationPtr invoked, const Place& place);
  void StartCopy(InvocationPtr invoked);
  // `skips_constants`: there was no memory for the values that follow from the graph's constants.
  void StartGraph(InvocationPtr invoked, DirectPtr direct, const Place& place, bool skips_constants = false);
  // Moves the outputs of the executor's run, which has taken so long, to `direct`.
  absl::Status TakeOutputs(const GraphCall& graph, const Place& place, Lane::Clock::duration took, ExecutorLease& lease,
                           DirectRun* direct) const;
  // An error of a graph tells what takes the memory.
  absl::Status TellOfPaused(const absl::Status& status) const;
  absl::StatusOr<const Place*> PlaceOf(const Invocation& invoked) const;
  size_t NumberOf(const Place& place) const { return static_cast<size_t>(&place - places_.data()); }
  absl::Status CheckCancelled(const Invocation& invoked) const;
  void Gather(Invocation& invoked, DirectRun* direct) const;
  void Finish(Invocation& invoked, const absl::Status& status, DirectRun& direct);
  // The inputs that the call was to write stay as they are `before`; nothing: as the call has them.
  void Fail(Invocation& invoked, const FailurePtr& failure, std::vector<Tensor> before = {});
  // Does `work` on the home lane: now if the caller is on that lane.
  void AtHome(std::function<void()> work);

  const std::vector<Place> places_;
  const OnFailure on_failure_;
  const std::shared_ptr<ReadyQueue> queue_;
  int64_t pending_ = 0;
  bool cancelled_ = false;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  // By place.
  std::vector<std::unique_ptr<ExecutorCache>> caches_;
  std::vector<std::shared_ptr<ConstantTensors>> constants_;
  std::deque<DirectCaches> direct_caches_;  // Used on the places' lanes.
  const std::shared_ptr<const void> paused_ =
      std::make_shared<int>();  // Held by each recorded call that waits for its backward call.
  DirectPtr direct_;            // The home lane's, reused so that a kernel allocates none.
};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_SCHEDULER_H_
