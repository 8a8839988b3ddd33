// A team computes every piece once, whoever comes, and leaves threads where they may run.

#include "engine/runtime/team.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

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
  team.ParallelFor(
      n, grain,
      [&](int64_t begin, int64_t end) {
        std::lock_guard lock(mu);
        pieces.emplace_back(begin, end);
      },
      kAll);
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
           {0, 1, 0}, {1, 1, 1}, {10, 1, 10}, {10, 6, 2}, {10, 100, 1}, {3, 0, 3}, {1000, 1, 63}, {1 << 20, 1 << 18, 4}}) {
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
      team.ParallelFor(
          8, 1,
          [&](int64_t begin, int64_t) {
            team.ParallelFor(
                4, 1, [&](int64_t inner, int64_t) { sum += begin * 4 + inner; }, kAll);
          },
          kAll);
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
    team.ParallelFor(
        30, 1,
        [&](int64_t, int64_t) {
          const int here = ++now;
          for (int seen = most; here > seen && !most.compare_exchange_weak(seen, here);) {
          }
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          --now;
        },
        2);
  }
  EXPECT_EQ(most, 2);
}

// A thread that is held by its piece costs that piece alone: the others are done while it is.
TEST(TeamTest, WhoeverRunsTakesTheRest) {
  Team team(2);
  std::atomic<int> done = 0, when_held_ended = -1;
  team.ParallelFor(
      20, 1,
      [&](int64_t begin, int64_t) {
        if (begin == 10) {  // The first of the helper's share.
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          when_held_ended = done.load();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++done;
      },
      kAll);
  EXPECT_EQ(done, 20);
  EXPECT_GE(when_held_ended, 18) << "whoever was not held computed the rest meanwhile";
}

cpu_set_t Mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  return mask;
}

void Work(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

std::chrono::nanoseconds ProcessorTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Loops whose pieces are held until a test lets them end: those that helpers have begun, in their order.
class HeldLoops {
 public:
  // A caller, whose pieces go on until all may end.
  std::thread Begin(char loop, Threads& team, int most, AccountPtr account = nullptr) {
    return std::thread([this, loop, &team, most, account] {
      const ScopedAccount scope(account);
      const auto caller = std::this_thread::get_id();
      team.ParallelFor(
          8, 1,
          [&](int64_t, int64_t) {
            std::unique_lock lock(mu_);
            const bool helps = std::this_thread::get_id() != caller;
            helps ? helped_.push_back(loop) : static_cast<void>(++callers_);
            const size_t turn = helps ? helped_.size() : 1000;
            changed_.notify_all();
            changed_.wait(lock, [&] { return may_end_ >= turn; });
          },
          most);
    });
  }
  // Waits for so many callers and helpers' pieces to have begun. The loops of the pieces.
  std::string Await(size_t callers, size_t helpers) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return callers_ == callers && helped_.size() == helpers; });
    return helped_;
  }
  // The first so many of helpers' pieces end. 1000: all pieces do.
  void LetEnd(size_t turn) {
    std::lock_guard lock(mu_);
    may_end_ = turn;
    changed_.notify_all();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::string helped_;
  size_t callers_ = 0, may_end_ = 0;
};

// One account has two loops under way when another one begins its only one.
TEST(TeamTest, HelpersGoToTheAccountWithTheFewestThreads) {
  Team team(5);
  team.ParallelFor(
      5, 1, [](int64_t, int64_t) {}, kAll);  // There are four helpers from now on.
  HeldLoops loops;
  const auto two = std::make_shared<Account>("two"), one = std::make_shared<Account>("one");
  std::thread first = loops.Begin('1', team, 2, two);
  loops.Await(1, 1);
  std::thread second = loops.Begin('2', team, 2, two);
  loops.Await(2, 2);
  std::thread other = loops.Begin('o', team, 2, one);
  loops.Await(3, 2);  // Five threads compute.
  loops.LetEnd(1);
  EXPECT_EQ(loops.Await(3, 3), "12o");
  loops.LetEnd(1000);
  for (std::thread* each : {&first, &second, &other}) each->join();
}

// Training has all five threads when a loop of serving begins. Its caller is one more thread, for which a helper leaves;
// the next helper goes where the weights say.
TEST(TeamTest, HelpersGoToThePartyWithTheFewestThreadsForItsWeight) {
  for (const auto& [share, helped] : {std::pair(0.25, "ttttt"), std::pair(0.5, "tttts"), std::pair(0.75, "tttts")}) {
    const auto team = std::make_shared<Team>(5);
    Team::Party train(team, 1 - share, /*urgent=*/false), serve(team, share, /*urgent=*/true);
    HeldLoops loops;
    std::thread training = loops.Begin('t', train, 5);
    loops.Await(1, 4);
    EXPECT_FALSE(train.others_compute());
    EXPECT_TRUE(serve.others_compute());
    std::thread serving = loops.Begin('s', serve, 5);
    loops.Await(2, 4);
    loops.LetEnd(2);
    EXPECT_EQ(loops.Await(2, 5), helped) << "a share of " << share;
    loops.LetEnd(1000);
    training.join();
    serving.join();
    EXPECT_FALSE(serve.others_compute());
  }
}

