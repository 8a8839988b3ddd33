// The tape behind recorded operators: when it ends, what it keeps, and what long ones take.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "tests/engine/imperative/imperative_bench.h"

namespace gluond {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class TapeTest : public RecordingTest {};

// The tape ends.

TEST_F(TapeTest, IsFreedByBackward) {
  const Array x = Marked({3});
  const Array y = Call("square", x);
  EXPECT_THAT(Grad(y, x), ElementsAre(6));
  const absl::Status second = bench_.BackwardStatus({y}, {x});
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.message(), HasSubstr("retain_graph=True"));
}

TEST_F(TapeTest, IsKeptWithRetainGraph) {
  const Array x = Marked({3});
  const Array y = Call("square", x);
  bench_.backward_options.retain_graph = true;
  EXPECT_THAT(Grad(y, x), ElementsAre(6));
  EXPECT_THAT(Grad(y, x), ElementsAre(6));
}

TEST_F(TapeTest, ALeafMayBeOnSeveralTapes) {
  const Array x = Marked({3});
  const Array y = Call("square", x), z = Times(x, 2);
  EXPECT_THAT(Grad(y, x), ElementsAre(6));
  EXPECT_THAT(Grad(z, x), ElementsAre(2));
  EXPECT_THAT(Grad(Call("square", x), x), ElementsAre(6));
}

TEST_F(TapeTest, APartlyFreedTapeIsNoTape) {
  const Array x = Marked({3});
  const Array h = Call("square", x);
  const Array y = Times(h, 2), z = Times(h, 3);
  EXPECT_THAT(Grad(y, x), ElementsAre(12));
  EXPECT_THAT(bench_.BackwardStatus({z}, {x}).message(), HasSubstr(kNotRecorded));
  EXPECT_FALSE(Times(h, 5).entry) << "what has no history is a constant";
}

// The tape keeps what gradients read.

TEST_F(TapeTest, LeavesNothingBehind) {
  const int64_t before = bench_.used();
  {
    const Array x = Marked(std::vector<float>(1000, 0.1f));
    Array y = x;
    for (int i = 0; i < 10; ++i) y = Call("tanh", y);
    const Array gradient = Grad1(y, x);
    EXPECT_TRUE(bench_.Status(gradient).ok());
    EXPECT_EQ(bench_.used() - before, 3 * 4000) << "x, y and the gradient";
  }
  EXPECT_EQ(bench_.used(), before);
}

TEST_F(TapeTest, AFreedNodeKeepsNoOtherOutputs) {
  const Array x = Marked(std::vector<float>(2000, 2));
  const int64_t before = bench_.used();
  auto parts = bench_.Outputs("SliceChannel", {{"num_outputs", "2"}, {"axis", "0"}}, {x});
  const Array held = parts[0];
  const Array gradient = Grad1(Call("square", parts[1]), x);
  parts.clear();
  EXPECT_EQ(bench_.Values(gradient)[1999], 4);
  EXPECT_EQ(bench_.used() - before, 4000 + 8000) << "`held`, and the gradient";
}

TEST_F(TapeTest, KeepsOnlyWhatGradientsRead) {
  const Array x = Marked(std::vector<float>(1000, 0.1f));
  const int64_t before = bench_.used();
  Array y = x;
  for (int i = 0; i < 10; ++i) y = Call("elemwise_add", y, Times(y, 0.5));
  EXPECT_EQ(bench_.used() - before, 4000) << "y";
  Array z = x;
  for (int i = 0; i < 10; ++i) z = Call("tanh", z);
  EXPECT_EQ(bench_.used() - before, 11 * 4000) << "tanh's gradient reads its output";
  z = {};
  EXPECT_EQ(bench_.used() - before, 4000);
}

