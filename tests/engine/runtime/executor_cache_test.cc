// Executors are compiled once for each graph, signature and mode, and shared.

#include "engine/runtime/executor_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <thread>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/runtime/random_state.h"
#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

using testing::Each;
using testing::ElementsAre;

// Called with the node's name by t_shape(x), which is x, where shapes are inferred. May be null.
std::function<void(const std::string& name)> shape_hook;

GLUOND_REGISTER_OP(t_shape)
    .describe("x; tells where its shape is inferred.")
    .add_argument("x", "NDArray", "Any.")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
                             if (shape_hook) shape_hook(attrs.name);
                             return ElemwiseShape<1, 1>(attrs, in, out);
                           })
    .set_attr<FCompute>("FCompute<cpu>", [](const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in,
                                            absl::Span<const OpReqType>, absl::Span<const TBlob> out) {
      std::memcpy(out[0].data, in[0].data, in[0].bytes());
      return absl::OkStatus();
    });

class ExecutorCacheTest : public testing::Test {
 protected:
  ExecutorKeyPtr KeyOf(int64_t n, bool is_train = false) { return bench_.KeyOf(graph_, n, {.is_train = is_train}); }

  // Doubles n ones by an executor of the cache.
  std::future<std::vector<float>> Double(ExecutorCache& cache, const ExecutorKeyPtr& key, int64_t n) {
    auto result = std::make_shared<std::promise<std::vector<float>>>();
    cache.Checkout(key, [this, result, n](absl::StatusOr<ExecutorLease> lease) {
      ASSERT_TRUE(lease.ok()) << lease.status();
      EXPECT_TRUE(bench_.lane().IsCurrent());
      auto executor = std::make_shared<ExecutorLease>(*std::move(lease));
      (*executor)->StartHere(MakeRun({bench_.Filled(n, 1)}), [executor, result](absl::Status status) {
        EXPECT_EQ(status, absl::OkStatus());
        result->set_value(Values((*executor)->run().outputs[0]));
      });
    });
    return result->get_future();
  }

  absl::StatusOr<ExecutorLease> Checkout(ExecutorCache& cache, const ExecutorKeyPtr& key) {
    std::promise<absl::StatusOr<ExecutorLease>> result;
    cache.Checkout(key, [&](absl::StatusOr<ExecutorLease> lease) { result.set_value(std::move(lease)); });
    return result.get_future().get();
  }

  Bench bench_;
  const std::shared_ptr<const Graph> graph_ =
      std::make_shared<const Graph>(Graph{{MakeNode("t_scale", "s", {MakeVariable("x")}, {{"by", "2"}})}});
};

TEST_F(ExecutorCacheTest, AlternatingSignaturesAreCompiledOnce) {
  ExecutorCache cache(bench_.lane(), bench_.allocator());
  for (int i = 0; i < 10; ++i) {
    for (const int64_t n : {3, 5, 64}) {
      // A key that is equal serves as well as the same one.
      EXPECT_THAT(Double(cache, KeyOf(n), n).get(), testing::AllOf(testing::SizeIs(n), Each(2)));
    }
  }
  bench_.Drain();  // The last lease has come back.
  EXPECT_EQ(cache.num_compiled(), 3);
  EXPECT_EQ(cache.num_idle(), 3u);
}

TEST_F(ExecutorCacheTest, AQueryFindsWhatWasCompiledForInputsLikeThese) {
  ExecutorCache cache(bench_.lane(), bench_.allocator());
  Double(cache, KeyOf(3), 3).get();
  bench_.Drain();
  const Tensor x = bench_.Filled(3, 1), reshaped = x.Reshaped({1, 3}), whole(x.buffer(), 0, {3}, DType::kInt32);
  const std::vector<Tensor> twice = {x, x};
  const auto finds = [&](absl::Span<const Tensor> inputs, bool is_train = false) {
    return static_cast<bool>(cache.TakeIdle(ExecutorQuery{graph_, {.is_train = is_train}, inputs}));
  };
  EXPECT_TRUE(finds({&x, 1}));
  EXPECT_FALSE(finds({&x, 1}, /*is_train=*/true));
  EXPECT_FALSE(finds({&reshaped, 1}));
  EXPECT_FALSE(finds({&whole, 1}));
  EXPECT_FALSE(finds(twice));
  EXPECT_FALSE(finds({}));
  EXPECT_TRUE(finds({&x, 1})) << "the lease has come back";
}

TEST_F(ExecutorCacheTest, ModesAndGraphsDiffer) {
  ExecutorCache cache(bench_.lane(), bench_.allocator());
  Double(cache, KeyOf(3, false), 3).get();
  Double(cache, KeyOf(3, true), 3).get();
  const auto copy = bench_.KeyOf(std::make_shared<const Graph>(*graph_), 3);
  Double(cache, copy, 3).get();
  EXPECT_EQ(cache.num_compiled(), 3);
}

TEST_F(ExecutorCacheTest, RunsThatQueueShareAnExecutor) {
  ExecutorCache cache(bench_.lane(), bench_.allocator());
  Double(cache, KeyOf(3), 3).get();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<std::future<std::vector<float>>> results;
      for (int i = 0; i < 100; ++i) results.push_back(Double(cache, KeyOf(3), 3));
      for (auto& result : results) EXPECT_THAT(result.get(), Each(2));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.num_compiled(), 1);
}

