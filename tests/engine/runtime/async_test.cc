// An operator that completes later: it frees its lane, and its run goes on, fails or is cancelled.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

using std::chrono::milliseconds;
using testing::Each;

// A promise that may be told more than once, and counts.
class Outcome {
 public:
  Executor::Done done() {
    return [this](absl::Status status) {
      if (++times_ == 1) promise_.set_value(std::move(status));
    };
  }
  absl::Status Wait() { return promise_.get_future().get(); }
  int times() const { return times_; }

 private:
  std::atomic<int> times_ = 0;
  std::promise<absl::Status> promise_;
};

class AsyncTest : public testing::Test {
 protected:
  void SetUp() override {
    AsyncHook = [this](const TBlob& in, const TBlob& out, const Completion& completion) {
      in_ = in;
      out_ = out;
      completion_ = completion;
      called_.set_value();
      return absl::OkStatus();
    };
  }

  // The operator's far end.
  void WriteDouble() {
    for (int64_t i = 0; i < in_.Size(); ++i) out_.dptr<float>()[i] = 2 * in_.dptr<float>()[i];
  }
  void AwaitCall() {
    called_.get_future().wait();
    called_ = {};
  }

  Bench bench_;
  const NodeEntry x_ = MakeVariable("x");
  const NodeEntry async_ = MakeNode("t_async", "async", {MakeNode("t_scale", "before", {x_}, {{"by", "3"}})});
  const NodeEntry after_ = MakeNode("t_square", "after", {async_});
  const Tensor ones_ = bench_.Filled(3, 1);

  TBlob in_, out_;
  Completion completion_;
  std::promise<void> called_;
};

TEST_F(AsyncTest, CompletesFromAnotherThread) {
  auto executor = bench_.Compile({after_});
  for (int i = 0; i < 3; ++i) {
    std::thread other([this] {
      AwaitCall();
      WriteDouble();
      std::exchange(completion_, {})(absl::OkStatus());
    });
    std::vector<Tensor> out;
    ASSERT_EQ(executor->RunAndWait(MakeRun({ones_}), &out), absl::OkStatus());
    EXPECT_THAT(Values(out[0]), Each(36));
    other.join();
  }
}

TEST_F(AsyncTest, CompletesWithinTheKernel) {
  auto executor = bench_.Compile({after_});
  AsyncHook = [this](const TBlob& in, const TBlob& out, const Completion& completion) {
    in_ = in;
    out_ = out;
    WriteDouble();
    completion(absl::OkStatus());
    return absl::OkStatus();
  };
  for (int i = 0; i < 3; ++i) {
    std::vector<Tensor> out;
    ASSERT_EQ(executor->RunAndWait(MakeRun({ones_}), &out), absl::OkStatus());
    EXPECT_THAT(Values(out[0]), Each(36));
  }
}

TEST_F(AsyncTest, Fails) {
  auto executor = bench_.Compile({after_});
  Outcome outcome;
  executor->Start(MakeRun({ones_}), outcome.done());
  AwaitCall();
  completion_(absl::UnavailableError("the provider is gone"));
  EXPECT_EQ(outcome.Wait(), absl::UnavailableError("Error in operator async (t_async): the provider is gone"));
  EXPECT_FALSE(executor->idle()) << "somebody may still read what the operator was given";
  completion_ = {};
  EXPECT_TRUE(executor->idle());
}

TEST_F(AsyncTest, FailsInTheKernel) {
  auto executor = bench_.Compile({after_});
  AsyncHook = [](const TBlob&, const TBlob&, const Completion&) { return absl::InternalError("no stream"); };
  EXPECT_EQ(executor->RunAndWait(MakeRun({ones_}), nullptr), absl::InternalError("Error in operator async (t_async): no stream"));
  EXPECT_TRUE(executor->idle());
}

TEST_F(AsyncTest, FailsWhenTheCallIsDropped) {
  auto executor = bench_.Compile({after_});
  Outcome outcome;
  executor->Start(MakeRun({ones_}), outcome.done());
  AwaitCall();
  completion_ = {};
  const absl::Status status = outcome.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("dropped its call"));
}

