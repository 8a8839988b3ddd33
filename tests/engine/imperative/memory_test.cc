// Whose memory a call may overwrite, what it writes of its inputs, and what is let go of.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/core/graph.h"
#include "tests/engine/imperative/imperative_bench.h"

namespace gluond {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

using MemoryTest = ImperativeTest;

TEST_F(MemoryTest, OverwritesWhatNobodyElseHolds) {
  Array x = bench_.Of({1, 2});
  const void* const memory = bench_.Address(x);
  const Array y = Plus1(std::move(x));
  EXPECT_EQ(bench_.Address(y), memory);
  EXPECT_THAT(bench_.Values(y), ElementsAre(2, 3));
}

TEST_F(MemoryTest, LeavesWhatAnotherNameHolds) {
  Array x = bench_.Of({1, 2});
  const Array other = x;
  EXPECT_THAT(bench_.Values(Plus1(std::move(x))), ElementsAre(2, 3));
  EXPECT_THAT(bench_.Values(other), ElementsAre(1, 2));
}

TEST_F(MemoryTest, LeavesWhatIsSavedOnTheTape) {
  bench_.options.recording = true;
  Array x = bench_.Marked(bench_.Of({3}));
  Array squared = bench_.Call("square", {}, x);
  Array y = bench_.Call("square", {}, squared);  // Its gradient reads `squared`.
  Array z = bench_.Call("_plus_scalar", kOne, std::move(squared));
  EXPECT_THAT(bench_.Values(z), ElementsAre(10));
  EXPECT_THAT(bench_.Values(bench_.Grad({y}, {x})[0]), ElementsAre(4 * 27));
}

TEST_F(MemoryTest, LeavesABufferThatAReplyHolds) {
  Array x = bench_.Of({1, 2});
  const Tensor reply = x.value->tensor();
  EXPECT_THAT(bench_.Values(Plus1(std::move(x))), ElementsAre(2, 3));
  EXPECT_EQ(reply.data<float>()[0], 1);
}

TEST_F(MemoryTest, LeavesAnInputThatComesTwice) {
  Array x = bench_.Of({1, 2});
  Array same = x;
  EXPECT_THAT(bench_.Values(bench_.Call("elemwise_mul", {}, std::move(x), std::move(same))), ElementsAre(1, 4));
}

TEST_F(MemoryTest, LeavesWhatADifferentShapeShares) {
  Array x = bench_.Of({1, 2});
  Array row = bench_.Call("Reshape", {{"shape", "(1, 2)"}}, x);
  EXPECT_EQ(bench_.Address(row), bench_.Address(x)) << "a reshape copies nothing";
  EXPECT_EQ(bench_.ShapeOf(row), (Shape{1, 2}));
  EXPECT_THAT(bench_.Values(Plus1(std::move(row))), ElementsAre(2, 3));
  EXPECT_THAT(bench_.Values(x), ElementsAre(1, 2));
}

TEST_F(MemoryTest, OverwritesThroughAChainThatWaits) {
  WaitingCall call;
  Array x = Waiting(1, &call);
  Array y = Plus1(Plus1(Plus1(std::move(x))));
  const int64_t before = bench_.used();
  call.Complete();
  EXPECT_THAT(bench_.Values(y), ElementsAre(5));
  EXPECT_LE(bench_.used(), before + 4) << "one buffer is enough";
}

TEST_F(MemoryTest, LetsGoOfEverything) {
  const int64_t before = bench_.used();
  {
    Array x = bench_.Of(std::vector<float>(1000));
    for (int i = 0; i < 10; ++i) x = bench_.Call("square", {}, x);
    EXPECT_LE(bench_.used(), before + 3 * 4000);
  }
  bench_.Settle();
  EXPECT_EQ(bench_.used(), before);
}

// Inputs that a call writes.

TEST_F(MemoryTest, WrittenInputsHaveNewValues) {
  const Array x = bench_.Of({1, 3}, {2, 1}), gamma = bench_.Of({1}), beta = bench_.Of({0});
  const Array mean = bench_.Of({0}), var = bench_.Of({1});
  std::vector<std::pair<uint32_t, ValuePtr>> written;
  bench_.Outputs("BatchNorm", {{"momentum", "0.5"}}, {x, gamma, beta, mean, var}, &written);
  ASSERT_THAT(written, SizeIs(2));
  EXPECT_EQ(written[0].first, 3);
  EXPECT_EQ(written[1].first, 4);
  EXPECT_THAT(bench_.Values(written[0].second), ElementsAre(1));
  EXPECT_THAT(bench_.Values(written[1].second), ElementsAre(1));
  EXPECT_THAT(bench_.Values(mean), ElementsAre(0)) << "who holds the old value keeps it";
}

TEST_F(MemoryTest, WritesInputsInPlaceWhereNobodyElseHoldsThem) {
  const AttrDict attrs = {{"lr", "1"}, {"momentum", "0.5"}};
  Array weight = bench_.Of({10}), momentum = bench_.Of({2});
  const Array gradient = bench_.Of({1});
  const void* const memory = bench_.Address(momentum);
  const void* const weights = bench_.Address(weight);
  std::vector<Array> inputs;
  inputs.push_back(std::move(weight));
  inputs.push_back(gradient);
  inputs.push_back(std::move(momentum));
  std::vector<std::pair<uint32_t, ValuePtr>> written;
  const Array updated = bench_.Outputs("sgd_mom_update", attrs, std::move(inputs), &written)[0];
  ASSERT_THAT(written, SizeIs(1));
  EXPECT_THAT(bench_.Values(written[0].second), ElementsAre(0));  // 0.5 * 2 - 1.
  EXPECT_EQ(written[0].second->tensor().data(), memory);
  EXPECT_THAT(bench_.Values(updated), ElementsAre(10));
  EXPECT_EQ(bench_.Address(updated), weights) << "an update needs no second weight";
}

TEST_F(MemoryTest, OneArrayAsTwoWrittenInputsIsCopied) {
  const Array x = bench_.Of({1, 3}, {2, 1}), one = bench_.Of({1});
  std::vector<std::pair<uint32_t, ValuePtr>> written;
  bench_.Outputs("BatchNorm", {{"momentum", "0.5"}}, {x, one, one, one, one}, &written);
  ASSERT_THAT(written, SizeIs(2));
  EXPECT_THAT(bench_.Values(written[0].second), ElementsAre(1.5));
  EXPECT_THAT(bench_.Values(written[1].second), ElementsAre(1));
  EXPECT_THAT(bench_.Values(one), ElementsAre(1));
}

// Limits.

TEST(Budget, AFailedCallKeepsNone) {
  ImperativeBench bench(/*budget=*/70'000);
  const Array x = bench.Of(std::vector<float>(10'000));
  const auto parts = bench.Outputs("SliceChannel", {{"num_outputs", "2"}, {"axis", "0"}}, {x});
  EXPECT_EQ(bench.Status(parts[0]).code(), absl::StatusCode::kResourceExhausted) << "the second does not fit";
  EXPECT_EQ(bench.used(), 40'000);
}

// Idle executors are a convenience: they go before a call is refused.
TEST(Budget, IdleGraphsMakeRoom) {
  ImperativeBench bench(/*budget=*/100'000);
  const auto graph = CachedGraph::Create({{MakeNode("square", "y", {MakeVariable("x")})}}, {"x"});
  const Array y = bench.Graph(**graph, {bench.Call("_ones", {{"shape", "(10000,)"}})})[0];
  EXPECT_EQ(bench.Status(y), absl::OkStatus());
  const std::vector<float> values = bench.Values(y);
  EXPECT_EQ(bench.Status(bench.Graph(**graph, {y})[0]), absl::OkStatus());
  const int64_t program = bench.used() - 80'000;
  EXPECT_GT(program, 0) << "the executor keeps its output's memory, too";
  EXPECT_LT(program, 4'000);
  EXPECT_EQ(bench.Status(bench.Call("_zeros", {{"shape", "(14000,)"}})), absl::OkStatus());
  EXPECT_EQ(bench.Values(y), values);
}

}  // namespace
}  // namespace gluond
