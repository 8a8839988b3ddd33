// A lane does its work in order, on one thread, with its compute threads and scratch space.

#include "engine/runtime/lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <numeric>
#include <thread>

#include "engine/runtime/bump_scratch.h"
#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

using std::chrono::milliseconds;

TEST(LaneTest, WorksInOrderOfPosting) {
  std::vector<int> order;
  {
    Bench bench;
    for (int i = 0; i < 1000; ++i) bench.lane().Post([&order, i] { order.push_back(i); });
  }  // A lane does what is posted before it ends.
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(LaneTest, DoesBeforeItEndsWhatItsWorkBeginsBesideIt) {
  std::vector<int> order;
  {
    Bench bench;
    Lane& lane = bench.lane();
    lane.Post([&] {
      std::this_thread::sleep_for(milliseconds(20));  // Meanwhile somebody ends the lane.
      order.push_back(1);
      lane.PostAside([&] {
        order.push_back(2);
        lane.Post([&] {
          order.push_back(3);
          lane.PostAside([&] { order.push_back(4); });
        });
      });
    });
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST(LaneTest, IsOneThread) {
  Bench bench;
  EXPECT_FALSE(bench.lane().IsCurrent());
  std::promise<bool> inside;
  bench.lane().Post([&] { inside.set_value(bench.lane().IsCurrent()); });
  EXPECT_TRUE(inside.get_future().get());
  EXPECT_EQ(bench.lane().device(), Device());
  EXPECT_EQ(bench.lane().lanes().compute_threads(), 2);
}

TEST(LaneTest, WhatBelongsToItIsForNoOtherThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Bench bench;
  EXPECT_DEATH(bench.lane().CheckHeld(), "is used by another thread");
  std::promise<void> ended;
  bench.lane().Post([&] {
    bench.lane().CheckHeld();
    bench.lane().ContinueAside([&] {
      bench.lane().CheckHeld();
      ended.set_value();
    });
  });
  ended.get_future().wait();
}

TEST(LaneTest, WorkFromManyThreadsIsAllDone) {
  int done = 0;  // The lane's thread's.
  {
    Bench bench;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) bench.lane().Post([&done] { ++done; });
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(done, 4000);
}

TEST(LaneTest, LongWorkRunsBesideIt) {
  Bench bench;
  std::promise<void> finish, finished;
  bench.lane().PostAside([&] {
    finish.get_future().wait();
    bench.lane().Post([&] { finished.set_value(); });
  });
  bench.Drain();  // Goes on meanwhile.
  finish.set_value();
  finished.get_future().wait();
}

TEST(LaneTest, WorkThatGoesOnBesideItHoldsItAndNoOtherLane) {
  const auto budget = std::make_shared<Budget>("test", int64_t{1} << 30, "--test");
  const auto allocator = *DeviceAllocator::Create(Device(), budget);
  const auto lanes = *Lanes::Create(Device(), {.threads = 1}, *allocator);
  const std::shared_ptr<Lane> lane = lanes->Take(), other = lanes->Take();
  std::promise<void> let_go, next;
  std::atomic<bool> has_ended = false;
  lane->Post([&] {
    lane->ContinueAside([&] {
      let_go.get_future().wait();
      has_ended = true;
    });
  });
  lane->Post([&] {
    EXPECT_TRUE(has_ended);
    next.set_value();
  });
  for (int i = 0; i < 3; ++i) {
    std::promise<void> done;
    other->Post([&] { done.set_value(); });
    done.get_future().wait();
  }
  EXPECT_FALSE(has_ended);
  let_go.set_value();
  next.get_future().wait();
  lane->Post([&] { lane->ContinueAside([&] { has_ended = false; }); });
  lanes->Drain();
  EXPECT_FALSE(has_ended) << "and is waited for";
}

struct Tick final : Work {
  void Do() override { at.set_value(Lane::Clock::now()); }
  std::promise<Lane::Clock::time_point> at;
};

TEST(LaneTest, DoesThingsAtTheirTime) {
  Bench bench;
  Tick late, early, never;
  const auto start = Lane::Clock::now();
  bench.lane().Post([&] {
    bench.lane().DoAt(start + milliseconds(40), &late);
    bench.lane().DoAt(start + milliseconds(1), &never);
    bench.lane().DoAt(start + milliseconds(20), &early);
    bench.lane().Forget(&never);
  });
  const auto early_at = early.at.get_future().get();
  const auto late_at = late.at.get_future().get();
  EXPECT_GE(early_at, start + milliseconds(20));
  EXPECT_GE(late_at, start + milliseconds(40));
  EXPECT_GE(late_at, early_at);
  EXPECT_EQ(never.at.get_future().wait_for(milliseconds(0)), std::future_status::timeout);
}

TEST(LaneTest, LanesBesideOthersWaitForNoneOfTheirThreads) {
  const auto memory = *DeviceAllocator::Create(Device(), std::make_shared<Budget>("the test", 1 << 20, "--none"));
  const std::unique_ptr<Lanes> training = *Lanes::Create(Device(), {.threads = 2}, *memory);
  const std::unique_ptr<Lanes> serving = Lanes::CreateBeside(*training, {.urgent = true, .name = "serving"}, *memory);
  EXPECT_EQ(serving->compute_threads(), 2);
  EXPECT_NE(serving->threads(), training->threads()) << "they are two parties of one team";
  const std::shared_ptr<Lane> slow = training->Take(), quick = serving->Take();
  std::promise<void> may_end;
  slow->Post([&] { may_end.get_future().wait(); });
  std::promise<int64_t> computed;
  quick->Post([&] {
    std::atomic<int64_t> sum = 0;
    quick->threads()->ParallelFor(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    computed.set_value(sum);
  });
  EXPECT_EQ(computed.get_future().get(), 100);
  may_end.set_value();
}

TEST(LaneTest, UnknownDevicesAreUnavailable) {
  Bench bench;
  EXPECT_EQ(Lane::Create({DeviceType::kGpu, 99}, {}, bench.allocator()).status().code(), absl::StatusCode::kUnavailable);
}

TEST(BumpScratchTest, ReachesASteadyState) {
  Bench bench;
  BumpScratch scratch(bench.allocator(), **FindDriver(Device()), nullptr);
  for (int i = 0; i < 3; ++i) {
    char* const a = static_cast<char*>(*scratch.Get(100));
    char* const b = static_cast<char*>(*scratch.Get(1000));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
    std::fill(a, a + 100, 1);
    std::fill(b, b + 1000, 2);
    EXPECT_EQ(a[99], 1) << "pieces are apart";
    scratch.Reset();
    EXPECT_EQ(scratch.capacity(), 128u + 1024u);
  }
  EXPECT_TRUE(scratch.Get(0).ok());
  EXPECT_EQ(scratch.Get(~size_t{0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(scratch.Get(size_t{1} << 40).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(BumpScratchTest, KeepsNothingLargeOnACpu) {
  Bench bench;
  BumpScratch scratch(bench.allocator(), **FindDriver(Device()), nullptr);
  const auto use = [&](size_t bytes) {
    ASSERT_TRUE(scratch.Get(1000).ok());
    ASSERT_TRUE(scratch.Get(bytes).ok());
    EXPECT_GE(scratch.capacity(), bytes);
    scratch.Reset();
  };
  use(BumpScratch::kMostKeptBytes / 2);
  EXPECT_EQ(scratch.capacity(), BumpScratch::kMostKeptBytes / 2 + 1024);
  use(64 << 20);
  EXPECT_EQ(scratch.capacity(), BumpScratch::kMostKeptBytes / 2 + 1024) << "and what was kept before is kept";
  use(BumpScratch::kMostKeptBytes);
  EXPECT_EQ(scratch.capacity(), BumpScratch::kMostKeptBytes / 2 + 1024);
  scratch.Release();
  EXPECT_EQ(scratch.capacity(), 0u);
}

// A step reserves what its update may ask for before it writes anything.
TEST(BumpScratchTest, HasWhatIsReserved) {
  Bench bench;
  BumpScratch scratch(bench.allocator(), **FindDriver(Device()), nullptr);
  ASSERT_TRUE(scratch.Reserve(10'000).ok());
  const Tensor rest = *Tensor::Empty(bench.allocator(), {bench.budget().limit() - bench.budget().used()}, DType::kUint8);
  for (int i = 0; i < 3; ++i) {
    scratch.Reset();
    EXPECT_TRUE(scratch.Get(1'000).ok());
    EXPECT_TRUE(scratch.Get(8'900).ok());
    EXPECT_FALSE(scratch.Get(8'900).ok());
  }
  EXPECT_TRUE(scratch.Reserve(10'000).ok());
  EXPECT_EQ(scratch.Reserve(20'000).code(), absl::StatusCode::kResourceExhausted);
}

TEST(LaneTest, AThreadThatHasNothingToDoFreesItsScratchSpace) {
  auto budget = std::make_shared<Budget>("test", int64_t{1} << 30, "--test");
  const auto allocator = *DeviceAllocator::Create(Device(), budget);
  const auto lane = *Lane::Create(Device(), {.threads = 1}, *allocator);
  std::promise<void> done;
  lane->Post([&] {
    OpContext context;
    lane->LendScratch(&context);
    EXPECT_TRUE(context.scratch->Get(1 << 16).ok());
    lane->LendScratch(&context);
    EXPECT_EQ(budget->used(), 1 << 16);
    done.set_value();
  });
  done.get_future().wait();
  for (int i = 0; i < 2000 && budget->used() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(budget->used(), 0);
}

}  // namespace
}  // namespace gluond