TEST(TeamTest, AProcessorIsLeftToTheClientsOfAnUrgentParty) {
  const auto team = std::make_shared<Team>(5);
  Team::Party train(team, 0.5, /*urgent=*/false), serve(team, 0.5, /*urgent=*/true);
  team->ParallelFor(
      5, 1, [](int64_t, int64_t) {}, kAll);  // There are four helpers from now on.
  train.AddUrgentWaiters(1);                 // The party is not urgent: its clients do not count.
  serve.AddUrgentWaiters(2);
  serve.AddUrgentWaiters(-1);
  HeldLoops loops;
  std::thread training = loops.Begin('t', train, 5);
  loops.Await(1, 3);
  std::thread serving = loops.Begin('s', serve, 5);
  EXPECT_EQ(loops.Await(2, 3), "ttt");
  loops.LetEnd(1);
  EXPECT_EQ(loops.Await(2, 4), "ttts");
  loops.LetEnd(1000);
  training.join();
  serving.join();
  serve.AddUrgentWaiters(-1);
  HeldLoops more;
  training = more.Begin('t', train, 5);
  EXPECT_EQ(more.Await(1, 4), "tttt");
  more.LetEnd(1000);
  training.join();
}

TEST(TeamTest, OthersGiveWayWhileClientsWaitAndJustAfter) {
  for (const int threads : {1, 2}) {
    const auto team = std::make_shared<Team>(threads);
    Team::Party train(team, 0.5, /*urgent=*/false), serve(team, 0.5, /*urgent=*/true);
    const auto given = [&](Threads& party) {
      const int64_t before = team->times_yielded();
      party.ParallelFor(
          40, 1, [](int64_t, int64_t) { Work(std::chrono::microseconds(10)); }, kAll);
      return team->times_yielded() - before;
    };
    // A thread that has just waited long, on a busy machine, does not give way; and the moment after may be over too soon.
    const auto gives_way = [&](const auto& before) {
      for (int i = 0; i < 1000; ++i) {
        before();
        if (given(train) > 0) return true;
      }
      return false;
    };
    EXPECT_EQ(given(train), 0);
    serve.AddUrgentWaiters(1);
    EXPECT_TRUE(gives_way([] {}));
    EXPECT_EQ(given(serve), 0);
    serve.AddUrgentWaiters(-1);
    EXPECT_TRUE(gives_way([&] {
      serve.AddUrgentWaiters(1);
      serve.AddUrgentWaiters(-1);
    }));
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    EXPECT_EQ(given(train), 0);
  }
}

// Two threads on one processor: a program that takes all it gets has no more than the pieces, though they give way.
TEST(TeamTest, ABusyNeighbourGetsHalf) {
  const cpu_set_t all = Mask();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const auto team = std::make_shared<Team>(1);
  Team::Party train(team, 0.5, /*urgent=*/false), serve(team, 0.5, /*urgent=*/true);
  std::atomic<bool> ends = false;
  std::chrono::nanoseconds neighbours{}, own = ProcessorTime();
  std::thread neighbour([&] {
    while (!ends) Work(std::chrono::microseconds(10));
    neighbours = ProcessorTime();
  });
  serve.AddUrgentWaiters(1);
  for (int i = 0; i < 20; ++i) {
    train.ParallelFor(
        60, 1, [](int64_t, int64_t) { Work(std::chrono::microseconds(200)); }, kAll);
  }
  serve.AddUrgentWaiters(-1);
  own = ProcessorTime() - own;
  ends = true;
  neighbour.join();
  EXPECT_GT(team->times_yielded(), 0);
  EXPECT_GT(own * 3, neighbours);
  EXPECT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

// Beside a busy thread, put-off threads are moved; afterwards every one may run where it might before.
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
    while (!ends) {
    }
  });
  Team team(0);
  std::atomic<int64_t> pieces = 0;
  for (int i = 0; i < 300; ++i) {
    team.ParallelFor(
        16, 1,
        [&](int64_t, int64_t) {
          Work(std::chrono::microseconds(100));
          ++pieces;
        },
        kAll);
    const cpu_set_t mask = Mask();
    ASSERT_TRUE(CPU_EQUAL(&mask, &all));
  }
  EXPECT_EQ(pieces, 300 * 16);
  ends = true;
  neighbour.join();
}

}  // namespace
}  // namespace gluond
