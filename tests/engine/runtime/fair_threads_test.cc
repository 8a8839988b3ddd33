// A pool goes on with others' work while somebody's long work holds its threads.

#include "engine/runtime/fair_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/start_thread.h"

namespace gluond {
namespace {

using std::chrono::milliseconds;

AccountPtr NewAccount() { return std::make_shared<const Account>("test"); }

// Holds a thread until it is let go. The work may outlast this object.
class Hold {
 public:
  Hold(FairThreads& threads, AccountPtr account) {
    const ScopedAccount scope(std::move(account));
    threads.Post([state = state_] {
      state->began.set_value();
      state->let_go.get_future().wait();
    });
  }
  void AwaitBegin() { state_->began.get_future().wait(); }
  void LetGo() { state_->let_go.set_value(); }

 private:
  struct State {
    std::promise<void> began, let_go;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Posts something for `account` and waits for it; the thread that does it.
std::thread::id DoFor(FairThreads& threads, AccountPtr account) {
  const ScopedAccount scope(std::move(account));
  std::promise<std::thread::id> done;
  threads.Post([&done] { done.set_value(std::this_thread::get_id()); });
  return done.get_future().get();
}

// From now on this process has no room for the stack of another thread. A limit on the number of threads would not hold for
// root, nor for whom a sandbox has made of root.
void HaveAllThreads() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * sysconf(_SC_PAGESIZE) + (2 << 20);
  const rlimit all = {bytes, bytes};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &all), 0);
  std::thread thread;
  ASSERT_FALSE(TryToStart(&thread, [] {}));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(GLUOND_THREAD_SANITIZER)  // A thread without memory ends their program.
TEST(FairThreadsTest, AtTheLimitOfThreadsThoseThatAreThereDoTheWork) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto work = [] {
    FairThreads threads({.name = "test", .threads = 2, .most_threads = 5});
    HaveAllThreads();
    Hold one(threads, NewAccount()), two(threads, NewAccount());
    one.AwaitBegin();
    two.AwaitBegin();
    std::promise<void> done;
    {
      const ScopedAccount scope(NewAccount());
      threads.Post([&done] { done.set_value(); });
    }
    std::this_thread::sleep_for(milliseconds(100));  // The watcher looks for more threads meanwhile.
    EXPECT_TRUE(threads.load().are_all);
    one.LetGo();
    done.get_future().wait();
    two.LetGo();
    threads.Drain();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(FairThreadsTest, APoolWithoutAThreadSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto work = [] {
    HaveAllThreads();
    FairThreads threads({.name = "test"});
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(1), "cannot start the thread of test: .*raise the limit");
}

TEST(FairThreadsTest, ItSaysSoInTheFormOfItsProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto work = [] {
    SetLineOfNoThread([](absl::string_view why) { return absl::StrCat("<", why, ">\n"); });
    HaveAllThreads();
    FairThreads threads({.name = "test"});
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(1), "<cannot start the thread of test: .*raise the limit.*>");
}

TEST(FairThreadsTest, OthersGoOnWhileSomeHoldEveryThread) {
  FairThreads threads({.name = "test", .most_threads = 5});
  const std::thread::id first = DoFor(threads, nullptr);
  std::vector<std::unique_ptr<Hold>> holds;
  for (int i = 0; i < 4; ++i) {
    holds.push_back(std::make_unique<Hold>(threads, NewAccount()));
    holds.back()->AwaitBegin();
  }
  for (int i = 0; i < 10; ++i) EXPECT_NE(DoFor(threads, NewAccount()), first);
  for (const auto& hold : holds) hold->LetGo();
  threads.Drain();
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(DoFor(threads, NewAccount()), first) << "those that joined in are not wanted any more";
}

TEST(FairThreadsTest, AnAccountThatHoldsAThreadGetsNoOther) {
  FairThreads threads({.name = "test", .most_threads = 5});
  const AccountPtr greedy = NewAccount();
  Hold hold(threads, greedy);
  hold.AwaitBegin();
  std::atomic<bool> began = false;
  {
    const ScopedAccount scope(greedy);
    threads.Post([&] { began = true; });
  }
  for (int i = 0; i < 5; ++i) DoFor(threads, NewAccount());
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(began);
  hold.LetGo();
  threads.Drain();
  EXPECT_TRUE(began);
}

TEST(FairThreadsTest, QueuesStayInOrderOnManyThreads) {
  FairThreads threads({.name = "test", .threads = 3, .most_threads = 6, .patience = milliseconds(1)});
  constexpr int kQueues = 8, kWorks = 300;
  WorkQueue queues[kQueues];
  std::vector<int> done[kQueues];  // Each its queue's alone: the thread sanitizer looks on.
  std::vector<std::thread> posters;
  for (int p = 0; p < 4; ++p) {
    posters.emplace_back([&, p] {
      const ScopedAccount scope(NewAccount());
      for (int i = 0; i < kWorks; ++i) {
        for (int q = p; q < kQueues; q += 4) {
          threads.Post(queues[q], [&done, q, i] {
            if (i % 100 == 0) std::this_thread::sleep_for(milliseconds(3));
            done[q].push_back(i);
          });
        }
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  threads.Drain();
  for (const std::vector<int>& order : done) {
    ASSERT_EQ(order.size(), static_cast<size_t>(kWorks));
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
}

TEST(FairThreadsTest, WorkInheritsTheAccount) {
  FairThreads threads({.name = "test"});
  const AccountPtr account = NewAccount();
  std::promise<AccountPtr> seen;
  {
    const ScopedAccount scope(account);
    threads.Post([&] { threads.Post([&] { seen.set_value(CurrentAccount()); }); });
  }
  EXPECT_EQ(seen.get_future().get(), account);
  EXPECT_EQ(CurrentAccount(), nullptr);
}

struct Counting final : Work {
  void Do() override { ++count; }
  std::atomic<int> count = 0;
};

TEST(FairThreadsTest, AWorkThatGoesOnElsewhereHoldsItsQueueAndNoThread) {
  FairThreads threads({.name = "test"});
  const ScopedAccount scope(NewAccount());
  WorkQueue queue, other;
  std::promise<std::function<void()>> begun;
  std::promise<void> next, others;
  std::atomic<bool> has_ended = false;
  threads.Post(queue, [&] { begun.set_value(threads.Detach()); });
  threads.Post(queue, [&] {
    EXPECT_TRUE(has_ended);
    next.set_value();
  });
  threads.Post(other, [&] { others.set_value(); });
  const std::function<void()> end = begun.get_future().get();
  others.get_future().wait();
  has_ended = true;
  end();
  next.get_future().wait();

  for (int i = 0; i < 1000; ++i) {  // It may end at any time, also before it has returned.
    std::thread elsewhere;
    threads.Post(queue, [&] { elsewhere = std::thread(threads.Detach()); });
    threads.Drain();
    elsewhere.join();
  }
  std::promise<void> last;
  threads.Post(queue, [&] { last.set_value(); });
  last.get_future().wait();
}

TEST(FairThreadsTest, ForgottenTimersDoNothing) {
  FairThreads threads({.name = "test"});
  WorkQueue queue;
  Counting kept, forgotten, due;
  const auto now = FairThreads::Clock::now();
  Hold hold(threads, nullptr);
  hold.AwaitBegin();
  threads.DoAt(queue, now, &due);  // It comes due while the only thread is held,
  threads.DoAt(queue, now + milliseconds(5), &kept);
  threads.DoAt(queue, now + milliseconds(5), &forgotten);
  threads.Forget(queue, &forgotten);
  std::this_thread::sleep_for(milliseconds(10));
  threads.Forget(queue, &due);  // and is forgotten all the same.
  hold.LetGo();
  while (kept.count == 0) std::this_thread::yield();
  threads.Drain();
  EXPECT_EQ(due.count, 0);
  EXPECT_EQ(forgotten.count, 0);
  EXPECT_EQ(kept.count, 1);
}

// A work that comes again and again, for a pool whose watcher looks on.
struct Again final : Work {
  void Do() override {
    if (++count < 200) threads->DoAt(queue, FairThreads::Clock::now() + std::chrono::microseconds(count * 10), this);
  }
  FairThreads* threads = nullptr;
  WorkQueue queue;
  std::atomic<int> count = 0;
};

TEST(FairThreadsTest, NoTimerIsLost) {
  FairThreads threads({.name = "test", .most_threads = 2, .patience = milliseconds(1), .look = std::chrono::microseconds(100)});
  Again again;
  again.threads = &threads;
  threads.Post(again.queue, &again);
  for (int i = 0; i < 3000 && again.count < 200; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(again.count, 200);
  threads.Drain();
}

// A thread that has joined in and must not take work any more is not to swallow the call to wake up.
TEST(FairThreadsTest, NoWorkIsForgottenWhenThreadsComeAndGo) {
  FairThreads threads({.name = "test", .most_threads = 3, .patience = milliseconds(2), .look = std::chrono::microseconds(300)});
  for (int i = 0; i < 150; ++i) {
    {
      const ScopedAccount scope(NewAccount());
      threads.Post([] { std::this_thread::sleep_for(milliseconds(5)); });
    }
    for (int n = 0; n < 8; ++n) {
      const ScopedAccount scope(NewAccount());
      std::promise<void> done;
      threads.Post([&done] { done.set_value(); });
      ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
      std::this_thread::sleep_for(std::chrono::microseconds(100 * n));
    }
  }
}

// A thread that has joined in wakes for a work that it leaves to the first one, which looks for work without a lock.
TEST(FairThreadsTest, NoWorkIsLostWhenThreadsThatJoinedInStepBack) {
  FairThreads threads({.name = "test", .most_threads = 2, .patience = milliseconds(1), .look = std::chrono::microseconds(200)});
  const AccountPtr slow = NewAccount(), quick = NewAccount();
  for (int i = 0; i < 300; ++i) {
    Hold hold(threads, slow);
    hold.AwaitBegin();
    DoFor(threads, quick);  // By one that joins in.
    hold.LetGo();
    std::this_thread::sleep_for(std::chrono::microseconds(i % 50 * 5));
    const ScopedAccount scope(quick);
    std::promise<void> done;
    threads.Post([&done] { done.set_value(); });
    ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready) << i;
  }
}

TEST(FairThreadsTest, AThreadRestsOnceAfterItsWork) {
  std::atomic<int> rests = 0;
  FairThreads threads({.name = "test", .rest = [&] { ++rests; }, .rest_after = milliseconds(5)});
  const AccountPtr account = NewAccount();
  for (int i = 1; i <= 3; ++i) {
    DoFor(threads, account);
    for (int looks = 0; looks < 2000 && rests < i; ++looks) std::this_thread::sleep_for(milliseconds(10));
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_EQ(rests, i);
  }
}

TEST(FairThreadsTest, ThreadsThatJoinedInEndWhenNobodyWantsThem) {
  std::atomic<int> alive = 0;
  FairThreads threads({.name = "test", .most_threads = 8, .enter = [&]() -> std::shared_ptr<void> {
                         ++alive;
                         return std::shared_ptr<void>(&alive, [&](void*) { --alive; });
                       }});
  std::vector<std::unique_ptr<Hold>> holds;
  for (int i = 0; i < 4; ++i) {
    holds.push_back(std::make_unique<Hold>(threads, NewAccount()));
    holds.back()->AwaitBegin();
  }
  EXPECT_GE(alive, 4);
  for (const auto& hold : holds) hold->LetGo();
  for (int i = 0; i < 1000 && alive > 1; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(alive, 1);
}

}  // namespace
}  // namespace gluond
