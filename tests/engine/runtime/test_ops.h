// Operators of the runtime's tests, on float32: each does one thing that the executor must get right.
//
//   t_add(a, b)          a + b; either input may become the output
//   t_scale(x; by)       x * by
//   t_square(x)          x * x; never in place
//   t_split(x)           two outputs: x + 1, x - 1
//   t_bump(x, count)     x; adds 1 to `count`, which it mutates
//   t_random(x)          uniform numbers in x's shape
//   t_scratch(x; bytes)  x, by way of scratch space
//   t_plant(x)           x; allocates in its kernel
//   t_call(x)            x; calls KernelHook
//   t_async(x)           whatever AsyncHook makes of it
//   t_same(x)            x; the same bytes, so that it may be x's memory whoever reads that
//   t_async_bump(x, count)  the same of `count`, which it mutates
//   _copy(x)             x, as the executor needs it

#ifndef TESTS_ENGINE_RUNTIME_TEST_OPS_H_
#define TESTS_ENGINE_RUNTIME_TEST_OPS_H_

#include <functional>
#include <memory>
#include <vector>

#include "engine/core/graph.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/executor_cache.h"
#include "engine/runtime/lane.h"

namespace gluond {

// Called by t_call on the lane.
extern std::function<absl::Status()> KernelHook;
// Called by t_async on the lane. Ends `completion`, then or later, or does not.
extern std::function<absl::Status(const TBlob& in, const TBlob& out, const Completion& completion)> AsyncHook;

// A CPU lane with two threads, an allocator, and short words for tests.
class Bench {
 public:
  Bench();

  Lane& lane() { return *lane_; }
  Allocator& allocator() { return *allocator_; }
  Budget& budget() { return *budget_; }

  Tensor Of(const std::vector<float>& values);
  Tensor Filled(int64_t n, float value);
  // Compiles for variables of n elements; the test ends if that fails.
  std::unique_ptr<Executor> Compile(const std::vector<NodeEntry>& outputs, int64_t n = 3, bool is_train = false);
  // For variables of n elements.
  ExecutorKeyPtr KeyOf(const std::shared_ptr<const Graph>& graph, int64_t n, const ExecutorOptions& options = {});
  // Returns when the lane has done all that was posted before.
  void Drain();

 private:
  std::shared_ptr<Budget> budget_;
  std::unique_ptr<DeviceAllocator> allocator_;
  std::shared_ptr<Lane> lane_;
};

// A Run of these. (In a test's body, `Run` is gtest's.)
Run MakeRun(std::vector<Tensor> inputs, std::vector<Tensor> outputs = {}, std::vector<OpReqType> reqs = {},
            std::shared_ptr<Cancellation> cancellation = nullptr);
std::vector<float> Values(const Tensor& tensor);
Signatures SignatureOf(const std::vector<NodeEntry>& outputs, int64_t n);

}  // namespace gluond

#endif  // TESTS_ENGINE_RUNTIME_TEST_OPS_H_
