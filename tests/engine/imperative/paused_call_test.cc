// Calls of graphs that are recorded and wait for their gradients: pauses, their memory, and their end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/graph.h"
#include "tests/engine/compile/all_passes.h"
#include "tests/engine/imperative/graph_call_fixture.h"

namespace gluond {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Recorded calls whose gradient has not come yet.
class PausedCallTest : public GraphCallTest {
 protected:
  Array Call(const std::vector<Array>& inputs) { return bench_.Graph(*graph_, inputs)[0]; }
  // Gradients of y, which a dense layer has made, have the same bits as op by op.
  void ExpectGradients(const Array& y, const std::vector<Array>& inputs) {
    const auto gradients = bench_.Backward({y}), by_hand = bench_.Backward({DenseByHand(inputs)});
    ASSERT_EQ(gradients.size(), by_hand.size());
    for (const auto& [name, gradient] : gradients) EXPECT_EQ(bench_.Values(gradient), bench_.Values(by_hand.at(name))) << name;
  }
  int64_t Compiled() {
    return bench_.OnLane([&] { return bench_.scheduler().num_compiled(); });
  }

  const std::shared_ptr<CachedGraph> graph_ = Dense();
};

TEST_F(PausedCallTest, ForwardsTakeTurnsWithBackwards) {
  for (const std::vector<int>& rows : {std::vector<int>{2, 2}, {2, 5}, {5, 2}}) {
    for (const bool last_first : {false, true}) {
      const std::vector<Array> one = DenseInputs(rows[0]), other = DenseInputs(rows[1]);
      const Array y = Call(one);
      bench_.Values(y);  // Calls that begin at once compile a program each.
      const Array z = Call(other);
      ExpectGradients(last_first ? z : y, last_first ? other : one);
      ExpectGradients(last_first ? y : z, last_first ? one : other);
    }
  }
  EXPECT_EQ(Compiled(), 2);
}

// As a recurrent cell's, step by step: a program for all steps.
TEST_F(PausedCallTest, ACellThatIsCalledManyTimesIsCompiledOnce) {
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w");
  const auto cell = Cached({Apply("tanh", {Apply("elemwise_mul", {x, w})})}, {"x", "w"});
  for (int i = 0; i < 2; ++i) {
    const Array begin = Marked({0.5, -0.25}, {2}, 1), weight = Marked({1.5, 0.75}, {2}, 2);
    Array h = begin, by_hand = begin;
    for (int step = 0; step < 50; ++step) {
      h = bench_.Graph(*cell, {h, weight})[0];
      by_hand = bench_.Call("tanh", {}, bench_.Call("elemwise_mul", {}, by_hand, weight));
    }
    ExpectSame(bench_.Backward({h}), bench_.Backward({by_hand}));
  }
  EXPECT_EQ(Compiled(), 1);
}

TEST_F(PausedCallTest, BackwardTwiceTakesARetainedTape) {
  const std::vector<Array> inputs = DenseInputs();
  const Array y = Call(inputs);
  bench_.backward_options.retain_graph = true;
  for (int i = 0; i < 3; ++i) ExpectGradients(y, inputs);
  bench_.backward_options.retain_graph = false;
  ExpectGradients(y, inputs);
  EXPECT_THAT(bench_.BackwardStatus({y}).message(), HasSubstr(kNotRecorded));
}

TEST_F(PausedCallTest, PredictionsAndOtherCallsGoOnMeanwhile) {
  const std::vector<Array> inputs = DenseInputs(), others = DenseInputs(4);
  const Array y = Call(inputs);
  const std::vector<float> values = bench_.Values(y);
  for (const bool training : {false, true}) {
    bench_.options.recording = bench_.options.training = training;
    EXPECT_EQ(bench_.Values(Call(inputs)), values);
    bench_.Values(Call(others));
  }
  EXPECT_EQ(bench_.Values(y), values);
  ExpectGradients(y, inputs);
}

// As trainer.step does between a forward pass and its backward pass.
TEST_F(PausedCallTest, AWeightThatIsSteppedMeanwhileIsTheOldOneForTheGradient) {
  std::vector<Array> inputs = DenseInputs();
  const Array y = Call(inputs), by_hand = DenseByHand(inputs);
  bench_.Values(y);
  const std::vector<float> weights = bench_.Values(inputs[1]);
  bench_.options.recording = false;
  inputs[1] = bench_.Call("sgd_update", {{"lr", "1"}}, std::move(inputs[1]), bench_.Of({1, 1, 1, 1, 1, 1}, {2, 3}));
  EXPECT_FLOAT_EQ(bench_.Values(inputs[1])[0], weights[0] - 1);
  ExpectSame(bench_.Backward({y}), bench_.Backward({by_hand}));
}

TEST_F(PausedCallTest, BackwardAddsToWhatItIsGivenInPredictModeToo) {
  bench_.options.training = false;
  for (int i = 0; i < 2; ++i) {
    const std::vector<Array> inputs = DenseInputs(64);
    ExpectSame(bench_.Backward({Call(inputs)}), bench_.Backward({DenseByHand(inputs)}));
  }
}

// Two passes at once: each has values of its own.
TEST_F(PausedCallTest, RetainedBackwardsThatWaitForAClientDoNotMix) {
  const NodeEntry x = MakeVariable("x");
  const auto graph = Cached({Apply("square", {Apply("t_wait", {x})})}, {"x"});
  const Array v = Marked({3}, {1}, 1);
  const Array y = bench_.Graph(*graph, {v})[0];
  WaitingCalls::Get().Next().Complete();
  bench_.backward_options.retain_graph = true;
  const auto one = bench_.Backward({y}, {bench_.Of({1})}), other = bench_.Backward({y}, {bench_.Of({10})});
  WaitingCall first = WaitingCalls::Get().Next(), second = WaitingCalls::Get().Next();
  second.Complete();
  first.Fail(absl::UnavailableError("the client has gone"));
  const auto third = bench_.Backward({y}, {bench_.Of({100})});
  WaitingCalls::Get().Next().Complete();
  std::vector<absl::StatusCode> codes = {bench_.Status(one.at(1)).code(), bench_.Status(other.at(1)).code()};
  EXPECT_THAT(codes, ElementsAre(absl::StatusCode::kUnavailable, absl::StatusCode::kOk));
  const float gradient = bench_.Values(other.at(1))[0];
  EXPECT_THAT(bench_.Values(third.at(1)), ElementsAre(10 * gradient));
}

TEST_F(PausedCallTest, WhatNobodyDifferentiatesGoesWithItsArrays) {
  const std::vector<Array> inputs = DenseInputs();
  bench_.Values(Call(inputs));
  bench_.Settle();
  const int64_t before = bench_.used();
  {
    std::vector<Array> made;
    for (int i = 0; i < 10; ++i) made.push_back(Call(inputs));
    bench_.Settle();
    EXPECT_GT(bench_.used(), before);
  }
  bench_.Settle();
  EXPECT_EQ(bench_.used(), before);
}

// Ten thousand numbers each: the arena and the output of a call are 80,000 bytes.
class CrowdedTest : public testing::Test {
 protected:
  static constexpr int64_t kBudget = 1'000'000;

