// What the tests of engine/imperative share: an Imperative on a lane, with memory that is counted, and short words that
// do one thing each on the lane and wait for it. A second place stands for another device: the CPU again, by another
// name.
//
//   const Array x = bench.Marked(bench.Of({1, 2, 3}));
//   const Array y = bench.Call("square", {}, x);
//   EXPECT_THAT(bench.Values(y), ElementsAre(1, 4, 9));
//
// Registers t_wait(x): twice x, when the test says so (WaitingCalls), whose gradient is t_wait, too; and
// t_no_gradient(x): x.

#ifndef TESTS_ENGINE_IMPERATIVE_IMPERATIVE_BENCH_H_
#define TESTS_ENGINE_IMPERATIVE_IMPERATIVE_BENCH_H_

#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/core/op_context.h"
#include "engine/imperative/imperative.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/lane.h"
#include "gtest/gtest.h"

namespace gluond {

// A call of t_wait that has begun.
struct WaitingCall {
  TBlob in, out;
  Completion completion;

  void Complete();  // Writes the output.
  void Fail(const absl::Status& status) { std::exchange(completion, {})(status); }
};

// The calls of t_wait, in order of their beginning. Thread-safe.
class WaitingCalls {
 public:
  static WaitingCalls& Get();

  void Add(WaitingCall call);
  // Waits for one to begin.
  WaitingCall Next();
  bool empty();

 private:
  std::mutex mu_;
  std::condition_variable added_;
  std::deque<WaitingCall> calls_;
};

class ImperativeBench {
 public:
  explicit ImperativeBench(int64_t budget = int64_t{1} << 30, int64_t most_nodes = 1'000'000);
  ~ImperativeBench();

  Imperative& imperative() { return *imperative_; }
  Scheduler& scheduler() { return *scheduler_; }
  Lane& lane() { return *lane_; }
  // Bytes of tensors in use, on both places.
  int64_t used() { return budget_->used(); }
  Budget& budget() { return *budget_; }
  // What on_failure has heard.
  const std::vector<FailurePtr>& failures() const { return failures_; }

  // Does `f` on the lane, or beside it, and returns its result.
  template <class F>
  auto OnLane(F f) -> decltype(f()) {
    if (lane_->IsCurrent()) return f();
    std::promise<decltype(f())> promise;
    const auto work = [&] {
      if constexpr (std::is_void_v<decltype(f())>) {
        f();
        promise.set_value();
      } else {
        promise.set_value(f());
      }
    };
    lane_->Post([this, work, beside = beside] { beside ? lane_->ContinueAside(work) : work(); });
    return promise.get_future().get();
  }
  // Waits until nothing is pending.
  void Settle();

  Tensor TensorOf(const std::vector<float>& values, Shape shape = {}, bool elsewhere = false);
  // An array that nobody else holds. One row, unless `shape` says otherwise.
  Array Of(const std::vector<float>& values, Shape shape = {}, bool elsewhere = false);
  // On the tape from now on, as an array of the API that has been read while recording.
  Array Marked(Array array, uint64_t gradient = 1);

  // Invokes; the test fails where there is no such call. Arrays moved in are the call's alone.
  std::vector<Array> Outputs(const std::string& op, const AttrDict& attrs, std::vector<Array> inputs,
                             std::vector<std::pair<uint32_t, ValuePtr>>* written = nullptr);
  template <class... Arrays>
  Array Call(const std::string& op, const AttrDict& attrs, Arrays... inputs) {
    std::vector<Array> all;
    (all.push_back(std::move(inputs)), ...);
    return std::move(Outputs(op, attrs, std::move(all)).at(0));
  }
  std::vector<Array> Graph(CachedGraph& graph, std::vector<Array> inputs,
                           std::vector<std::pair<uint32_t, ValuePtr>>* written = nullptr);

  // The gradients of `variables`; the test fails where there are none.
  std::vector<Array> Grad(std::vector<Array> heads, std::vector<Array> variables, std::vector<Array> head_gradients = {});
  // Of every marked array, by Mark::gradient.
  std::map<uint64_t, Array> Backward(std::vector<Array> heads, std::vector<Array> head_gradients = {});
  absl::Status BackwardStatus(std::vector<Array> heads, std::vector<Array> variables = {}, std::vector<Array> head_gradients = {});

  // Waits until the value is known.
  absl::Status Status(const Array& array) { return Status(array.value); }
  absl::Status Status(const ValuePtr& value);
  std::vector<float> Values(const Array& array) { return Values(array.value); }
  std::vector<float> Values(const ValuePtr& value);
  Shape ShapeOf(const Array& array);
  const void* Address(const Array& array);
  bool IsKnown(const Array& array) {
    return OnLane([&] { return array.value->known(); });
  }
  int64_t pending() {
    return OnLane([&] { return scheduler_->pending(); });
  }

  // Of Invoke and Backward, from now on.
  Imperative::Options options{.recording = true, .training = true};
  Imperative::BackwardOptions backward_options;
  // Whether everything is done beside the lane, as a session's long commands are.
  bool beside = false;

 private:
  using Gradients = absl::StatusOr<std::vector<Imperative::Gradient>>;
  Gradients Differentiate(std::vector<Array> heads, std::vector<Array> variables, std::vector<Array> head_gradients);
  void Await(const ValuePtr& value);

  std::shared_ptr<Budget> budget_;
  std::shared_ptr<DeviceAllocator> allocator_, elsewhere_;
  std::shared_ptr<Lane> lane_, other_lane_;
  std::vector<FailurePtr> failures_;
  std::shared_ptr<Scheduler> scheduler_;
  std::unique_ptr<Imperative> imperative_;
};

inline const AttrDict kOne = {{"scalar", "1"}};  // For _plus_scalar.

// Nothing is recorded.
class ImperativeTest : public testing::Test {
 protected:
  ImperativeTest() { bench_.options.recording = false; }

  // A value that the test makes known, and the call that it waits for.
  Array Waiting(float value, WaitingCall* call) {
    Array waiting = bench_.Call("t_wait", {}, bench_.Of({value}));
    *call = WaitingCalls::Get().Next();
    return waiting;
  }
  Array Plus1(Array x) { return bench_.Call("_plus_scalar", kOne, std::move(x)); }

  ImperativeBench bench_;
};

// Everything is recorded, as the bench has it.
class RecordingTest : public testing::Test {
 protected:
  Array Marked(const std::vector<float>& values, uint64_t gradient = 1) { return bench_.Marked(bench_.Of(values), gradient); }
  template <class... Arrays>
  Array Call(const std::string& op, Arrays... inputs) {
    return bench_.Call(op, {}, std::move(inputs)...);
  }
  Array Times(const Array& x, double scalar) { return bench_.Call("_mul_scalar", {{"scalar", std::to_string(scalar)}}, x); }
  std::vector<float> Grad(const Array& y, const Array& x) { return bench_.Values(bench_.Grad({y}, {x})[0]); }
  Array Grad1(const Array& y, const Array& x) { return bench_.Grad({y}, {x})[0]; }

  ImperativeBench bench_;
};

inline constexpr char kNotRecorded[] = "You need to set is_recording to true or use autograd.record()";

}  // namespace gluond

#endif  // TESTS_ENGINE_IMPERATIVE_IMPERATIVE_BENCH_H_
