// So many threads at once, in the order in which they came.

#include "engine/runtime/fair_semaphore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

namespace gluond {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

TEST(FairSemaphore, IsInOrder) {
  FairSemaphore turns(1);
  std::mutex mu;
  std::vector<int> order;
  std::latch first_is_in(1), first_may_go(1);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    turns.Do([&] {
      first_is_in.count_down();
      first_may_go.wait();
      order.push_back(0);
    });
  });
  first_is_in.wait();
  for (int i = 1; i < 5; ++i) {
    threads.emplace_back([&, i] {
      turns.Do([&] {
        std::lock_guard lock(mu);
        order.push_back(i);
      });
    });
    std::this_thread::sleep_for(milliseconds(50));  // The order in which they come.
  }
  first_may_go.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST(FairSemaphore, IsForSoManyAtOnce) {
  for (const int at_once : {1, 2, 3}) {
    FairSemaphore turns(static_cast<uint64_t>(at_once));
    std::mutex mu;
    int now = 0, most = 0, done = 0;
    const auto work = [&] {
      {
        std::lock_guard lock(mu);
        most = std::max(most, ++now);
      }
      std::this_thread::sleep_for(milliseconds(1));
      std::lock_guard lock(mu);
      --now, ++done;
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 25; ++n) turns.Do(work);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(most, at_once);
    EXPECT_EQ(done, 8 * 25);
  }
}

TEST(FairSemaphore, PiecesCoverAll) {
  FairSemaphore turns(1);
  for (const int64_t n : {0, 1, 9, 10, 11, 20, 25}) {
    std::vector<int> times(static_cast<size_t>(n));
    int64_t next = 0;
    turns.DoInPieces(n, 10, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin, next);
      EXPECT_LE(end - begin, 10);
      next = end;
      for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(i)];
    });
    EXPECT_THAT(times, testing::Each(1)) << n;
  }
}

TEST(FairSemaphore, OthersHaveTheirTurnBetweenPieces) {
  FairSemaphore turns(1);
  std::atomic<bool> other_had_its_turn = false;
  std::latch first_is_in(1);
  std::thread other([&] {
    first_is_in.wait();
    turns.Do([&] { other_had_its_turn = true; });
  });
  turns.DoInPieces(1000, 1, [&](int64_t begin, int64_t) {
    if (begin == 0) first_is_in.count_down();
    if (!other_had_its_turn) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(begin < 999 || other_had_its_turn);
  });
  other.join();
}

TEST(FairSemaphore, ALongOneHoldsUpNoOtherThatMayGoBesideIt) {
  FairSemaphore turns(2);
  std::latch others_are_done(1);
  std::thread slow([&] { turns.Do([&] { others_are_done.wait(); }); });
  for (int i = 0; i < 10; ++i) turns.Do([] {});
  others_are_done.count_down();
  slow.join();
}

}  // namespace
}  // namespace gluond