TEST_F(ExecutorCacheTest, ASecondUserGetsAnotherInstance) {
  ExecutorCache cache(bench_.lane(), bench_.allocator());
  {
    auto one = Checkout(cache, KeyOf(3));
    auto two = Checkout(cache, KeyOf(3));
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_NE(&**one, &**two);
    EXPECT_EQ((*two)->RunAndWait(MakeRun({bench_.Filled(3, 1)}), nullptr), absl::OkStatus());
  }
  EXPECT_EQ(cache.num_idle(), 2u);
}

TEST_F(ExecutorCacheTest, DropsTheLeastRecentlyUsed) {
  ExecutorCache cache(bench_.lane(), bench_.allocator(), 2);
  for (const int64_t n : {1, 2, 1, 3}) Double(cache, KeyOf(n), n).get();
  bench_.Drain();
  EXPECT_EQ(cache.num_idle(), 2u);
  Double(cache, KeyOf(1), 1).get();
  EXPECT_EQ(cache.num_compiled(), 3) << "1 was kept";
  Double(cache, KeyOf(2), 2).get();
  EXPECT_EQ(cache.num_compiled(), 4) << "2 had gone";
}

TEST_F(ExecutorCacheTest, KeepsABoundedAmountOfMemory) {
  const auto program = [this] {
    ExecutorCache cache(bench_.lane(), bench_.allocator());
    return (*Checkout(cache, KeyOf(1)))->own_bytes();
  }();
  EXPECT_GT(program, 0);
  const int64_t most = 4 * program + 4000;
  ExecutorCache cache(bench_.lane(), bench_.allocator(), 32, most);
  for (int64_t n = 201; n <= 208; ++n) Double(cache, KeyOf(n), n).get();  // Each keeps a program and an output of 4 n bytes.
  bench_.Drain();
  EXPECT_EQ(cache.num_idle(), 4u);
  EXPECT_LE(bench_.budget().used(), most);
  Double(cache, KeyOf(300), 300).get();
  bench_.Drain();
  EXPECT_EQ(cache.num_idle(), 4u) << "one that is too large must not take the others' place";
  Double(cache, KeyOf(208), 208).get();
  EXPECT_EQ(cache.num_compiled(), 9) << "208 was kept";
}

TEST_F(ExecutorCacheTest, LetsGoOfTensorsAndOfLeasesAfterIt) {
  auto cache = std::make_unique<ExecutorCache>(bench_.lane(), bench_.allocator());
  auto lease = Checkout(*cache, KeyOf(1000));
  ASSERT_TRUE(lease.ok());
  const int64_t before = bench_.budget().used();
  ASSERT_EQ((*lease)->RunAndWait(MakeRun({bench_.Filled(1000, 1)}, {bench_.Filled(1000, 0)}), nullptr), absl::OkStatus());
  EXPECT_GT(bench_.budget().used(), before);
  cache.reset();
  bench_.Drain();
  *lease = ExecutorLease();
  EXPECT_EQ(bench_.budget().used(), 0);
}

TEST_F(ExecutorCacheTest, ACancelledCompilationEndsSoon) {
  auto cancellation = std::make_shared<Cancellation>();
  std::vector<std::string> asked;
  shape_hook = [&](const std::string& name) {
    asked.push_back(name);
    if (name == "gives_up") cancellation->Cancel();
  };
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < 100000; ++i) {
    if (i == 50000) y = MakeNode("t_shape", "gives_up", {y});
    if (i == 55000) y = MakeNode("t_shape", "after", {y});
    y = MakeNode("t_scale", "s", {y}, {{"by", "2"}});
  }
  const auto graph = std::make_shared<const Graph>(Graph{{y}});
  const auto key = bench_.KeyOf(graph, 3);
  ExecutorCache cache(bench_.lane(), bench_.allocator());
  const auto checkout = [&] {
    std::promise<absl::Status> status;
    cache.Checkout(
        key, [&](absl::StatusOr<ExecutorLease> lease) { status.set_value(lease.status()); }, cancellation);
    return status.get_future().get().code();
  };
  EXPECT_EQ(checkout(), absl::StatusCode::kCancelled);
  EXPECT_THAT(asked, ElementsAre("gives_up")) << "and no more of the graph was looked at";
  EXPECT_EQ(checkout(), absl::StatusCode::kCancelled) << "before it begins";
  EXPECT_THAT(asked, ElementsAre("gives_up"));
  cancellation = std::make_shared<Cancellation>(Cancellation::Clock::now() - std::chrono::seconds(1));
  EXPECT_EQ(checkout(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cache.num_compiled(), 0);
  cancellation = nullptr;
  shape_hook = nullptr;
  EXPECT_EQ(checkout(), absl::StatusCode::kOk) << "what was given up can be had later";
}

TEST_F(ExecutorCacheTest, ReportsWhatDoesNotCompile) {
  ExecutorCache cache(bench_.lane(), bench_.allocator());
  std::promise<absl::Status> status;
  cache.Checkout(ExecutorKey::Make({graph_, {}, {}}, {}),
                 [&](absl::StatusOr<ExecutorLease> lease) { status.set_value(lease.status()); });
  EXPECT_EQ(status.get_future().get().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RandomStateTest, EachRunHasANumberOfItsOwn) {
  RandomState random{7, 3};
  gluond::Run one, two;
  random.Draw(&one);
  random.Draw(&two);
  EXPECT_EQ(one.seed, 7u);
  EXPECT_EQ(one.random_run, 3u);
  EXPECT_EQ(two.random_run, 4u);
  EXPECT_EQ(random.runs, 5u);
}

}  // namespace
}  // namespace gluond