TEST_F(AsyncTest, CountsTheFirstCompletionOnly) {
  auto executor = bench_.Compile({after_});
  Outcome first;
  executor->Start(MakeRun({ones_}), first.done());
  AwaitCall();
  const Completion old = completion_;
  WriteDouble();
  old(absl::OkStatus());
  old(absl::InternalError("the second one"));
  EXPECT_EQ(first.Wait(), absl::OkStatus());

  Outcome second;
  executor->Start(MakeRun({ones_}), second.done());
  AwaitCall();
  old(absl::InternalError("of the run before"));
  bench_.Drain();
  EXPECT_EQ(second.times(), 0);
  completion_(absl::OkStatus());
  EXPECT_EQ(second.Wait(), absl::OkStatus());
  bench_.Drain();
  EXPECT_EQ(first.times() + second.times(), 2);
}

TEST_F(AsyncTest, LetsOtherRunsPassWhileSuspended) {
  auto suspended = bench_.Compile({after_});
  auto other = bench_.Compile({MakeNode("t_scale", "other", {x_}, {{"by", "5"}})});
  Outcome outcome;
  suspended->Start(MakeRun({ones_}), outcome.done());
  AwaitCall();
  for (int i = 0; i < 10; ++i) {
    std::vector<Tensor> out;
    ASSERT_EQ(other->RunAndWait(MakeRun({ones_}), &out), absl::OkStatus());
    EXPECT_THAT(Values(out[0]), Each(5));
  }
  EXPECT_EQ(outcome.times(), 0);
  WriteDouble();
  completion_(absl::OkStatus());
  EXPECT_EQ(outcome.Wait(), absl::OkStatus());
  EXPECT_THAT(Values(suspended->run().outputs[0]), Each(36));
}

TEST_F(AsyncTest, IsCancelledThoughTheOperatorNeverCompletes) {
  auto executor = bench_.Compile({after_});
  const auto cancellation = std::make_shared<Cancellation>();
  Outcome outcome;
  executor->Start(MakeRun({ones_}, {}, {}, cancellation), outcome.done());
  AwaitCall();
  cancellation->Cancel();
  EXPECT_EQ(outcome.Wait().code(), absl::StatusCode::kCancelled);

  EXPECT_FALSE(executor->idle()) << "the operator still has its memory";
  EXPECT_EQ(executor->RunAndWait(MakeRun({ones_}), nullptr).code(), absl::StatusCode::kFailedPrecondition);
  executor.reset();
  WriteDouble();  // Its blobs are still there: the address sanitizer watches.
  completion_ = {};
  bench_.Drain();
  EXPECT_EQ(outcome.times(), 1);
}

TEST_F(AsyncTest, IsIdleAgainWhenALateCallIsDropped) {
  auto executor = bench_.Compile({after_});
  const auto cancellation = std::make_shared<Cancellation>();
  Outcome outcome;
  executor->Start(MakeRun({ones_}, {}, {}, cancellation), outcome.done());
  AwaitCall();
  cancellation->Cancel();
  EXPECT_EQ(outcome.Wait().code(), absl::StatusCode::kCancelled);
  completion_(absl::OkStatus());
  EXPECT_FALSE(executor->idle());
  completion_ = {};
  EXPECT_TRUE(executor->idle());
  Outcome next;
  executor->Start(MakeRun({ones_}), next.done());
  AwaitCall();
  WriteDouble();
  completion_(absl::OkStatus());
  EXPECT_EQ(next.Wait(), absl::OkStatus());
}

// The caller may free or reuse its memory when its run has ended: an operator that goes on must not write there.
TEST_F(AsyncTest, NeverWritesTheCallersMemoryItself) {
  auto executor = bench_.Compile({async_});
  const Tensor mine = bench_.Filled(3, 7);
  const auto cancellation = std::make_shared<Cancellation>();
  Outcome outcome;
  executor->Start(MakeRun({ones_}, {mine}, {}, cancellation), outcome.done());
  AwaitCall();
  cancellation->Cancel();
  EXPECT_EQ(outcome.Wait().code(), absl::StatusCode::kCancelled);
  WriteDouble();
  EXPECT_THAT(Values(mine), Each(7));
}

