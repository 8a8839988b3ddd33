// A team computes every piece once, whoever comes, and leaves threads where they may run.

#include "engine/runtime/team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/runtime/account.h"

namespace gluond {
namespace {

constexpr int kAll = 1000;

std::vector<std::pair<int64_t, int64_t>> PiecesOf(Team& team, int64_t n, int64_t grain) {
  std::mutex mu;
  std::vector<std::pair<int64_t, int64_t>> pieces;
  team.ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mu);
    pieces.emplace_back(begin, end);
  }, kAll);
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

TEST(TeamTest, PiecesDependOnSizesOnly) {
  Team one(1), two(2), five(5);
  EXPECT_EQ(five.count(), 5);
  EXPECT_GE(Team(0).count(), 1);
  struct Case {
    int64_t n, grain;
    size_t pieces;
  };
  for (const Case& c : std::vector<Case>{
           {0, 1, 0}, {1, 1, 1}, {10, 1, 10}, {10, 6, 2}, {10, 100, 1}, {3, 0, 3}, {1000, 1, 63},
           {1 << 20, 1 << 18, 4}}) {
    const auto pieces = PiecesOf(one, c.n, c.grain);
    EXPECT_EQ(pieces.size(), c.pieces) << "n " << c.n << ", grain " << c.grain;
    int64_t at = 0;
    for (const auto& [begin, end] : pieces) {
      EXPECT_EQ(begin, at);
      at = end;
    }
    EXPECT_EQ(at, c.n);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(PiecesOf(two, c.n, c.grain), pieces);
      EXPECT_EQ(PiecesOf(five, c.n, c.grain), pieces);
    }
  }
}

TEST(TeamTest, LoopsOfManyThreadsAndWithinLoops) {
  Team team(3);
  std::atomic<int64_t> sum = 0;
  const auto loop = [&] {
    for (int i = 0; i < 200; ++i) {
      team.ParallelFor(8, 1, [&](int64_t begin, int64_t) {
        team.ParallelFor(4, 1, [&](int64_t inner, int64_t) { sum += begin * 4 + inner; }, kAll);
      }, kAll);
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(loop);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 200 * (31 * 32 / 2));
}

TEST(TeamTest, NoMoreAtATimeThanAsked) {
  Team team(6);
  std::atomic<int> now = 0, most = 0;
  for (int i = 0; i < 50; ++i) {
    team.ParallelFor(30, 1, [&](int64_t, int64_t) {
      const int here = ++now;
      for (int seen = most; here > seen && !most.compare_exchange_weak(seen, here);) {}
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      --now;
    }, 2);
  }
  EXPECT_EQ(most, 2);
}

// A thread that is held by its piece costs that piece alone: the others are done while it is.
TEST(TeamTest, WhoeverRunsTakesTheRest) {
  Team team(2);
  std::atomic<int> done = 0, when_held_ended = -1;
  team.ParallelFor(20, 1, [&](int64_t begin, int64_t) {
    if (begin == 10) {  // The first of the helper's share.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      when_held_ended = done.load();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++done;
  }, kAll);
  EXPECT_EQ(done, 20);
  EXPECT_GE(when_held_ended, 18) << "whoever was not held computed the rest meanwhile";
}

cpu_set_t Mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  return mask;
}

// Beside a busy thread, put-off threads are moved; afterwards every one may run where it might before.
// One account has two loops under way when another one begins its only one.
TEST(TeamTest, HelpersGoToTheAccountWithTheFewestThreads) {
  Team team(5);
  team.ParallelFor(5, 1, [](int64_t, int64_t) {}, kAll);  // There are four helpers from now on.
  std::mutex mu;
  std::condition_variable changed;
  std::string helped;  // The loops whose pieces helpers have begun, in order.
  size_t callers = 0, may_end = 0;
  const auto begin = [&](char loop, AccountPtr account) {
    return std::thread([&, loop, account] {
      const ScopedAccount scope(account);
      const auto caller = std::this_thread::get_id();
      team.ParallelFor(8, 1, [&](int64_t, int64_t) {
        std::unique_lock lock(mu);
        const bool helps = std::this_thread::get_id() != caller;
        helps ? helped.push_back(loop) : static_cast<void>(++callers);
        const size_t turn = helps ? helped.size() : 1000;
        changed.notify_all();
        changed.wait(lock, [&] { return may_end >= turn; });
      }, /*most=*/2);
    });
  };
  const auto wait_for = [&](size_t begun, size_t helpers) {
    std::unique_lock lock(mu);
    changed.wait(lock, [&] { return callers == begun && helped.size() == helpers; });
  };
  const auto let_end = [&](size_t turn) {
    std::lock_guard lock(mu);
    may_end = turn;
    changed.notify_all();
  };
  const auto two = std::make_shared<Account>("two"), one = std::make_shared<Account>("one");
  std::thread first = begin('1', two);
  wait_for(1, 1);
  std::thread second = begin('2', two);
  wait_for(2, 2);
  std::thread other = begin('o', one);
  wait_for(3, 2);  // Five threads compute.
  let_end(1);
  wait_for(3, 3);
  EXPECT_EQ(helped, "12o");
  let_end(1000);
  for (std::thread* each : {&first, &second, &other}) each->join();
}

TEST(TeamTest, ThreadsStayFreeBesideANeighbour) {
  const cpu_set_t all = Mask();
  if (CPU_COUNT(&all) == 1) GTEST_SKIP() << "there is one processor";
  std::atomic<bool> ends = false;
  std::thread neighbour([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&one) == 0; --cpu) {
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    while (!ends) {}
  });
  Team team(0);
  std::atomic<int64_t> pieces = 0;
  for (int i = 0; i < 300; ++i) {
    team.ParallelFor(16, 1, [&](int64_t, int64_t) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
      while (std::chrono::steady_clock::now() < end) {}
      ++pieces;
    }, kAll);
    const cpu_set_t mask = Mask();
    ASSERT_TRUE(CPU_EQUAL(&mask, &all));
  }
  EXPECT_EQ(pieces, 300 * 16);
  ends = true;
  neighbour.join();
}

}  // namespace
}  // namespace gluond