TEST_F(TapeTest, UsesAsLittleAsItCan) {
  const Array x = Marked(std::vector<float>(100'000, 0.1f));
  Array y = x;
  for (int i = 0; i < 50; ++i) y = Call("tanh", y);
  const int64_t recorded = bench_.used();
  std::atomic<int64_t> most = 0;
  Array gradient = bench_.OnLane([&] {
    auto gradients = *bench_.imperative().Backward({y}, {}, {x}, {});
    most = bench_.used();
    return gradients[0].array;
  });
  y = {};
  EXPECT_TRUE(bench_.Status(gradient).ok());
  EXPECT_LE(bench_.used(), 2 * 400'000) << "x and its gradient";
  EXPECT_LE(most, recorded + 3 * 400'000);
}

TEST(Tape, HasALimit) {
  ImperativeBench bench(/*budget=*/1 << 20, /*most_nodes=*/10);
  const Array x = bench.Marked(bench.Of({1}));
  const AttrDict one = {{"scalar", "1"}};
  Array y = x;
  for (int i = 0; i < 9; ++i) y = bench.Call("_plus_scalar", one, y);
  ASSERT_EQ(bench.Status(y), absl::OkStatus());
  const Array more = bench.Call("_plus_scalar", one, y);
  EXPECT_EQ(bench.Status(more).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(bench.Status(more).message(), HasSubstr("--max_session_arrays"));
  EXPECT_THAT(bench.Values(bench.Grad({y}, {x})[0]), ElementsAre(1)) << "which frees it";
  EXPECT_EQ(bench.Status(bench.Call("_plus_scalar", one, x)), absl::OkStatus());
}

// Only what is asked for is computed: the data's gradient of a first layer would cost as much as the weight's.
TEST(Gradients, OnlyThoseWantedAreComputed) {
  ImperativeBench bench(/*budget=*/400'000);
  const Array w = bench.Marked(bench.Of(std::vector<float>(1000, 0.1f), {1, 1000}));
  const Array y = bench.Call("FullyConnected", {{"num_hidden", "1"}, {"no_bias", "True"}},
                             bench.Of(std::vector<float>(64'000, 1), {64, 1000}), w);
  EXPECT_THAT(bench.Values(bench.Grad({y}, {w})[0]), Each(64));
}

// Long tapes.

TEST_F(TapeTest, LongTapesCostWhatTheirLengthIs) {
  bench_.backward_options.create_graph = true;
  const Array x = Marked({0.1f});
  const Array y = bench_.OnLane([&] {
    const PreparedOpPtr sin = *PrepareOp("sin", {}, 1);
    Array y = x;
    for (int i = 0; i < 20'000; ++i) y = bench_.imperative().Invoke(sin, {y}, {.recording = true}).outputs[0];
    return y;
  });
  const auto begin = std::chrono::steady_clock::now();
  const Array gradient = Grad1(y, x);
  EXPECT_TRUE(bench_.Status(gradient).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15)) << "each node looked at the whole tape";
}

TEST_F(TapeTest, LongTapesEnd) {
  constexpr int kLength = 100'000;
  const Array x = Marked({0});
  const auto record = [&] {
    return bench_.OnLane([&] {
      const PreparedOpPtr plus = *PrepareOp("_plus_scalar", {{"scalar", "1"}}, 1);
      Array y = x;
      for (int i = 0; i < kLength; ++i) y = bench_.imperative().Invoke(plus, {y}, {.recording = true}).outputs[0];
      return y;
    });
  };
  Array y = record();
  EXPECT_THAT(bench_.Values(y), ElementsAre(kLength));
  bench_.OnLane([&] { y = {}; });  // Never differentiated.
  y = record();
  EXPECT_THAT(Grad(y, x), ElementsAre(1));
}

// A gradient of many operators gives way to others' work.
TEST_F(TapeTest, TakesTurnsWithOthers) {
  const Array x = Marked(std::vector<float>(200'000, 0.1f));
  Array y = x;
  for (int i = 0; i < 200; ++i) y = Call("tanh", y);
  Array gradient;
  bench_.OnLane([&] { gradient = (*bench_.imperative().Backward({y}, {}, {x}, {}))[0].array; });
  EXPECT_FALSE(bench_.IsKnown(gradient));
  EXPECT_TRUE(bench_.Status(gradient).ok());
  EXPECT_EQ(bench_.pending(), 0);
}

}  // namespace
}  // namespace gluond
