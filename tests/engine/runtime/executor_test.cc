// An executor computes a graph's values, again and again.

#include "engine/runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/core/op.h"
#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ExecutorTest : public testing::Test {
 protected:
  std::vector<Tensor> MustRun(Executor& executor, std::vector<Tensor> inputs) {
    std::vector<Tensor> outputs;
    const absl::Status status = executor.RunAndWait(MakeRun(std::move(inputs)), &outputs);
    EXPECT_TRUE(status.ok()) << status;
    return outputs;
  }

  Bench bench_;
  const NodeEntry x_ = MakeVariable("x");
  const NodeEntry y_ = MakeVariable("y");
};

TEST_F(ExecutorTest, RegistryIsRight) { EXPECT_EQ(CheckRegistry(), absl::OkStatus()); }

TEST_F(ExecutorTest, ComputesValues) {
  const NodeEntry sum = MakeNode("t_add", "sum", {x_, y_});
  const NodeEntry twice = MakeNode("t_scale", "twice", {MakeNode("t_square", "square", {sum})}, {{"by", "2"}});
  auto executor = bench_.Compile({twice, sum});
  ASSERT_EQ(executor->inputs().size(), 2u);
  EXPECT_EQ(executor->inputs()[1].name, "y");
  EXPECT_EQ(executor->input_index("y"), 1);
  EXPECT_EQ(executor->input_index("z"), -1);
  for (float i = 0; i < 3; ++i) {
    const auto out = MustRun(*executor, {bench_.Of({1, 2, 3}), bench_.Filled(3, i)});
    EXPECT_THAT(Values(out[0]), ElementsAre(2 * (1 + i) * (1 + i), 2 * (2 + i) * (2 + i), 2 * (3 + i) * (3 + i)));
    EXPECT_THAT(Values(out[1]), ElementsAre(1 + i, 2 + i, 3 + i));
  }
}

TEST_F(ExecutorTest, ALentOutputStaysWhileSomebodyHoldsIt) {
  auto executor = bench_.Compile({MakeNode("t_scale", "s", {x_}, {{"by", "2"}})});
  const Tensor first = MustRun(*executor, {bench_.Filled(3, 1)})[0];
  const Tensor second = MustRun(*executor, {first})[0];  // Its own output is its next input.
  EXPECT_THAT(Values(first), ElementsAre(2, 2, 2));
  EXPECT_THAT(Values(second), ElementsAre(4, 4, 4));
  void* memory;
  { memory = MustRun(*executor, {first})[0].data(); }
  EXPECT_EQ(MustRun(*executor, {first})[0].data(), memory) << "released memory is used again";
}

TEST_F(ExecutorTest, MutatesAuxiliaryStates) {
  auto executor = bench_.Compile({MakeNode("t_bump", "b", {x_, y_})});
  EXPECT_FALSE(executor->inputs()[0].mutated);
  EXPECT_TRUE(executor->inputs()[1].mutated);
  const Tensor count = bench_.Filled(3, 0);
  for (int i = 0; i < 3; ++i) MustRun(*executor, {bench_.Filled(3, 7), count});
  EXPECT_THAT(Values(count), ElementsAre(3, 3, 3));
}

TEST_F(ExecutorTest, AnOutputThatIsNotWantedTakesMemoryOnlyWhereOthersReadIt) {
  const NodeEntry square = MakeNode("t_square", "s", {x_});
  const std::vector<NodeEntry> outputs = {square, MakeNode("t_scale", "twice", {square}, {{"by", "2"}}), y_};
  const auto held = [&](std::vector<OpReqType> reqs) {
    auto executor = *Executor::Compile({outputs}, SignatureOf(outputs, 3), {}, bench_.lane(), bench_.allocator());
    const auto to = [this] { return bench_.Filled(3, 0); };
    auto run = MakeRun({bench_.Filled(3, 7), bench_.Filled(3, 1)}, {to(), to(), to()}, std::move(reqs));
    const int64_t program = executor->own_bytes();
    EXPECT_EQ(executor->RunAndWait(std::move(run), nullptr), absl::OkStatus());
    return executor->own_bytes() > program;
  };
  EXPECT_FALSE(held({kWriteTo, kNullOp, kWriteTo}));
  EXPECT_TRUE(held({kNullOp, kWriteTo, kWriteTo})) << "the other output is made of it";
}

TEST_F(ExecutorTest, DrawsTheSameNumbersForTheSameSeedAndRun) {
  const NodeEntry a = MakeNode("t_random", "a", {x_}), b = MakeNode("t_random", "b", {x_});
  auto executor = bench_.Compile({a, b}, 64);
  const auto draw = [&](uint64_t seed, uint32_t number) {
    auto run = MakeRun({bench_.Filled(64, 0)});
    run.seed = seed;
    run.random_run = number;
    std::vector<Tensor> outputs;
    EXPECT_EQ(executor->RunAndWait(std::move(run), &outputs), absl::OkStatus());
    return std::make_pair(Values(outputs[0]), Values(outputs[1]));
  };
  const auto first = draw(1, 0);
  EXPECT_EQ(draw(1, 0), first);
  EXPECT_NE(first.first, first.second) << "each node has a stream of its own";
  EXPECT_NE(draw(1, 1).first, first.first);
  EXPECT_NE(draw(2, 0).first, first.first);
}