// Nor what belongs to others: a model's auxiliary state is written on the lane, when the call has succeeded.
TEST_F(AsyncTest, MutatesACopyThatTheRunTakesOver) {
  auto executor = bench_.Compile({MakeNode("t_async_bump", "async", {x_, MakeVariable("count")})});
  const Tensor count = bench_.Filled(3, 7);
  const auto write = [this](float value) {
    for (int64_t i = 0; i < in_.Size(); ++i) in_.dptr<float>()[i] = value;
  };
  const auto cancellation = std::make_shared<Cancellation>();
  Outcome cancelled;
  executor->Start(MakeRun({ones_, count}, {}, {}, cancellation), cancelled.done());
  AwaitCall();
  EXPECT_EQ(*in_.dptr<float>(), 7);
  cancellation->Cancel();
  EXPECT_EQ(cancelled.Wait().code(), absl::StatusCode::kCancelled);
  write(8);
  std::exchange(completion_, {})(absl::OkStatus());
  bench_.Drain();
  EXPECT_THAT(Values(count), Each(7));

  Outcome failed;
  executor->Start(MakeRun({ones_, count}), failed.done());
  AwaitCall();
  write(8);
  std::exchange(completion_, {})(absl::UnknownError("after half of it"));
  EXPECT_EQ(failed.Wait().code(), absl::StatusCode::kUnknown);
  EXPECT_THAT(Values(count), Each(7));

  Outcome succeeded;
  executor->Start(MakeRun({ones_, count}), succeeded.done());
  AwaitCall();
  EXPECT_EQ(*in_.dptr<float>(), 7);
  write(9);
  EXPECT_THAT(Values(count), Each(7));
  std::exchange(completion_, {})(absl::OkStatus());
  EXPECT_EQ(succeeded.Wait(), absl::OkStatus());
  EXPECT_THAT(Values(count), Each(9));
}

TEST_F(AsyncTest, MissesItsDeadlineWhileSuspended) {
  auto executor = bench_.Compile({after_});
  const auto start = Cancellation::Clock::now();
  Outcome outcome;
  executor->Start(MakeRun({ones_}, {}, {}, std::make_shared<Cancellation>(start + milliseconds(30))), outcome.done());
  EXPECT_EQ(outcome.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(Cancellation::Clock::now() - start, milliseconds(30));
}

TEST_F(AsyncTest, StopsBetweenNodes) {
  const NodeEntry hook = MakeNode("t_call", "hook", {x_});
  auto executor = bench_.Compile({MakeNode("t_call", "never", {hook})});
  const auto cancellation = std::make_shared<Cancellation>();
  int calls = 0;
  KernelHook = [&] {
    ++calls;
    cancellation->Cancel();
    return absl::OkStatus();
  };
  const absl::Status status = executor->RunAndWait(MakeRun({ones_}, {}, {}, cancellation), nullptr);
  EXPECT_EQ(status, absl::CancelledError("Error in operator never (t_call): the call was cancelled"));
  EXPECT_EQ(calls, 1);
  const auto late = std::make_shared<Cancellation>(Cancellation::Clock::now());
  EXPECT_EQ(executor->RunAndWait(MakeRun({ones_}, {}, {}, late), nullptr).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(calls, 1);
}

// Completion, cancellation and deadline at about the same moment, many times: exactly one answer each.
TEST_F(AsyncTest, EndsOnceWhateverComesFirst) {
  for (int i = 0; i < 200; ++i) {
    auto executor = bench_.Compile({after_});
    const auto cancellation = std::make_shared<Cancellation>(Cancellation::Clock::now() + milliseconds(i % 3));
    Outcome outcome;
    std::thread completer;
    AsyncHook = [&completer](const TBlob&, const TBlob&, const Completion& completion) {
      completer = std::thread([completion] { completion(absl::OkStatus()); });
      return absl::OkStatus();
    };
    executor->Start(MakeRun({ones_}, {}, {}, cancellation), outcome.done());
    std::thread canceller([&] { cancellation->Cancel(); });
    if (i % 2 == 0) executor.reset();
    const absl::Status status = outcome.Wait();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) << status;
    canceller.join();
    if (completer.joinable()) completer.join();
    bench_.Drain();
    EXPECT_EQ(outcome.times(), 1);
  }
}

}  // namespace
}  // namespace gluond
