// The work of compiling: it grows as the graph does, and ends soon where nobody waits for it any more. Passes count it
// (engine/passes/pass_work.h), so the same counts come from any machine.

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/core/interruption.h"
#include "engine/passes/gradient.h"
#include "engine/passes/pass_work.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"

namespace gluond {
namespace {

// Graphs of about `nodes` calls.

// Each reads the one before.
NodeEntry ChainOf(int64_t nodes) {
  NodeEntry y = MakeVariable("x");
  for (int64_t i = 0; i < nodes; ++i) y = MakeNode("tanh", "t", {y});
  return y;
}

// Each of the first half reads the one before. The others add these, beginning with the oldest: each waits for its sum.
NodeEntry LadderOf(int64_t nodes) {
  std::vector<NodeEntry> rungs = {MakeVariable("x")};
  for (int64_t i = 0; i < nodes / 2; ++i) rungs.push_back(MakeNode("tanh", "t", {rungs.back()}));
  NodeEntry y = rungs.back();
  for (int64_t i = 1; i < nodes / 2; ++i) y = y + rungs[static_cast<size_t>(i)];
  return y;
}

// Sums of 64 calls of the input.
NodeEntry FansOf(int64_t nodes) {
  const NodeEntry x = MakeVariable("x");
  std::vector<NodeEntry> sums;
  for (int64_t i = 0; i < nodes / 2; ++i) {
    if (i % 64 == 0) sums.push_back(x);
    sums.back() = sums.back() + MakeNode("_mul_scalar", "m", {x}, {{"scalar", std::to_string(i)}});
  }
  return MakeNode("add_n", "y", sums);
}

// Each reads the 64 before it, and is read by 64.
NodeEntry WebOf(int64_t nodes) {
  std::vector<NodeEntry> last = {MakeVariable("x")};
  for (int64_t i = 0; i < nodes; ++i) {
    last.push_back(MakeNode("add_n", "s", last));
    if (last.size() > 64) last.erase(last.begin());
  }
  return last.back();
}

// A network with parameters.
NodeEntry LayersOf(int64_t nodes) {
  NodeEntry y = MakeVariable("x");
  for (int64_t i = 0; i < nodes; i += 4) {
    const NodeEntry weight = MakeVariable(std::to_string(i) + "w"), bias = MakeVariable(std::to_string(i) + "b");
    y = MakeNode("relu", "r", {MakeNode("FullyConnected", "f", {y, weight, bias}, {{"num_hidden", "4"}})});
  }
  return y;
}

struct Form {
  const char* name;
  NodeEntry (*make)(int64_t nodes);
  bool is_train;
};

class WorkTest : public testing::TestWithParam<Form> {
 protected:
  // Compiles, and answers the passes' questions: the one of that number, and those after it, with CANCELLED.
  absl::Status Compile(const NodeEntry& y, int64_t cancelled_at = std::numeric_limits<int64_t>::max()) {
    asked_ = 0;
    const auto question = [&] { return ++asked_ < cancelled_at ? absl::OkStatus() : absl::CancelledError("nobody waits"); };
    const InterruptionScope scope(question);
    Graph graph{{y}};
    auto constants = std::make_shared<absl::flat_hash_set<std::string>>();
    std::vector<NodeEntry> xs;
    PostOrderVisit(graph.outputs, [&](const NodePtr& node) {
      if (!node->is_variable()) return;
      xs.push_back({node, 0});
      if (node->name() != "x") constants->insert(node->name());
    });
    if (GetParam().is_train) {
      const absl::StatusOr<Gradients> gradients = BuildGradient(graph.outputs, xs, {{}});
      if (!gradients.ok()) return gradients.status();
      graph.outputs.insert(graph.outputs.end(), gradients->begin(), gradients->end());
      constants = nullptr;
    }
    Unit unit(graph, {{"x", {{64, 4}, DType::kFloat32}}}, {.is_train = GetParam().is_train, .constants = constants});
    return RunPasses(Stage::kPlan, {}, &unit);
  }
  // The questions that the passes have asked.
  int64_t asked() const { return asked_; }

