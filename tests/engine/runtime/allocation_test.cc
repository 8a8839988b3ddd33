// In steady state a run allocates nothing: not by operator new, malloc, nor from the tensors' allocator. Every call of
// malloc and its kin in this program passes through the counters below.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "tests/engine/runtime/test_ops.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;

[[maybe_unused]] void Count() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// glibc's own names for what is replaced here; operator new calls malloc.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

#if !defined(__SANITIZE_ADDRESS__) && !defined(GLUOND_THREAD_SANITIZER)
void* malloc(size_t n) { return Count(), __libc_malloc(n); }
void* calloc(size_t n, size_t size) { return Count(), __libc_calloc(n, size); }
void* realloc(void* p, size_t n) { return Count(), __libc_realloc(p, n); }
void* aligned_alloc(size_t alignment, size_t n) { return Count(), __libc_memalign(alignment, n); }
void* memalign(size_t alignment, size_t n) { return Count(), __libc_memalign(alignment, n); }
int posix_memalign(void** p, size_t alignment, size_t n) {
  Count();
  *p = __libc_memalign(alignment, n);
  return *p == nullptr ? ENOMEM : 0;
}
#endif
}

namespace gluond {
namespace {

class AllocationTest : public testing::Test {
 protected:
#if defined(__SANITIZE_ADDRESS__) || defined(GLUOND_THREAD_SANITIZER)
  void SetUp() override { GTEST_SKIP() << "the sanitizer has its own malloc"; }
#endif

  // Allocations between Start and the end of `done`, of the third run and those after it. The vectors and the callback
  // are the caller's; they are made before and taken back after.
  int64_t Measure(Executor& executor, std::vector<Tensor> inputs, std::vector<Tensor> outputs, std::vector<OpReqType> reqs = {}) {
    auto run = MakeRun(std::move(inputs), std::move(outputs), std::move(reqs));
    int64_t counted = 0;
    for (int i = 0; i < 10; ++i) {
      if (i > 0) run = executor.TakeRun();
      ended_ = false;
      Executor::Done done = [this](absl::Status status) {
        ok_ = status.ok();
        ended_ = true;
      };
      allocations = 0;
      counting = true;
      executor.Start(std::move(run), std::move(done));
      while (!ended_) std::this_thread::yield();
      counting = false;
      EXPECT_TRUE(ok_);
      if (i >= 3) counted += allocations;
    }
    return counted;
  }

  Bench bench_;
  const NodeEntry x_ = MakeVariable("x");
  const NodeEntry y_ = MakeVariable("y");
  const NodeEntry sum_ = MakeNode("t_add", "sum", {x_, y_});
  const Tensor three_ = bench_.Filled(1000, 3), four_ = bench_.Filled(1000, 4);
  std::atomic<bool> ended_ = false;
  bool ok_ = false;
};

TEST_F(AllocationTest, SteadyStateAllocatesNothing) {
  NodeEntry value = MakeNode("t_scratch", "scratch", {sum_}, {{"bytes", "10000"}});
  for (int i = 0; i < 20; ++i) value = MakeNode("t_square", absl::StrCat("s", i), {value});
  value = MakeNode("t_add", "r", {MakeNode("t_random", "random", {value}), MakeNode("t_square", "square", {value})});
  auto executor = bench_.Compile({value, sum_, x_, value}, 1000);
  const auto out = [this] { return bench_.Filled(1000, 0); };
  EXPECT_EQ(Measure(*executor, {three_, four_}, {out(), out(), out(), out()}), 0);
  EXPECT_EQ(Measure(*executor, {three_, four_}, {out(), out(), out(), out()}, {kAddTo, kAddTo, kAddTo, kAddTo}), 0);
  EXPECT_EQ(Measure(*executor, {three_, four_}, {out(), Tensor(), Tensor(), Tensor()}, {kWriteTo, kNullOp, kNullOp, kNullOp}), 0);
}

TEST_F(AllocationTest, LentMemoryIsUsedAgain) {
  auto executor = bench_.Compile({MakeNode("t_square", "s", {sum_}), sum_}, 1000);
  auto run = MakeRun({three_, four_}, {Tensor(), Tensor()});
  for (int i = 0; i < 10; ++i) {
    if (i > 0) run = executor->TakeRun();
    run.outputs.assign(2, Tensor());
    allocations = 0;
    ended_ = false;
    Executor::Done done = [this](absl::Status) { ended_ = true; };
    counting = true;
    executor->Start(std::move(run), std::move(done));
    while (!ended_) std::this_thread::yield();
    counting = false;
    if (i < 3) continue;
    EXPECT_EQ(allocations, 0);
  }
}

TEST_F(AllocationTest, UpdatesInPlaceAllocateNothing) {
  auto executor = bench_.Compile({MakeNode("t_square", "s", {x_}), MakeNode("t_scale", "t", {y_})}, 1000);
  EXPECT_EQ(Measure(*executor, {bench_.Filled(1000, 1), four_}, {three_, four_}), 0);
}

TEST_F(AllocationTest, SuspendedRunsAllocateNothing) {
  auto executor = bench_.Compile({MakeNode("t_async", "a", {sum_})}, 1000);
  std::atomic<bool> ending = false, called = false;
  Completion completion;
  AsyncHook = [&](const TBlob&, const TBlob&, const Completion& c) {
    completion = c;
    called = true;
    return absl::OkStatus();
  };
  std::thread other([&] {
    while (!ending) {
      if (called.exchange(false)) std::exchange(completion, {})(absl::OkStatus());
      std::this_thread::yield();
    }
  });
  auto run = MakeRun({three_, four_}, {bench_.Filled(1000, 0)}, {}, {});
  run.cancellation = std::make_shared<Cancellation>(Cancellation::Clock::now() + std::chrono::hours(1));
  for (int i = 0; i < 50; ++i) {
    if (i > 0) run = executor->TakeRun();
    ended_ = false;
    Executor::Done done = [this](absl::Status status) {
      ok_ = status.ok();
      ended_ = true;
    };
    allocations = 0;
    counting = true;
    executor->Start(std::move(run), std::move(done));
    while (!ended_) std::this_thread::yield();
    counting = false;
    EXPECT_TRUE(ok_);
    // A call may find the one before it still in its operator's hands, and take another one: twice at most.
    if (i < 40) continue;
    EXPECT_EQ(allocations, 0);
  }
  ending = true;
  other.join();
}

// The counters see what there is to see.
TEST_F(AllocationTest, FindsAPlantedAllocation) {
  auto executor = bench_.Compile({MakeNode("t_plant", "p", {sum_})}, 1000);
  EXPECT_EQ(Measure(*executor, {three_, four_}, {bench_.Filled(1000, 0)}), 7 * 2);  // The vector and its elements.
}

TEST_F(AllocationTest, CountsTensorsToo) {
  counting = true;
  allocations = 0;
  const auto tensor = Tensor::Empty(bench_.allocator(), Shape{1000}, DType::kFloat32);
  counting = false;
  EXPECT_TRUE(tensor.ok());
  EXPECT_GE(allocations, 2);
}

}  // namespace
}  // namespace gluond