  Array Call() { return bench_.Graph(*graph_, {x_})[0]; }
  float Gradient(const Array& y) {
    const auto gradients = bench_.Backward({y});
    EXPECT_EQ(bench_.Status(gradients.at(1)), absl::OkStatus());
    return bench_.Values(gradients.at(1))[0];
  }
  // Leaves no more than `bytes`.
  Array Fill(int64_t bytes) {
    bench_.options.recording = false;
    const Array all = bench_.Call("_zeros", {{"shape", absl::StrCat("(", (kBudget - bytes - bench_.used()) / 4, ",)")}});
    EXPECT_EQ(bench_.Status(all), absl::OkStatus());
    bench_.options.recording = true;
    return all;
  }

  ImperativeBench bench_{kBudget};
  const std::shared_ptr<CachedGraph> graph_ = Cached({Apply("sin", {Apply("square", {MakeVariable("x")})})}, {"x"});
  const Array x_ = bench_.Marked(bench_.Of(std::vector<float>(10'000, 0.5f)));
  const float wanted_ = std::cos(0.25f);
};

TEST_F(CrowdedTest, AThousandCallsThatWaitAreRefusedAndNobodyIsHarmed) {
  std::vector<Array> made;
  absl::Status refused;
  for (int i = 0; i < 1000; ++i) {
    Array y = Call();
    const absl::Status status = bench_.Status(y);
    if (status.ok()) made.push_back(std::move(y));
    refused.Update(status);
  }
  ASSERT_GT(made.size(), 3u);
  EXPECT_LT(made.size(), 20u);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat(made.size(), " recorded calls of graphs keep their memory for backward")));
  EXPECT_THAT(refused.message(), HasSubstr("call backward on what they have made, or free that"));
  made.resize(made.size() - 2);
  bench_.Settle();
  for (const Array& y : made) EXPECT_FLOAT_EQ(Gradient(y), wanted_);
  made.clear();
  EXPECT_FLOAT_EQ(Gradient(Call()), wanted_);
}

TEST_F(CrowdedTest, ACallThatWaitsKeepsNoOutputThatItsGradientDoesNotRead) {
  std::vector<Array> made;
  std::vector<int64_t> used;
  for (int i = 0; i < 5; ++i) {
    made.push_back(bench_.Call("negative", {}, Call()));
    ASSERT_EQ(bench_.Status(made.back()), absl::OkStatus());
    bench_.Settle();
    used.push_back(bench_.used());
  }
  EXPECT_LT(used[4] - used[1], 3 * 100'000) << "an arena and the negative, but not what that was made of";
  for (const Array& y : made) EXPECT_FLOAT_EQ(Gradient(y), -wanted_);
}

// A call of a graph with two hundred inputs takes little of the device's memory, and much of the host's.
TEST_F(CrowdedTest, WhatTheHostKeepsOfACallThatWaitsIsCharged) {
  std::vector<NodeEntry> variables;
  std::vector<std::string> names;
  std::vector<Array> inputs;
  const Array x = bench_.Marked(bench_.Of({0.5f}));
  for (int i = 0; i < 200; ++i) {
    names.push_back(absl::StrCat("v", i));
    variables.push_back(MakeVariable(names.back()));
    inputs.push_back(x);
  }
  const auto graph = Cached({Apply("sin", {Apply("add_n", variables)})}, names);
  const auto call = [&] { return bench_.Graph(*graph, inputs)[0]; };
  EXPECT_NEAR(Gradient(call()), 200 * std::cos(100.0f), 0.01);
  bench_.Settle();
  const int64_t before = bench_.used();
  std::vector<Array> made;
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    made.push_back(call());
    status = bench_.Status(made.back());
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("a recorded call that waits for backward"));
  EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(made.size() - 1, " recorded calls of graphs keep their memory")));
  EXPECT_NEAR(Gradient(made.front()), 200 * std::cos(100.0f), 0.01);
  made.clear();
  bench_.Settle();
  EXPECT_LE(bench_.used(), before);
}

TEST_F(CrowdedTest, AGradientThatHasNoRoomToRetainTheTapeChangesNothing) {
  Gradient(Call());
  const Array y = Call();
  bench_.Values(y);
  Array all = Fill(50'000);
  bench_.backward_options.retain_graph = true;
  const absl::Status status = bench_.Status(bench_.Backward({y}).at(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("backward with retain_graph=True"));
  all = Array();
  for (int i = 0; i < 2; ++i) EXPECT_FLOAT_EQ(Gradient(y), wanted_);
}

// Memory that is short ends idle programs, and the gradient's is compiled again.
TEST_F(CrowdedTest, ACallOutlivesItsProgram) {
  const Array y = Call();
  bench_.Values(y);
  const auto compiled = [&] { return bench_.OnLane([&] { return bench_.scheduler().num_compiled(); }); };
  EXPECT_EQ(compiled(), 1);
  bench_.options.recording = false;
  EXPECT_FALSE(bench_.Status(bench_.Call("_zeros", {{"shape", "(1000000,)"}})).ok()) << "more than there is";
  EXPECT_FLOAT_EQ(Gradient(y), wanted_);
  EXPECT_EQ(compiled(), 2);
}

}  // namespace
}  // namespace gluond
