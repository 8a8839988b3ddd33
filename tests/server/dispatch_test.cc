// Work runs where its weight says, and its waiting time is told.

#include "server/rpc/dispatch.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <future>
#include <map>
#include <string>
#include <thread>

namespace gluond::server {
namespace {

std::string ThreadName() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

class DispatchTest : public testing::Test {
 protected:
  // The name of the thread where such work runs; empty: the caller's own.
  std::string Where(Weight weight) {
    std::promise<std::string> name;
    const auto self = std::this_thread::get_id();
    dispatch_.Run(weight, [&] { name.set_value(std::this_thread::get_id() == self ? "" : ThreadName()); });
    return name.get_future().get();
  }
  std::map<std::string, FairThreads::Load> Loads() {
    std::map<std::string, FairThreads::Load> loads;
    for (const Dispatch::Queue& queue : dispatch_.queues()) loads[queue.name] = queue.load;
    return loads;
  }

  Dispatch dispatch_;
};

TEST_F(DispatchTest, WorkRunsWhereItsWeightSays) {
  EXPECT_EQ(Where(Weight::kLight), "");
  EXPECT_EQ(Where(Weight::kAlways), "");
  EXPECT_EQ(Where(Weight::kHeavy), "worker");
  EXPECT_EQ(Where(Weight::kDisk), "disk");
}

TEST_F(DispatchTest, ACallIsAsHeavyAsItsMethodOrItsRequest) {
  constexpr int64_t kSmall = Dispatch::kLargeMessage, kLarge = kSmall + 1;
  for (const Weight weight : {Weight::kLight, Weight::kAlways}) {
    EXPECT_EQ(Dispatch::OfCall(weight, kSmall, /*takes_turn=*/false), weight);
    EXPECT_EQ(Dispatch::OfCall(weight, kLarge, /*takes_turn=*/false), Weight::kHeavy);
    EXPECT_EQ(Dispatch::OfCall(weight, 0, /*takes_turn=*/true), Weight::kHeavy);
  }
  EXPECT_EQ(Dispatch::OfCall(Weight::kHeavy, 0, /*takes_turn=*/false), Weight::kHeavy);
  EXPECT_EQ(Dispatch::OfCall(Weight::kDisk, kLarge, /*takes_turn=*/true), Weight::kDisk);
}

TEST_F(DispatchTest, TellsWhatWaitsAndForHowLong) {
  constexpr std::chrono::milliseconds kWait{30};
  std::promise<void> begun, go, done;
  dispatch_.Run(Weight::kDisk, [&] {
    begun.set_value();
    go.get_future().wait();
  });
  begun.get_future().wait();
  dispatch_.Run(Weight::kDisk, [&] { done.set_value(); });
  EXPECT_EQ(Loads()["disk"].waiting, 1) << "one peer's works come one after the other";
  std::this_thread::sleep_for(kWait);
  go.set_value();
  done.get_future().wait();
  const FairThreads::Load disk = Loads()["disk"];
  EXPECT_EQ(disk.waiting, 0);
  EXPECT_EQ(disk.taken, 2);
  EXPECT_GE(disk.longest, kWait);
  EXPECT_GE(disk.waited, disk.longest);
  EXPECT_EQ(Loads()["worker"].taken, 0);
}

TEST_F(DispatchTest, ListsTheQueuesOfOthers) {
  dispatch_.List("cpu", [] { return FairThreads::Load{{.taken = 7}}; });
  EXPECT_EQ(Loads()["cpu"].taken, 7);
}

}  // namespace
}  // namespace gluond::server
