// While one thread is enough to poll, the others stay out; where it is not, they come.

#include "server/net/grpc_1_51/poll_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "server/net/queue_tag.h"

namespace gluond::server {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

class PollDemandTest : public testing::Test {
 protected:
  // So many windows in which the threads have the processors for this part of the time, in all.
  void Work(int windows, double processors) {
    for (int i = 0; i < windows; ++i) {
      now_ += milliseconds(100);
      demand_.Used(now_, std::chrono::duration_cast<Clock::duration>(milliseconds(100) * processors));
    }
  }
  // How long all threads stay, where there is nothing to do.
  int SecondsOfAll() {
    int windows = 0;
    for (; demand_.threads() == 32; ++windows) Work(1, 0);
    return (windows + 5) / 10;
  }

  Clock::time_point now_ = Clock::time_point(std::chrono::hours(1));
  PollDemand demand_{32, now_};
};

TEST_F(PollDemandTest, OneThreadIsEnoughForLittleWork) {
  Work(100, 0.7);
  EXPECT_EQ(demand_.threads(), 1);
}

TEST_F(PollDemandTest, MoreComeWhereThoseThereHaveNoRestAndGoWhereTheyHaveMuch) {
  Work(1, 0.9);
  EXPECT_EQ(demand_.threads(), 2);
  Work(10, 0.9);
  EXPECT_EQ(demand_.threads(), 2) << "0.45 of each";
  Work(10, 16.5);
  EXPECT_EQ(demand_.threads(), 32);
  Work(10, 64);
  EXPECT_EQ(demand_.threads(), 32) << "as many as there are";
  Work(1, 1);
  EXPECT_EQ(demand_.threads(), 16);
  Work(10, 1);
  EXPECT_EQ(demand_.threads(), 2);
  Work(10, 0);
  EXPECT_EQ(demand_.threads(), 1);
}

TEST_F(PollDemandTest, AllComeWhereSomethingIsLateAndStayLongerEachTime) {
  Work(100, 0.1);
  demand_.Late(now_);
  EXPECT_EQ(demand_.threads(), 32);
  EXPECT_EQ(SecondsOfAll(), 1);
  for (const int hold : {2, 4, 8, 16, 32, 64, 64}) {
    demand_.Late(now_);
    demand_.Late(now_ + milliseconds(1));  // Another mark, no other occasion.
    EXPECT_EQ(SecondsOfAll(), hold);
  }
  Work(1000, 0.1);
  demand_.Late(now_);
  EXPECT_EQ(SecondsOfAll(), 1) << "the last time is long ago";
}

// Something in the queue that holds the thread which hears of it.
class Holding final : public QueueTag {
 public:
  void Put(grpc::ServerCompletionQueue& queue) { alarm_.Set(&queue, std::chrono::system_clock::now(), tag()); }
  void Release() { released_ = true; }
  bool held() const { return held_; }
  bool done() const { return done_; }

 private:
  void Done(bool) override {
    held_ = true;
    while (!released_) std::this_thread::sleep_for(milliseconds(1));
    done_ = true;
  }

  grpc::Alarm alarm_;
  std::atomic<bool> released_ = false, held_ = false, done_ = false;
};

class PollThreadsTest : public testing::Test {
 protected:
  PollThreadsTest() {
    grpc::ServerBuilder builder;
    auto queue = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    threads_ = std::make_unique<PollThreads>(std::move(queue), 8);
  }
  ~PollThreadsTest() override {
    server_->Shutdown();
    threads_.reset();
  }
  template <class Condition>
  static bool Comes(const Condition& condition) {
    const Clock::time_point end = Clock::now() + seconds(50);  // On a busy machine all threads come more than once.
    while (!condition() && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    return condition();
  }

  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<PollThreads> threads_;
};

TEST_F(PollThreadsTest, WhoeverHoldsTheFirstThreadHoldsNobodyElse) {
  EXPECT_TRUE(Comes([&] { return threads_->wanted() == 1; })) << threads_->wanted();
  Holding first, second;
  first.Put(threads_->queue());
  EXPECT_TRUE(Comes([&] { return first.held(); }));
  second.Put(threads_->queue());
  second.Release();
  EXPECT_TRUE(Comes([&] { return second.done(); })) << "another thread has come";
  EXPECT_FALSE(first.done());
  EXPECT_EQ(threads_->wanted(), 8);
  first.Release();
  EXPECT_TRUE(Comes([&] { return first.done() && threads_->wanted() == 1; })) << "and goes again";
}

}  // namespace
}  // namespace gluond::server
