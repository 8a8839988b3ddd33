// Imperative runs operators on arrays as they come, records them where asked, and computes gradients of what was
// recorded: the engine behind an NDArray API.
//
//   auto imperative = Imperative::Create({{device, &lane, allocator}});
//   Array y = imperative->Invoke(*MakeCall("sigmoid", {}, 1), {x}, {.recording = true}).outputs[0];
//   auto dx = imperative->Backward({y}, {}, {x}, {});
//
// An operator runs within Invoke when its inputs are known; otherwise as soon as they are, while other calls go on.
// What goes wrong makes the outputs fail, and what is computed from them; Invoke itself never fails. What has waited,
// and a gradient of many operators, takes turns with the lane's other users.
//
// All of it belongs to one lane, the first place's: everything is called there, or beside it while none of its work
// begins (Lane::GoOnBeside); what is called beside the lane runs on it later. Calls on arrays of other places run on their
// lanes. What is under way keeps the object alive.

#ifndef ENGINE_IMPERATIVE_IMPERATIVE_H_
#define ENGINE_IMPERATIVE_IMPERATIVE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/device.h"
#include "engine/imperative/array.h"
#include "engine/imperative/call.h"
#include "engine/imperative/graph_call.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/executor_cache.h"
#include "engine/runtime/lane.h"

namespace gluond {

class Imperative : public std::enable_shared_from_this<Imperative> {
 public:
  struct Place {
    Device device;
    Lane* lane;  // Outlives all work.
    std::shared_ptr<Allocator> allocator;
  };
  // `on_failure` hears of each call that fails by itself.
  using OnFailure = std::function<void(const FailurePtr&)>;
  struct Limits {
    int64_t tape_nodes = 1'000'000;  // Recorded calls and their variables. Errors name --max_session_arrays.
  };
  static std::shared_ptr<Imperative> Create(std::vector<Place> places, OnFailure on_failure, const Limits& limits);
  static std::shared_ptr<Imperative> Create(std::vector<Place> places);

  struct Options {
    bool recording = false;  // Where an input's gradient is wanted.
    bool training = false;
    Device device = {};      // Of a call without inputs.
    uint64_t command = 0;    // The caller's number, for failures.
    const std::vector<bool>* wanted = nullptr;  // By output, hidden ones too. Null: the visible ones.
  };
  struct Results {
    std::vector<Array> outputs;  // The visible ones, or, with Options::wanted, all; empty where not wanted.
    std::vector<std::pair<uint32_t, ValuePtr>> written;  // New values of inputs that the call writes.
  };
  // An input that nobody else holds may be overwritten: so move in what is about to be replaced.
  Results Invoke(const CallPtr& call, std::vector<Array> inputs, const Options& options);
  Results InvokeGraph(CachedGraph& graph, std::vector<Array> inputs, const Options& options);

  // The array in memory of `device`: itself where it is known to be there already.
  Array CopyTo(Array array, Device device, const Options& options);
  // `array`'s place on the tape: a marked array that was not recorded gets one.
  void PutOnTape(Array* array) const;

  struct BackwardOptions {
    bool retain_graph = false;
    bool create_graph = false;  // Implies retain_graph.
    bool training = true;
    bool skip_constants = false;  // Leaves out heads that were not recorded.
    std::string stop_at;          // For Pass: the operator whose nodes the caller computes. Empty: none.
    // The array of an Array::state, null if there is none any more: a gradient that writes it reads it as it is then.
    std::function<Array*(uint64_t)> find_state;
    uint64_t command = 0;
  };
  struct Gradient {
    MarkPtr mark;  // Of the variable; null where `variables` were given.
    Array array;
  };
  // The gradients of sum_i head_gradients[i] heads[i] (an empty array: ones): of `variables`, or, when there are none,
  // of every marked array that the heads depend on. FAILED_PRECONDITION: nothing was recorded, or it was freed.
  // INVALID_ARGUMENT: a variable that the heads do not depend on, an operator without gradient on the way, a head
  // gradient that is not like its head.
  absl::StatusOr<std::vector<Gradient>> Backward(absl::Span<const Array> heads, absl::Span<const Array> head_gradients,
                                                 absl::Span<const Array> variables, const BackwardOptions& options);
  // The same in steps: backward_pass.h.
  class Pass;

  // Of the random operators that are called from now on.
  void Seed(uint64_t seed) { seed_ = seed, draws_ = 0; }
  // A value that will never be, because of `status`. on_failure hears of it.
  ValuePtr Failed(const absl::Status& status, uint64_t command);
  // Ends what is under way, with CANCELLED; later calls fail. on_failure hears no more.
  void Cancel();
  // Calls begun that have not come to an end, and what is to be done when they have.
  int64_t pending() const { return pending_ + queue_->size(); }

  // Executors of graphs and of operators that wait, in all.
  int64_t num_compiled() const;

  // Recorded calls and variables that are on the tape.
  int64_t tape_nodes() const { return *tape_nodes_; }
  const Place& home() const { return places_[0]; }
  // Null: no such place.
  const Place* Find(Device device) const;
  ReadyQueue& queue() { return *queue_; }

 private:
  class Memory;
  struct Pending;  // A call between Invoke and its end.
  struct Direct;   // What a call runs on: tensors, away from values, on whichever lane.
  using PendingPtr = std::shared_ptr<Pending>;
  using DirectPtr = std::shared_ptr<Direct>;
  using Ended = std::function<void(const absl::Status&, Direct&)>;

  Imperative(std::vector<Place> places, OnFailure on_failure, const Limits& limits);

  // `now`: within this call, where the inputs are known and the lane is the caller's.
  Results Begin(const CallPtr& call, std::vector<Array> inputs, const Options& options, bool now);
  // A call of a gradient's node. The same one again where an executor would have to be compiled for another.
  CallPtr GradientCall(const NodePtr& node, bool recordable);
  std::shared_ptr<RecordedNode> NewNode() const;
  absl::Status Record(const Call& call, std::vector<Array>& inputs, Pending& pending, Results* results) const;
  // Does the call within this one. False: it takes longer than that, or another lane.
  bool StartHere(Pending& pending);
  void Start(PendingPtr pending);
  void StartThere(PendingPtr pending, const Place& place);
  void StartCopy(PendingPtr pending);
  void StartGraph(DirectPtr direct, const Place& place, Ended ended);
  absl::StatusOr<const Place*> PlaceOf(const Pending& pending) const;
  void Gather(Pending& pending, Direct* direct) const;
  void Finish(Pending& pending, const absl::Status& status, Direct& direct);
  void Fail(Pending& pending, const FailurePtr& failure);
  // The head gradient, or, where it turns out not to be like the head, a failure.
  absl::StatusOr<ValuePtr> LikeHead(const ValuePtr& gradient, const ValuePtr& head, uint64_t command);
  // On the home lane, now if this is it.
  void AtHome(std::function<void()> work);

  const std::vector<Place> places_;
  const OnFailure on_failure_;
  const Limits limits_;
  const std::shared_ptr<std::atomic<int64_t>> tape_nodes_ = std::make_shared<std::atomic<int64_t>>(0);
  const std::shared_ptr<ReadyQueue> queue_;
  uint64_t seed_ = 0;
  uint32_t draws_ = 0;
  int64_t pending_ = 0;
  bool cancelled_ = false;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  std::vector<std::unique_ptr<ExecutorCache>> caches_;  // By place.
  absl::flat_hash_map<std::string, CallPtr> gradient_calls_;
  DirectPtr direct_;                                    // Of the home lane's kernels, which would allocate one each.
};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_IMPERATIVE_H_
