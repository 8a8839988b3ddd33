// Operators on arrays as they come: their values, what waits for what, and what fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/graph.h"
#include "engine/runtime/tuning.h"
#include "tests/engine/imperative/imperative_bench.h"

namespace gluond {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(ImperativeTest, ComputesChains) {
  const Array x = bench_.Of({1, 2, 3});
  const Array y = bench_.Call("elemwise_add", {}, bench_.Call("square", {}, x), x);
  EXPECT_THAT(bench_.Values(y), ElementsAre(2, 6, 12));
  EXPECT_THAT(bench_.Values(x), ElementsAre(1, 2, 3));
}

TEST_F(ImperativeTest, GivesTheVisibleOutputs) {
  EXPECT_THAT(bench_.Outputs("Dropout", {}, {bench_.Of({1})}), SizeIs(1));
  const auto parts = bench_.Outputs("SliceChannel", {{"num_outputs", "2"}, {"axis", "0"}}, {bench_.Of({1, 2})});
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_THAT(bench_.Values(parts[1]), ElementsAre(2));
}

TEST_F(ImperativeTest, CallsWithoutInputs) {
  EXPECT_THAT(bench_.Values(bench_.Call("_ones", {{"shape", "(2,)"}})), ElementsAre(1, 1));
  bench_.options.device = {DeviceType::kCpu, 1};
  const Array there = bench_.Call("_ones", {{"shape", "(2,)"}});
  ASSERT_EQ(bench_.Status(there), absl::OkStatus());
  EXPECT_EQ(there.value->tensor().device(), (Device{DeviceType::kCpu, 1}));
  bench_.options.device = {DeviceType::kGpu, 7};
  EXPECT_THAT(bench_.Status(bench_.Call("_ones", {{"shape", "(2,)"}})).message(), HasSubstr("no device gpu:7"));
}

TEST_F(ImperativeTest, WhatIsCalledBesideTheLaneRunsOnItLater) {
  bench_.beside = true;
  std::vector<Array> chain = {bench_.Of({1, 2, 3})};
  for (int i = 0; i < 100; ++i) chain.push_back(Plus1(chain.back()));
  EXPECT_THAT(bench_.Values(chain.back()), ElementsAre(101, 102, 103));
  EXPECT_THAT(bench_.Values(chain[0]), ElementsAre(1, 2, 3));
  // Memory is found on the lane, too, that the operator has there and nowhere else.
  const Array sorted = bench_.Call("sort", {}, bench_.Of({3, 1, 2}));
  EXPECT_THAT(bench_.Values(sorted), ElementsAre(1, 2, 3));
  WaitingCall call;
  const Array waiting = Waiting(5, &call);
  const Array after = Plus1(waiting);
  EXPECT_FALSE(bench_.IsKnown(after));
  call.Complete();
  EXPECT_THAT(bench_.Values(after), ElementsAre(11));
  const Array wrong = bench_.Call("elemwise_add", {}, bench_.Of({1, 2}), bench_.Of({1, 2, 3}));
  EXPECT_FALSE(bench_.Status(Plus1(wrong)).ok());
  bench_.Settle();
  EXPECT_EQ(bench_.pending(), 0);
}

TEST_F(ImperativeTest, WhatBecomesKnownBesideTheLaneSetsOffOthersOnIt) {
  bench_.beside = true;
  const auto value = std::make_shared<Value>();
  std::promise<bool> is_on_lane;
  bench_.OnLane([&] {
    WhenKnown({value}, [&] { is_on_lane.set_value(bench_.lane().IsCurrent()); });
    Value::Set(value, bench_.TensorOf({1}), bench_.scheduler().queue());
  });
  EXPECT_TRUE(is_on_lane.get_future().get());
}

// Failures.

TEST_F(ImperativeTest, AFailurePoisonsWhatDependsOnIt) {
  const Array wrong = bench_.Call("elemwise_add", {}, bench_.Of({1, 2}), bench_.Of({1, 2, 3}));
  EXPECT_EQ(bench_.Status(wrong).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(bench_.Status(wrong).message(),
              AllOf(HasSubstr("Error in operator elemwise_add"), HasSubstr("[3]"), HasSubstr("[2]")));
  const Array after = bench_.Call("elemwise_add", {}, bench_.Of({1}), Plus1(wrong));
  ASSERT_FALSE(bench_.Status(after).ok());
  EXPECT_EQ(after.value->failure(), wrong.value->failure()) << "the same, to be told once";
  EXPECT_THAT(bench_.failures(), SizeIs(1));
}

// A momentum is not lost with a gradient that has failed, or does not fit.
TEST_F(ImperativeTest, AFailureLeavesWrittenInputs) {
  std::vector<std::pair<uint32_t, ValuePtr>> written;
  bench_.options.command = 7;
  const auto update = [&](Array gradient) {
    written.clear();
    const Array weight = bench_.Outputs("sgd_mom_update", {{"lr", "1"}}, {bench_.Of({1}), gradient, bench_.Of({5})}, &written)[0];
    EXPECT_FALSE(bench_.Status(weight).ok());
    EXPECT_THAT(written, SizeIs(1));
    return bench_.Values(written[0].second);
  };
  EXPECT_THAT(update(bench_.Of({1, 2})), ElementsAre(5));
  EXPECT_EQ(bench_.failures().back()->command, 7);
  EXPECT_THAT(update(bench_.Call("elemwise_add", {}, bench_.Of({1}), bench_.Of({1, 2}))), ElementsAre(5));
}

TEST_F(ImperativeTest, SaysWhichArgumentIsWrong) {
  const Array wrong = bench_.Call("FullyConnected", {{"num_hidden", "2"}}, bench_.Of({1, 2}, {1, 2}), bench_.Of({1, 2, 3}, {1, 3}),
                                  bench_.Of({1, 2}));
  EXPECT_THAT(bench_.Status(wrong).message(), HasSubstr("weight"));
}

TEST_F(ImperativeTest, RefusesMoreMemoryThanThereIs) {
  const Array huge = bench_.Call("_ones", {{"shape", "(1000000, 1000)"}});
  EXPECT_EQ(bench_.Status(huge).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(bench_.Status(huge).message(), HasSubstr("--max_tensor_bytes"));
}

// Calls that wait.

TEST_F(ImperativeTest, OthersGoOnWhileOneWaits) {
  WaitingCall call;
  const Array slow = Waiting(1, &call);
  const Array after = Plus1(slow);
  EXPECT_THAT(bench_.Values(Plus1(bench_.Of({1}))), ElementsAre(2));
  EXPECT_FALSE(bench_.IsKnown(after));
  EXPECT_EQ(bench_.pending(), 2);
  call.Complete();
  EXPECT_THAT(bench_.Values(after), ElementsAre(3));
  EXPECT_EQ(bench_.pending(), 0);
}

TEST_F(ImperativeTest, WaitsForAllInputs) {
  WaitingCall one, two;
  const Array a = Waiting(1, &one), b = Waiting(2, &two);
  const Array sum = bench_.Call("elemwise_add", {}, a, b);
  two.Complete();
  EXPECT_THAT(bench_.Values(b), ElementsAre(4));
  EXPECT_FALSE(bench_.IsKnown(sum));
  one.Complete();
  EXPECT_THAT(bench_.Values(sum), ElementsAre(6));
}

TEST_F(ImperativeTest, AFailureLaterPoisonsAllThatWaits) {
  WaitingCall call;
  const Array slow = Waiting(1, &call);
  const Array sum = bench_.Call("elemwise_add", {}, Plus1(slow), slow);
  call.Fail(absl::UnavailableError("the provider is gone"));
  EXPECT_EQ(bench_.Status(sum).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(sum.value->failure(), slow.value->failure());
  EXPECT_THAT(bench_.failures(), SizeIs(1));
  EXPECT_EQ(bench_.pending(), 0);
}

TEST_F(ImperativeTest, AnOperatorThatLosesItsCallFails) {
  WaitingCall call;
  const Array slow = Waiting(1, &call);
  call.completion = {};
  EXPECT_THAT(bench_.Status(slow).message(), HasSubstr("dropped its call"));
}

class LongChain : public ImperativeTest, public testing::WithParamInterface<bool> {};

TEST_P(LongChain, WaitsAndEnds) {
  const bool fails = GetParam();
  WaitingCall call;
  Array slow = Waiting(0, &call);
  constexpr int kLength = 10'000;
  Array last = bench_.OnLane([&] {
    const PreparedOpPtr plus = *PrepareOp("_plus_scalar", kOne, 1);
    Array x = slow;
    for (int i = 0; i < kLength; ++i) x = bench_.imperative().Invoke(plus, {x}, {}).outputs[0];
    return x;
  });
  EXPECT_EQ(bench_.pending(), kLength + 1);
  if (fails) {
    call.Fail(absl::UnavailableError("gone"));
    EXPECT_EQ(bench_.Status(last).code(), absl::StatusCode::kUnavailable);
  } else {
    call.Complete();
    EXPECT_THAT(bench_.Values(last), ElementsAre(kLength));
  }
  EXPECT_EQ(bench_.pending(), 0);
}
INSTANTIATE_TEST_SUITE_P(, LongChain, testing::Bool(), [](const auto& chain) { return chain.param ? "Fails" : "Succeeds"; });

// Another session's work, posted to the lane, comes in between.
TEST_F(ImperativeTest, WhatHasWaitedTakesTurnsWithOthers) {
  WaitingCall call;
  const Array slow = Waiting(0, &call);
  std::atomic<bool> begun = false;
  const Array last = bench_.OnLane([&] {
    const PreparedOpPtr tanh = *PrepareOp("tanh", {}, 1);
    const PreparedOpPtr broadcast = *PrepareOp("broadcast_to", {{"shape", "(200000,)"}}, 1);
    Array x = bench_.imperative().Invoke(broadcast, {slow}, {}).outputs[0];
    for (int i = 0; i < 300; ++i) x = bench_.imperative().Invoke(tanh, {x}, {}).outputs[0];
    return x;
  });
  bench_.OnLane([&] { slow.value->Await([&] { begun = true; }); });
  call.Complete();
  while (!begun) std::this_thread::yield();
  EXPECT_FALSE(bench_.IsKnown(last)) << "300 operators held the lane";
  EXPECT_EQ(bench_.Status(last), absl::OkStatus());
}

TEST_F(ImperativeTest, EndsWithCancel) {
  WaitingCall call;
  const Array slow = Waiting(1, &call);
  const Array after = Plus1(slow);
  bench_.OnLane([this] { bench_.scheduler().Cancel(); });
  EXPECT_EQ(bench_.Status(after).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(bench_.Status(Plus1(bench_.Of({1}))).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(bench_.pending(), 0);
  EXPECT_THAT(bench_.failures(), IsEmpty());
}

// The operator may read and write until it lets go of its call, whatever has become of the arrays.
TEST_F(ImperativeTest, ACancelledOperatorKeepsItsMemory) {
  WaitingCall call;
  Array slow = Waiting(5, &call);
  const int64_t before = bench_.used();
  bench_.OnLane([this] { bench_.scheduler().Cancel(); });
  EXPECT_FALSE(bench_.Status(slow).ok());
  slow = {};
  EXPECT_EQ(bench_.used(), before) << "its input and its output";
  EXPECT_EQ(*call.in.dptr<float>(), 5);
  call.Complete();
  bench_.Settle();
  EXPECT_EQ(bench_.used(), 0);
}

// Other calls, of the same scheduler, go on.
TEST_F(ImperativeTest, OneCallIsCancelledAlone) {
  const auto cancellation = std::make_shared<Cancellation>();
  const auto invoke = [&](const char* op, bool alone) {
    Invocation invoked(*PrepareOp(op, {}, 1), [](size_t) { return true; });
    invoked.in.push_back(bench_.Of({5}).value);
    if (alone) invoked.cancellation = cancellation;
    const ValuePtr y = invoked.out[0];
    bench_.OnLane([&] { bench_.scheduler().Run(std::move(invoked), /*now=*/true); });
    return y;
  };
  const ValuePtr cancelled = invoke("t_wait", true), other = invoke("t_wait", false);
  WaitingCall first = WaitingCalls::Get().Next(), second = WaitingCalls::Get().Next();
  cancellation->Cancel();
  EXPECT_EQ(bench_.Status(cancelled).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(bench_.Status(invoke("negative", true)).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(bench_.Values(invoke("negative", false)), ElementsAre(-5));
  first.Complete();
  second.Complete();
  EXPECT_THAT(bench_.Values(other), ElementsAre(10));
}

TEST_F(ImperativeTest, WhatIsUnderWayKeepsItAlive) {
  WaitingCall call;
  auto other = std::make_unique<Imperative>(Scheduler::Create({bench_.scheduler().home()}));
  const Array slow = bench_.OnLane([&] {
    Array waiting = other->Invoke(*PrepareOp("t_wait", {}, 1), {bench_.Of({1})}, {}).outputs[0];
    return other->Invoke(*PrepareOp("_plus_scalar", kOne, 1), {waiting}, {}).outputs[0];
  });
  call = WaitingCalls::Get().Next();
  bench_.OnLane([&] { other.reset(); });
  call.Complete();
  EXPECT_THAT(bench_.Values(slow), ElementsAre(3));
}

// Devices.

TEST_F(ImperativeTest, RunsWhereItsInputsAre) {
  const Array x = bench_.Of({1, 2}, {}, /*elsewhere=*/true);
  const Array y = Plus1(Plus1(x));
  EXPECT_THAT(bench_.Values(y), ElementsAre(3, 4));
  EXPECT_EQ(y.value->tensor().device(), x.value->tensor().device());
}

TEST_F(ImperativeTest, RefusesInputsOfTwoDevices) {
  const Array sum = bench_.Call("elemwise_add", {}, bench_.Of({1}), bench_.Of({1}, {}, true));
  EXPECT_THAT(bench_.Status(sum).message(), HasSubstr("bring them to one device first"));
}

TEST_F(ImperativeTest, CopiesBetweenDevices) {
  const Array here = bench_.Of({1, 2});
  const auto copy = [&](const ValuePtr& value, Device device) {
    return bench_.OnLane([&] { return bench_.imperative().CopyTo({value, {}, nullptr}, device, {}).value; });
  };
  const ValuePtr there = copy(here.value, {DeviceType::kCpu, 1});
  EXPECT_THAT(bench_.Values(there), ElementsAre(1, 2));
  EXPECT_EQ(there->tensor().device(), (Device{DeviceType::kCpu, 1}));
  EXPECT_THAT(bench_.Values(copy(there, Device())), ElementsAre(1, 2));
  EXPECT_EQ(copy(here.value, Device()), here.value) << "it is there";

  WaitingCall call;
  const Array slow = Waiting(1, &call);
  const ValuePtr later = copy(slow.value, {DeviceType::kCpu, 1});
  EXPECT_EQ(bench_.pending(), 2);
  call.Complete();
  EXPECT_THAT(bench_.Values(later), ElementsAre(2));

  const Array wrong = bench_.Call("elemwise_add", {}, bench_.Of({1, 2}), bench_.Of({1, 2, 3}));
  EXPECT_EQ(bench_.Status(copy(wrong.value, {DeviceType::kCpu, 1})), bench_.Status(wrong));
  const absl::Status nowhere = bench_.Status(copy(here.value, {DeviceType::kGpu, 3}));
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(bench_.pending(), 0);
}

// Random numbers.

class RandomTest : public ImperativeTest {
 protected:
  std::vector<float> Draw() { return bench_.Values(bench_.Call("_random_uniform", {{"shape", "(4,)"}})); }
  void Seed(uint64_t seed) {
    bench_.OnLane([&] { bench_.imperative().Seed(seed); });
  }
};

TEST_F(RandomTest, DrawsAgainFromTheSameSeed) {
  Seed(3);
  const std::vector<float> first = Draw(), second = Draw();
  EXPECT_NE(first, second);
  Plus1(bench_.Of({1}));  // Draws nothing.
  Seed(3);
  EXPECT_EQ(Draw(), first);
  EXPECT_EQ(Draw(), second);
  Seed(4);
  EXPECT_NE(Draw(), first);
}

// Of the seed at the call, not of the seed when its inputs are there.
TEST_F(RandomTest, ACallThatWaitsDrawsFromItsOwnSeed) {
  const auto dropped = [&] {
    WaitingCall call;
    Seed(3);
    const Array slow = bench_.Call("t_wait", {}, bench_.Of(std::vector<float>(100, 1)));
    const Array y = bench_.Call("Dropout", {}, slow);
    return std::pair(WaitingCalls::Get().Next(), y);
  };
  auto [call, y] = dropped();
  call.Complete();
  const std::vector<float> expected = bench_.Values(y);
  auto [again, z] = dropped();
  Seed(4);
  again.Complete();
  EXPECT_EQ(bench_.Values(z), expected);
}

TEST(ReadyQueue, DoesOneAfterTheOther) {
  ImperativeBench bench;
  std::vector<int> order;
  bench.OnLane([&] {
    ReadyQueue& queue = bench.scheduler().queue();
    queue.Do([&] {
      queue.Do([&] { order.push_back(2); });
      order.push_back(1);
    });
    order.push_back(3);
  });
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

// What waits for its turn counts as pending: a session does not end before it.
TEST(ReadyQueue, GivesWayToOthers) {
  ImperativeBench bench;
  bool second = false;
  bench.OnLane([&] {
    ReadyQueue& queue = bench.scheduler().queue();
    std::vector<std::function<void()>> work;
    work.push_back([] { std::this_thread::sleep_for(2 * tuning::kReadyTurn); });
    work.push_back([&] { second = true; });
    queue.Do(std::move(work));
    EXPECT_FALSE(second);
    EXPECT_EQ(bench.scheduler().pending(), 1);
  });
  bench.Settle();
  EXPECT_TRUE(second);
}

TEST(ReadyQueue, DoesWorkLater) {
  ImperativeBench bench;
  std::vector<int> order;
  bench.OnLane([&] {
    ReadyQueue& queue = bench.scheduler().queue();
    queue.DoLater([&] { order.push_back(2); });
    queue.Do([&] { order.push_back(3); });
    order.push_back(1);
  });
  bench.Settle();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(PrepareOp, SaysWhatIsWrong) {
  EXPECT_EQ(PrepareOp("sigmoyd", {}, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(PrepareOp("elemwise_add", {}, 3).status().message(), HasSubstr("takes 2 inputs"));
  EXPECT_THAT(PrepareOp("_plus_scalar", {{"scaler", "1"}}, 1).status().message(), HasSubstr("scaler"));
  EXPECT_FALSE(PrepareOp("_CachedOp", {}, 1).ok());
  EXPECT_FALSE(PrepareOp("_backward_CachedOp", {}, 1).ok());
}

}  // namespace
}  // namespace gluond
