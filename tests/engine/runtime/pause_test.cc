// A run with a pause computes the first outputs, waits, and computes the rest from what it has kept.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/core/mutex.h"
#include "engine/runtime/executor_cache.h"
#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// y = (2 x)^2, then dx = y + head and w = 3 w.
class PauseTest : public testing::Test {
 protected:
  PauseTest() {
    const NodeEntry x = MakeVariable("x"), head = MakeVariable("head"), w = MakeVariable("w");
    const NodeEntry twice = MakeNode("t_scale", "twice", {x}, {{"by", "2"}});
    const NodeEntry y = MakeNode("t_square", "y", {twice});
    const NodeEntry dx = MakeNode("t_add", "dx", {MakeNode("t_add", "kept", {twice, head}), y});
    graph_ = std::make_shared<Graph>(Graph{{y, dx, MakeNode("t_scale", "step", {w}, {{"by", "3"}})}});
  }

  std::unique_ptr<Executor> Compile(uint32_t pause_after = 1) {
    auto executor = Executor::Compile(*graph_, SignatureOf(graph_->outputs, 3), {.is_train = true, .pause_after = pause_after},
                                      bench_.lane(), bench_.allocator());
    EXPECT_TRUE(executor.ok()) << executor.status();
    return *std::move(executor);
  }

  gluond::Run First(const Executor& executor, float x) {
    gluond::Run run = executor.NewRun();
    run.inputs[executor.input_index("x")] = bench_.Filled(3, x);
    return run;
  }
  gluond::Run Rest(const Executor& executor, float head, const Tensor& w) {
    gluond::Run run = executor.NewRun();
    run.inputs[executor.input_index("head")] = bench_.Filled(3, head);
    run.inputs[executor.input_index("w")] = w;
    run.outputs[2] = w;
    return run;
  }

  PausedRun Pause(Executor& executor, float x) {
    EXPECT_EQ(executor.RunAndWait(First(executor, x), nullptr), absl::OkStatus());
    return executor.TakePaused();
  }
  PausedRun Copy(Executor& executor, const PausedRun& paused) {
    absl::StatusOr<PausedRun> copy;
    bench_.lane().Post([&] { copy = executor.Copy(paused); });
    bench_.Drain();
    EXPECT_TRUE(copy.ok()) << copy.status();
    return copy.ok() ? *std::move(copy) : PausedRun();
  }
  absl::Status Continue(Executor& executor, PausedRun paused, gluond::Run rest) {
    absl::Status result = absl::UnknownError("not ended");
    bench_.lane().Post([&] {
      result = executor.Ready(std::move(paused), std::move(rest));
      if (result.ok()) executor.Continue([&result](absl::Status status) { result = std::move(status); });
    });
    bench_.Drain();
    return result;
  }
  // Does the rest with a head of tens, and expects dx of it.
  void ExpectRest(Executor& executor, PausedRun paused, float x) {
    ASSERT_EQ(Continue(executor, std::move(paused), Rest(executor, 10, bench_.Filled(3, 1))), absl::OkStatus());
    EXPECT_THAT(Values(executor.run().outputs[1]), Each(2 * x + 10 + 4 * x * x));
  }

  Bench bench_;
  std::shared_ptr<Graph> graph_;
};

TEST_F(PauseTest, ComputesTheFirstOutputsAndThenTheRest) {
  auto executor = Compile();
  for (int i = 0; i < 2; ++i) {
    std::vector<Tensor> first;
    ASSERT_EQ(executor->RunAndWait(First(*executor, 1), &first), absl::OkStatus());
    EXPECT_THAT(Values(first[0]), ElementsAre(4, 4, 4));
    EXPECT_FALSE(first[1].defined());
    const Tensor w = bench_.Filled(3, 5);
    ASSERT_EQ(Continue(*executor, executor->TakePaused(), Rest(*executor, 10, w)), absl::OkStatus());
    EXPECT_THAT(Values(executor->run().outputs[1]), ElementsAre(16, 16, 16));
    EXPECT_THAT(Values(w), ElementsAre(15, 15, 15)) << "in place";
    EXPECT_THAT(Values(first[0]), ElementsAre(4, 4, 4));
  }
}

TEST_F(PauseTest, ManyRunsOfOneExecutorPauseAtOnce) {
  auto executor = Compile();
  std::vector<PausedRun> paused;
  for (int i = 0; i < 3; ++i) paused.push_back(Pause(*executor, static_cast<float>(i)));
  ASSERT_EQ(executor->RunAndWait(First(*executor, 7), nullptr), absl::OkStatus());  // Nobody takes this one.
  for (int i : {1, 0, 2}) ExpectRest(*executor, std::move(paused[i]), static_cast<float>(i));
}

