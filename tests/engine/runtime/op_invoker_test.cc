// Single operators, by name.

#include "engine/runtime/op_invoker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

using testing::Each;
using testing::HasSubstr;

class OpInvokerTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<Tensor>> Invoke(absl::string_view op, AttrDict attrs, std::vector<Tensor> inputs,
                                             OpInvoker::Options options = {}) {
    std::promise<absl::StatusOr<std::vector<Tensor>>> result;
    invoker_.Invoke(op, std::move(attrs), std::move(inputs), std::move(options),
                    [&](absl::StatusOr<std::vector<Tensor>> r) { result.set_value(std::move(r)); });
    return result.get_future().get();
  }

  Bench bench_;
  OpInvoker invoker_{bench_.lane(), bench_.allocator(), 4};
  const Tensor two_ = bench_.Filled(3, 2);
};

TEST_F(OpInvokerTest, RunsAnOperator) {
  auto sum = Invoke("t_add", {}, {two_, two_});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_THAT(Values(sum->at(0)), Each(4));
  auto split = Invoke("t_split", {}, {two_});
  ASSERT_EQ(split->size(), 2u);
  EXPECT_THAT(Values(split->at(1)), Each(1));
}

TEST_F(OpInvokerTest, CompilesEachCallOnce) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(Values(Invoke("t_scale", {{"by", "3"}}, {two_})->at(0)), Each(6));
    EXPECT_THAT(Values(Invoke("t_scale", {{"by", "4"}}, {two_})->at(0)), Each(8));
  }
  EXPECT_EQ(invoker_.cache().num_compiled(), 2);
}

TEST_F(OpInvokerTest, ResultsStayWhileTheyAreHeld) {
  const auto six = Invoke("t_scale", {{"by", "3"}}, {two_});
  const auto twelve = Invoke("t_scale", {{"by", "3"}}, {bench_.Filled(3, 4)});
  EXPECT_THAT(Values(six->at(0)), Each(6));
  EXPECT_THAT(Values(twelve->at(0)), Each(12));
}

TEST_F(OpInvokerTest, ResultsAreNotKept) {
  const int64_t before = bench_.budget().used();
  for (int64_t n = 1000; n < 1003; ++n) ASSERT_TRUE(Invoke("t_scale", {{"by", "3"}}, {bench_.Filled(n, 1)}).ok());
  bench_.Drain();
  EXPECT_EQ(bench_.budget().used(), before);
}

TEST_F(OpInvokerTest, KeepsABoundedNumberOfCalls) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Invoke("t_scale", {{"by", absl::StrCat(i)}}, {two_}).ok());
    bench_.Drain();
    EXPECT_LE(invoker_.cache().num_idle(), 4u);
  }
}

TEST_F(OpInvokerTest, DrawsBySeedAndRun) {
  const auto draw = [&](uint64_t seed, uint32_t run) {
    OpInvoker::Options options;
    options.seed = seed;
    options.random_run = run;
    return Values(Invoke("t_random", {}, {two_}, options)->at(0));
  };
  EXPECT_EQ(draw(1, 0), draw(1, 0));
  EXPECT_NE(draw(1, 0), draw(1, 1));
  EXPECT_NE(draw(1, 0), draw(2, 0));
}

// A cancelled call ends at once, and its memory with the operator that uses it: the address sanitizer watches the writes.
TEST_F(OpInvokerTest, KeepsACallsMemoryForAnOperatorThatGoesOn) {
  TBlob in, out;
  Completion completion;
  std::promise<void> called;
  AsyncHook = [&](const TBlob& x, const TBlob& y, const Completion& right) {
    in = x;
    out = y;
    completion = right;
    called.set_value();
    return absl::OkStatus();
  };
  for (const char* op : {"t_async", "t_async_bump"}) {
    called = {};
    std::vector<Tensor> inputs = {bench_.Filled(3, 1)};
    if (op == absl::string_view("t_async_bump")) inputs.push_back(bench_.Filled(3, 2));
    const std::weak_ptr<Buffer> memory = inputs[0].buffer();
    OpInvoker::Options options;
    options.cancellation = std::make_shared<Cancellation>();
    const auto cancellation = options.cancellation;
    std::promise<absl::Status> ended;
    invoker_.Invoke(op, {}, std::move(inputs), std::move(options),
                    [&](absl::StatusOr<std::vector<Tensor>> result) { ended.set_value(result.status()); });
    called.get_future().wait();
    cancellation->Cancel();
    EXPECT_EQ(ended.get_future().get().code(), absl::StatusCode::kCancelled);
    bench_.Drain();
    EXPECT_FALSE(memory.expired()) << op;
    for (int64_t i = 0; i < in.Size(); ++i) out.dptr<float>()[i] = in.dptr<float>()[i];
    std::memcpy(in.data, out.data, in.bytes());
    completion = {};
    bench_.Drain();
    EXPECT_TRUE(memory.expired()) << op;
  }
}

TEST_F(OpInvokerTest, SaysWhatIsWrong) {
  EXPECT_EQ(Invoke("t_ad", {}, {two_}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Invoke("t_add", {}, {two_}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Invoke("t_scale", {{"times", "2"}}, {two_}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Invoke("t_add", {}, {two_, bench_.Filled(4, 1)}).status().code(), absl::StatusCode::kInvalidArgument);
  KernelHook = [] { return absl::DataLossError("broken"); };
  EXPECT_THAT(std::string(Invoke("t_call", {}, {two_}).status().message()), HasSubstr("broken"));
  EXPECT_TRUE(Invoke("t_add", {}, {two_, two_}).ok());
}

TEST_F(OpInvokerTest, IsCancelled) {
  OpInvoker::Options options;
  options.cancellation = std::make_shared<Cancellation>();
  options.cancellation->Cancel();
  const int64_t before = bench_.budget().used();
  EXPECT_EQ(Invoke("t_add", {}, {two_, two_}, options).status().code(), absl::StatusCode::kCancelled);
  bench_.Drain();
  EXPECT_EQ(bench_.budget().used(), before) << "the results that it would have had are not kept";
}

}  // namespace
}  // namespace gluond