 private:
  int64_t asked_ = 0;
};

TEST_P(WorkTest, TwiceTheNodesAreTwiceTheWork) {
  constexpr int64_t kNodes = 4000;
  ASSERT_EQ(Compile(GetParam().make(kNodes)), absl::OkStatus());
  const int64_t once = asked();
  EXPECT_GT(once, 4 * kNodes / static_cast<int64_t>(PassWork::kEvery)) << "each pass counts its work";
  ASSERT_EQ(Compile(GetParam().make(2 * kNodes)), absl::OkStatus());
  EXPECT_LE(10 * asked(), 23 * once);
}

TEST_P(WorkTest, WhoeverGivesUpWaitsForNoMoreWork) {
  const NodeEntry y = GetParam().make(4000);
  ASSERT_EQ(Compile(y), absl::OkStatus());
  const int64_t all = asked(), step = std::max<int64_t>(1, all / 8);
  for (int64_t k = 1; k <= all; k += step) {
    EXPECT_EQ(Compile(y, k).code(), absl::StatusCode::kCancelled) << k;
    EXPECT_EQ(asked(), k) << "it went on";
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, WorkTest,
                         testing::ValuesIn<Form>({{"Chain", ChainOf, false},
                                                  {"ChainBackward", ChainOf, true},
                                                  {"Ladder", LadderOf, false},
                                                  {"LadderBackward", LadderOf, true},
                                                  {"Fans", FansOf, false},
                                                  {"FansBackward", FansOf, true},
                                                  {"Web", WebOf, false},
                                                  {"WebBackward", [](int64_t nodes) { return WebOf(nodes / 16); }, true},
                                                  {"Layers", LayersOf, false},
                                                  {"LayersBackward", LayersOf, true}}),
                         [](const auto& form) { return std::string(form.param.name); });

// The largest web that a client may want: its tensors lie where those were that nobody reads any more. The program itself is
// larger than they are.
TEST(WebTest, AHundredThousandNodesOf64ReadersRunInTheMemoryOf64) {
  constexpr int64_t kNodes = 100'000, kTensorBytes = 1024;
  const Shape shape = {kTensorBytes / 4};
  const auto budget = std::make_shared<Budget>("the test", int64_t{1} << 32, "--none");
  const std::shared_ptr<DeviceAllocator> allocator = *DeviceAllocator::Create(Device(), budget);
  const std::shared_ptr<Lane> lane = *Lane::Create(Device(), {.threads = 1}, *allocator);
  const auto executor = Executor::Compile({{WebOf(kNodes)}}, {{"x", {shape, DType::kInt32}}}, {}, *lane, *allocator);
  ASSERT_EQ(executor.status(), absl::OkStatus());
  gluond::Run run = (*executor)->NewRun();
  run.inputs = {*Tensor::Empty(*allocator, shape, DType::kInt32)};
  for (int32_t i = 0; i < shape[0]; ++i) run.inputs[0].data<int32_t>()[i] = 2 * i + 1;
  std::vector<Tensor> results;
  ASSERT_EQ((*executor)->RunAndWait(std::move(run), &results), absl::OkStatus());
  EXPECT_LE((*executor)->arena_bytes() + 2 * kTensorBytes, 80 * kTensorBytes);  // The input and the result lie beside the arena.
  std::vector<uint32_t> sums = {1};                                             // Values for x = 1; integers wrap around.
  for (size_t i = 0; i < kNodes; ++i) {
    const size_t first = sums.size() < 64 ? 0 : sums.size() - 64;
    sums.push_back(std::accumulate(sums.begin() + static_cast<std::ptrdiff_t>(first), sums.end(), uint32_t{0}));
  }
  for (uint32_t i = 0; i < static_cast<uint32_t>(shape[0]); ++i) {
    ASSERT_EQ(static_cast<uint32_t>(results[0].data<int32_t>()[i]), (2 * i + 1) * sums.back()) << i;
  }
}

}  // namespace
}  // namespace gluond