TEST_F(PauseTest, AnotherExecutorOfTheGraphGoesOn) {
  auto one = Compile(), other = Compile();
  PausedRun paused = Pause(*one, 3);
  one.reset();
  ExpectRest(*other, std::move(paused), 3);
}

TEST_F(PauseTest, ACopyGoesOnAsWell) {
  auto executor = Compile();
  PausedRun paused = Pause(*executor, 2);
  for (int i = 0; i < 2; ++i) ExpectRest(*executor, Copy(*executor, paused), 2);
  ExpectRest(*executor, std::move(paused), 2);
}

TEST_F(PauseTest, ACopyThatHasNoRoomIsRefused) {
  auto executor = Compile();
  const PausedRun paused = Pause(*executor, 2);
  const absl::StatusOr<Tensor> all =
      Tensor::Empty(bench_.allocator(), {bench_.budget().limit() - bench_.budget().used()}, DType::kUint8);
  ASSERT_TRUE(all.ok()) << all.status();
  absl::Status status;
  bench_.lane().Post([&] { status = executor->Copy(paused).status(); });
  bench_.Drain();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("a copy of the arena of a graph"));
}

TEST_F(PauseTest, WhatIsReadyNeedsNoMoreMemory) {
  auto executor = Compile();
  const Tensor w = bench_.Filled(3, 5);
  PausedRun refused = Pause(*executor, 1), taken = Pause(*executor, 2);
  gluond::Run rest = Rest(*executor, 10, w), same = Rest(*executor, 10, w);
  absl::Status without_room, ready, status;
  bench_.lane().Post([&] {
    const auto fill = [this] {
      return Tensor::Empty(bench_.allocator(), {bench_.budget().limit() - bench_.budget().used()}, DType::kUint8);
    };
    absl::StatusOr<Tensor> all = fill();
    without_room = executor->Ready(std::move(refused), std::move(rest));
    all = absl::CancelledError();
    ready = executor->Ready(std::move(taken), std::move(same));
    all = fill();
    executor->Continue([&](absl::Status done) { status = std::move(done); });
  });
  bench_.Drain();
  EXPECT_EQ(without_room.code(), absl::StatusCode::kResourceExhausted) << without_room;
  ASSERT_EQ(ready, absl::OkStatus());
  ASSERT_EQ(status, absl::OkStatus());
  EXPECT_THAT(Values(w), Each(15)) << "one of the two runs has written it";
  EXPECT_THAT(Values(executor->run().outputs[1]), Each(2 * 2 + 10 + 4 * 2 * 2));
}

// As where a client's operator infers other shapes the second time.
TEST_F(PauseTest, AnExecutorThatLaysTheArenaOutOtherwiseRefuses) {
  auto executor = Compile();
  auto other = Executor::Compile(*graph_, SignatureOf(graph_->outputs, 4), {.is_train = true, .pause_after = 1}, bench_.lane(),
                                 bench_.allocator());
  ASSERT_TRUE(other.ok()) << other.status();
  PausedRun paused = Pause(*executor, 2);
  const absl::Status status = Continue(**other, paused, Rest(**other, 10, bench_.Filled(4, 1)));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("compiled anew"));
  ExpectRest(*executor, std::move(paused), 2);
}

TEST_F(PauseTest, ARunThatGoesLeavesNothingBehind) {
  ExecutorCache cache(bench_.lane(), bench_.allocator());
  const auto key = bench_.KeyOf(graph_, 3, {.is_train = true, .pause_after = 1});
  PausedRun kept;
  for (int i = 0; i < 3; ++i) {
    bool paused = false;
    cache.Checkout(key, [&, i](absl::StatusOr<ExecutorLease> lease) {
      const auto held = std::make_shared<ExecutorLease>(*std::move(lease));
      Executor& executor = **held;
      executor.StartHere(First(executor, 1), [&, i, held](absl::Status status) {
        paused = status.ok();
        if (i == 1) kept = (*held)->TakePaused();
      });
    });
    while (!paused) bench_.Drain();
    bench_.Drain();
  }
  EXPECT_EQ(cache.num_compiled(), 1);
  EXPECT_EQ(cache.num_idle(), 1u);
  auto executor = Compile();
  ASSERT_EQ(executor->RunAndWait(First(*executor, 1), nullptr), absl::OkStatus());
  executor.reset();
  bench_.Drain();  // The lane lets go of it, too.
  cache.Clear();
  EXPECT_GT(bench_.budget().used(), 0);
  kept = PausedRun();
  EXPECT_EQ(bench_.budget().used(), 0);
}