TEST_F(ExecutorTest, GivesTheSameBitsTwice) {
  NodeEntry value = MakeNode("t_add", "r", {x_, MakeNode("t_random", "a", {x_})});
  for (int i = 0; i < 9; ++i) value = MakeNode("t_square", absl::StrCat("s", i), {value});
  const auto bits = [&](Executor& executor) { return Values(MustRun(executor, {bench_.Filled(1000, 0.25f)})[0]); };
  auto one = bench_.Compile({value}, 1000);
  auto two = bench_.Compile({value}, 1000);
  const std::vector<float> first = bits(*one);
  EXPECT_EQ(bits(*one), first);
  EXPECT_EQ(bits(*two), first);
}

TEST_F(ExecutorTest, RunsAChainOf100000Nodes) {
  NodeEntry value = x_;
  for (int i = 0; i < 100000; ++i) value = MakeNode("t_add", absl::StrCat("n", i), {value, y_});
  auto executor = bench_.Compile({value}, 1);
  EXPECT_EQ(Values(MustRun(*executor, {bench_.Of({5}), bench_.Of({1})})[0])[0], 100005);
  EXPECT_LE(executor->arena_bytes(), 128);
}

TEST_F(ExecutorTest, ReusesScratchSpace) {
  const NodeEntry small = MakeNode("t_scratch", "small", {x_}, {{"bytes", "4000"}});
  auto executor = bench_.Compile({MakeNode("t_scratch", "large", {small}, {{"bytes", "100000"}})}, 1000);
  const Tensor input = bench_.Filled(1000, 3);
  EXPECT_EQ(Values(MustRun(*executor, {input})[0])[999], 3);
  MustRun(*executor, {input});
  const int64_t used = bench_.budget().used();
  MustRun(*executor, {input});
  EXPECT_EQ(bench_.budget().used(), used);
}

TEST_F(ExecutorTest, SaysWhatIsWrongWithARun) {
  auto executor = bench_.Compile({MakeNode("t_add", "sum", {x_, y_})});
  const auto error = [&](std::vector<Tensor> inputs, std::vector<Tensor> outputs, std::vector<OpReqType> reqs = {}) {
    const absl::Status status = executor->RunAndWait(MakeRun(std::move(inputs), std::move(outputs), std::move(reqs)), nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const Tensor x = bench_.Filled(3, 1), y = bench_.Filled(3, 2), other = bench_.Filled(4, 0);
  EXPECT_EQ(error({x}, {}), "the graph has 2 inputs, the run binds 1");
  EXPECT_EQ(error({x, Tensor()}, {}), "input 'y' has no value");
  EXPECT_EQ(error({x, other}, {}), "input 'y': compiled for float32 [3] on cpu, got float32 [4] on cpu");
  EXPECT_EQ(error({x, y}, {other}), "output 0: compiled for float32 [3] on cpu, got float32 [4] on cpu");
  EXPECT_EQ(error({x, y}, {Tensor()}, {kAddTo}), "output 0: kAddTo needs a tensor to add to");
}

TEST_F(ExecutorTest, PutsTheNodeInFrontOfAnOperatorsError) {
  auto executor = bench_.Compile({MakeNode("t_call", "here", {x_})});
  KernelHook = [] { return absl::InternalError("it broke"); };
  EXPECT_EQ(executor->RunAndWait(MakeRun({bench_.Filled(3, 1)}), nullptr),
            absl::InternalError("Error in operator here (t_call): it broke"));
  KernelHook = [] { return absl::OkStatus(); };
  EXPECT_THAT(Values(MustRun(*executor, {bench_.Filled(3, 1)})[0]), ElementsAre(1, 1, 1)) << "the next run is fine";
}

TEST_F(ExecutorTest, RefusesASecondRunAtOnce) {
  auto executor = bench_.Compile({MakeNode("t_call", "c", {x_})});
  absl::Status second;
  bool told = false;
  KernelHook = [&] {
    executor->Start(MakeRun({bench_.Filled(3, 1)}), [&](absl::Status status) {
      second = status;
      told = true;
    });
    return absl::OkStatus();
  };
  MustRun(*executor, {bench_.Filled(3, 1)});
  bench_.Drain();
  EXPECT_TRUE(told);
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(executor->idle());
}

TEST_F(ExecutorTest, EndsItsRunWithoutTheExecutor) {
  auto executor = bench_.Compile({MakeNode("t_call", "c", {x_})});
  absl::Status result = absl::UnknownError("not told");
  KernelHook = [&] {
    executor.reset();
    return absl::OkStatus();
  };
  executor->Start(MakeRun({bench_.Filled(3, 1)}), [&](absl::Status status) { result = status; });
  bench_.Drain();
  EXPECT_EQ(result, absl::OkStatus());
}

}  // namespace
}  // namespace gluond