TEST_F(PauseTest, WhatIsRefusedAfterThePauseHasWrittenNothing) {
  auto executor = Compile();
  PausedRun paused = Pause(*executor, 1);
  const Tensor w = bench_.Filled(3, 5);
  gluond::Run rest = Rest(*executor, 10, w);
  rest.inputs[executor->input_index("head")] = Tensor();
  const absl::Status status = Continue(*executor, std::move(paused), std::move(rest));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("input 'head' has no value"));
  EXPECT_THAT(Values(w), ElementsAre(5, 5, 5));
  EXPECT_TRUE(executor->idle());
}

TEST_F(PauseTest, TellsWhenAnOutputIsFinal) {
  auto executor = Compile(/*pause_after=*/2);  // The head comes first here.
  gluond::Run first = First(*executor, 1);
  first.inputs[executor->input_index("head")] = bench_.Filled(3, 10);
  std::vector<uint32_t> final_outputs;
  std::vector<float> seen;
  first.outputs = {Tensor(), bench_.Filled(3, 100), Tensor()};
  first.output_reqs = {kWriteTo, kAddTo, kWriteTo};
  const Tensor sum = first.outputs[1];
  first.on_output = [&](uint32_t k) {
    final_outputs.push_back(k);
    if (k == 1) seen = Values(sum);
  };
  ASSERT_EQ(executor->RunAndWait(std::move(first), nullptr), absl::OkStatus());
  EXPECT_THAT(final_outputs, ElementsAre(0, 1));
  EXPECT_THAT(seen, ElementsAre(116, 116, 116)) << "with what it was added to";
  gluond::Run rest = executor->NewRun();
  rest.inputs[executor->input_index("w")] = bench_.Filled(3, 1);
  rest.on_output = [&](uint32_t k) { final_outputs.push_back(k); };
  ASSERT_EQ(Continue(*executor, executor->TakePaused(), std::move(rest)), absl::OkStatus());
  EXPECT_THAT(final_outputs, ElementsAre(0, 1, 2));
}

TEST_F(PauseTest, APauseIsOneAfterOutputsThatThereAre) {
  const auto compile = [this](ExecutorOptions options) {
    return Executor::Compile(*graph_, SignatureOf(graph_->outputs, 3), options, bench_.lane(), bench_.allocator()).status();
  };
  EXPECT_THAT(compile({.is_train = true, .pause_after = 4}).message(), HasSubstr("a pause after 4 of 3 outputs"));
  const auto constants = std::make_shared<const absl::flat_hash_set<std::string>>(absl::flat_hash_set<std::string>{"w"});
  EXPECT_EQ(compile({.pause_after = 1, .constants = constants}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(compile({.pause_after = 1}), absl::OkStatus());
  EXPECT_EQ(compile({.is_train = true, .pause_after = 3}), absl::OkStatus());
}

TEST_F(PauseTest, TheRestHasAnOutputThatTheFirstPartMakes) {
  const NodeEntry x = MakeVariable("x"), square = MakeNode("t_square", "s", {x});
  const std::vector<NodeEntry> outputs = {MakeNode("t_add", "y", {square, x}), square,
                                          MakeNode("t_scale", "z", {square}, {{"by", "2"}})};
  auto executor = *Executor::Compile({outputs}, SignatureOf(outputs, 3), {.is_train = true, .pause_after = 1}, bench_.lane(),
                                     bench_.allocator());
  std::vector<Tensor> kept;  // Outputs of earlier runs, which nobody writes again.
  for (float value : {2.f, 3.f}) {
    ASSERT_EQ(executor->RunAndWait(First(*executor, value), nullptr), absl::OkStatus());
    EXPECT_THAT(Values(executor->run().outputs[0]), Each(value * value + value));
    ASSERT_EQ(Continue(*executor, executor->TakePaused(), executor->NewRun()), absl::OkStatus());
    EXPECT_THAT(Values(executor->run().outputs[1]), Each(value * value));
    EXPECT_THAT(Values(executor->run().outputs[2]), Each(2 * value * value));
    kept.push_back(executor->run().outputs[1]);
  }
  EXPECT_THAT(Values(kept[0]), Each(4.f));
}

TEST_F(PauseTest, AFirstOutputLiesInNoInputThatTheRestReads) {
  const NodeEntry x = MakeVariable("x"), head = MakeVariable("head");
  const std::vector<NodeEntry> outputs = {MakeNode("t_square", "y", {x}), MakeNode("t_add", "dx", {x, head})};
  auto executor = *Executor::Compile({outputs}, SignatureOf(outputs, 3), {.is_train = true, .pause_after = 1}, bench_.lane(),
                                     bench_.allocator());
  gluond::Run first = executor->NewRun();
  first.inputs[executor->input_index("x")] = first.outputs[0] = bench_.Filled(3, 2);
  EXPECT_THAT(executor->RunAndWait(std::move(first), nullptr).message(),
              HasSubstr("output 0 overlaps input 'x', which is read after the pause"));
}

}  // namespace
}  // namespace gluond
