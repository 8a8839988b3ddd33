#include "engine/passes/plan_memory.h"

#include <random>
#include <string>

#include "engine/passes/gradient.h"
#include "engine/passes/simplify.h"
#include "gtest/gtest.h"
#include "tests/engine/passes/test_ops.h"

namespace gluond {
namespace {

using testing::Call;
using testing::Values;
using testing::Variables;

// A graph with its plan.
struct Planned {
  Planned(const Graph& g, const Signatures& known)
      : graph(g), inferred(InferShapeType(graph, known).value()), plan(PlanMemory(graph, inferred).value()) {}
  Planned(const Graph& g, const Variables& variables) : Planned(g, testing::SignaturesOf(variables)) {
    testing::CheckPlannedRun(graph, inferred, plan, variables, testing::RunUnplanned(graph, inferred, variables));
  }

  int64_t offset(const NodeEntry& e) const { return plan.offset[graph.entry(e)]; }
  OpReqType req(const NodeEntry& e) const { return plan.req[graph.entry(e)]; }
  bool skipped(const NodeEntry& e) const { return plan.skipped[graph.id(e.node.get())]; }

  IndexedGraph graph;
  Inferred inferred;
  MemoryPlan plan;
};

const Variables kFloats = {{"x", Values(64, 2.0)}};  // 512 bytes.

TEST(PlanMemory, LeavesVariablesAndOutputsToTheCaller) {
  const NodeEntry x = MakeVariable("x"), y = -x;
  const Planned p({{y}}, kFloats);
  EXPECT_EQ(p.offset(x), MemoryPlan::kExternal);
  EXPECT_EQ(p.offset(y), MemoryPlan::kExternal);
  EXPECT_EQ(p.req(y), kWriteTo);
  EXPECT_TRUE(p.skipped(x));
  EXPECT_FALSE(p.skipped(y));
  EXPECT_EQ(p.plan.arena_bytes, 0);
  EXPECT_EQ(p.plan.unshared_bytes, 0);
}

TEST(PlanMemory, WritesInPlaceWhereTheInputDies) {
  const NodeEntry x = MakeVariable("x"), a = -x, b = -a, c = -b;
  const Planned p({{c}}, kFloats);
  EXPECT_EQ(p.req(a), kWriteTo);
  EXPECT_EQ(p.req(b), kWriteInplace);
  EXPECT_EQ(p.offset(a), p.offset(b));
  EXPECT_EQ(p.plan.arena_bytes, 512);
  EXPECT_EQ(p.plan.unshared_bytes, 1024);
}

TEST(PlanMemory, DoesNotWriteInPlaceWhereTheInputIsReadLater) {
  const NodeEntry x = MakeVariable("x"), a = -x, b = Call("cube", "b", {a}), c = b * a;
  const Planned p({{c}}, kFloats);
  EXPECT_EQ(p.req(b), kWriteTo);
  EXPECT_NE(p.offset(a), p.offset(b));
}

TEST(PlanMemory, NeverWritesOverAVariable) {
  const NodeEntry x = MakeVariable("x"), a = -x, b = a * x;
  const Planned p({{b + a}}, kFloats);
  EXPECT_EQ(p.req(a), kWriteTo);
  EXPECT_GE(p.offset(a), 0);
}

TEST(PlanMemory, WritesInPlaceOnlyWhereEveryUseOfTheInputMayBe) {
  const NodeEntry x = MakeVariable("x"), a = -x;
  const NodeEntry both = Call("sum_diff", "both", {a, a});  // Input 1 may not be output 0, nor 0 output 1.
  const Planned p({{-both, -NodeEntry{both.node, 1}}}, kFloats);
  EXPECT_NE(p.offset(both), p.offset(a));
  EXPECT_NE(p.offset({both.node, 1}), p.offset(a));
}

TEST(PlanMemory, GivesOneInputToOneOutput) {
  const NodeEntry x = MakeVariable("x"), a = -x, b = Call("cube", "b", {x});
  const NodeEntry both = Call("sum_diff", "both", {a, b}), sum = both, diff{both.node, 1};
  const Planned p({{sum * diff}}, kFloats);
  EXPECT_EQ(p.offset(sum), p.offset(a));
  EXPECT_EQ(p.offset(diff), p.offset(b));
}

TEST(PlanMemory, SharesMemoryOfValuesThatAreNotAliveTogether) {
  const NodeEntry x = MakeVariable("x");
  NodeEntry y = x;
  for (int i = 0; i < 10; ++i) y = Call("noise", "n", {-y}) * x;
  const Planned p({{y}}, kFloats);
  EXPECT_LE(p.plan.arena_bytes, 1024);
}

TEST(PlanMemory, LeavesAnOutputThatNodesReadToTheCaller) {
  const NodeEntry x = MakeVariable("x"), a = -x, b = -a, c = -b, d = -c;
  const Planned p({{a, d}}, kFloats);
  EXPECT_EQ(p.offset(a), MemoryPlan::kExternal);
  EXPECT_EQ(p.req(a), kWriteTo);
  EXPECT_GE(p.offset(b), 0);
  EXPECT_EQ(p.offset(d), MemoryPlan::kExternal);
  EXPECT_EQ(p.plan.arena_bytes, 512) << "b and c";
}

TEST(PlanMemory, KeepsAnOutputThatANodeMutatesInTheArenaToTheEnd) {
  const NodeEntry a = -MakeVariable("x"), b = Call("bump", "b", {a}), c = -b;
  const Planned p({{a, -c}}, Signatures{{"x", {{64}, DType::kFloat64}}});
  EXPECT_GE(p.offset(a), 0);
  EXPECT_NE(p.offset(a), p.offset(b));
  EXPECT_NE(p.offset(a), p.offset(c));
}

TEST(PlanMemory, AnIdentityOfAnOutputIsTheOutput) {
  const NodeEntry x = MakeVariable("x"), a = -x, view = Call("identity", "view", {a}), inner = -a;
  const NodeEntry of_inner = Call("identity", "of_inner", {inner});
  for (const bool is_output : {false, true}) {
    const Planned p(is_output ? Graph{{view, a, -view}} : Graph{{a, -view}}, kFloats);
    EXPECT_TRUE(p.skipped(view));
    EXPECT_EQ(p.offset(view), MemoryPlan::kExternal);
    EXPECT_EQ(p.plan.alias[p.graph.entry(view)], static_cast<int32_t>(p.graph.entry(a)));
  }
  const Planned q({{of_inner, -inner}}, kFloats);  // `inner` itself is in the arena, where others write.
  EXPECT_FALSE(q.skipped(of_inner));
  EXPECT_EQ(q.plan.alias[q.graph.entry(of_inner)], -1);
}

TEST(PlanMemory, LeavesOutWhatNobodyReads) {
  const NodeEntry x = MakeVariable("x"), both = Call("sum_diff", "both", {x, x});
  const Planned p({{-both}}, kFloats);
  EXPECT_EQ(p.offset({both.node, 1}), MemoryPlan::kNone);
  EXPECT_EQ(p.req({both.node, 1}), kNullOp);
  EXPECT_GE(p.offset(both), 0);
}

// A gradient that does not need its forward node's result does not run it.
TEST(PlanMemory, SkipsANodeThatOnlyControlDependenciesName) {
  const NodeEntry x = MakeVariable("x"), y = Call("cube", "y", {x});
  const Planned p({*BuildGradient({y}, {x}, {NodeEntry{}})}, kFloats);
  EXPECT_TRUE(p.skipped(y));
  EXPECT_EQ(p.offset(y), MemoryPlan::kNone);
}

TEST(PlanMemory, DoesNotCountIgnoredInputsAsReads) {
  const NodeEntry x = MakeVariable("x"), a = -x, b = Call("cube", "b", {a}), ones = Call("ones_like", "ones", {a});
  const Planned p({{b * ones, x}}, kFloats);
  EXPECT_EQ(p.offset(a), p.offset(b));
  const NodeEntry unread = Call("cube", "unread", {x});
  const Planned q({{Call("zeros_like", "zeros", {unread})}}, kFloats);
  EXPECT_TRUE(q.skipped(unread));
}

TEST(PlanMemory, RunsNodesThatDoMoreThanReturn) {
  const NodeEntry x = MakeVariable("x"), y = MakeVariable("y");
  const NodeEntry bump = Call("bump", "bump", {x}), remote = Call("remote", "remote", {y});
  const NodeEntry sum = Call("zeros_like", "a", {bump}) + Call("zeros_like", "b", {remote});
  const Planned p({{sum}}, Signatures{{"x", {{8}, DType::kFloat64}}, {"y", {{8}, DType::kFloat64}}});
  EXPECT_FALSE(p.skipped(bump));
  EXPECT_FALSE(p.skipped(remote));
  EXPECT_EQ(p.req(bump), kNullOp);
}

TEST(PlanMemory, IdentitiesCostNothing) {
  const NodeEntry x = MakeVariable("x"), a = -x;
  const NodeEntry flat = Call("identity", "flat", {a}, {{"shape", "(8, 8)"}});
  const NodeEntry back = Call("identity", "back", {flat}, {{"shape", "(64,)"}});
  const Planned p({{a * back, -flat}}, kFloats);
  EXPECT_TRUE(p.skipped(flat));
  EXPECT_TRUE(p.skipped(back));
  EXPECT_EQ(p.offset(flat), p.offset(a));
  EXPECT_EQ(p.offset(back), p.offset(a));
  EXPECT_EQ(p.plan.arena_bytes, 512);
}

TEST(PlanMemory, WritesInPlaceBehindAnIdentityOnlyWhenAllReadersAreDone) {
  const NodeEntry x = MakeVariable("x"), a = -x, view = Call("identity", "view", {a});
  const NodeEntry b = Call("cube", "b", {view}), c = a * b;  // a is read after b is made from its memory.
  const Planned p({{-c}}, kFloats);
  EXPECT_NE(p.offset(b), p.offset(a));
  EXPECT_EQ(p.req(c), kWriteInplace);
}

TEST(PlanMemory, AnIdentityOfAVariableIsTheVariable) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry view = Call("identity", "view", {x}), again = Call("identity", "again", {view});
  const Planned p({{-again}}, kFloats);
  EXPECT_EQ(p.offset(again), MemoryPlan::kExternal);
  EXPECT_EQ(p.plan.alias[p.graph.entry(again)], static_cast<int32_t>(p.graph.entry(x)));
  EXPECT_TRUE(p.skipped(again));
  const Planned q({{view}}, kFloats);  // The caller wants a copy.
  EXPECT_FALSE(q.skipped(view));
  EXPECT_EQ(q.plan.alias[q.graph.entry(view)], -1);
}

TEST(PlanMemory, DoesNotShareWhatIsMutated) {
  const NodeEntry x = MakeVariable("x"), view = Call("identity", "view", {x});
  const NodeEntry after = -view;
  const NodeEntry bump = Call("bump", "bump", {x});
  const Planned p({{after, bump}}, Signatures{{"x", {{64}, DType::kFloat64}}});
  EXPECT_FALSE(p.skipped(view));
  EXPECT_GE(p.offset(view), 0);

  const NodeEntry a = -MakeVariable("x"), view_of_a = Call("identity", "view", {a}), b = Call("bump", "b", {a});
  const Planned q({{-b, -view_of_a, -(-MakeVariable("y"))}},
                  Signatures{{"x", {{64}, DType::kFloat64}}, {"y", {{64}, DType::kFloat64}}});
  EXPECT_NE(q.offset(view_of_a), q.offset(a));
  for (uint32_t e = q.graph.entry(a) + 1; e < q.graph.num_entries(); ++e) EXPECT_NE(q.plan.offset[e], q.offset(a)) << e;
}

TEST(PlanMemory, SumsGradientsByAddingToTheFirst) {
  const NodeEntry x = MakeVariable("x"), a = Call("cube", "a", {x}), b = Call("cube", "b", {-x});
  for (const char* op : {"_grad_add", "add_n"}) {
    const NodeEntry sum = Call(op, "sum", {a, b});
    const Planned p({{-sum}}, kFloats);
    EXPECT_EQ(p.req(b), kAddTo);
    EXPECT_TRUE(p.skipped(sum));
    EXPECT_EQ(p.offset(sum), p.offset(a));
    EXPECT_EQ(p.offset(sum), p.offset(b));
  }
}

TEST(PlanMemory, DoesNotAddToWhatIsReadElsewhere) {
  const NodeEntry x = MakeVariable("x"), a = Call("cube", "a", {x}), b = Call("cube", "b", {a});
  const Planned p({{-Call("_grad_add", "sum", {a, b})}}, kFloats);  // b reads a.
  EXPECT_EQ(p.req(b), kWriteTo);
  const NodeEntry c = Call("noise", "c", {x}), d = Call("noise", "d", {x}), sum = Call("_grad_add", "sum", {c, d});
  const Planned q({{-sum, -d}}, kFloats);  // d is wanted by itself.
  EXPECT_EQ(q.req(d), kWriteTo);
  const Planned r({{sum}}, kFloats);  // The sum is the caller's.
  EXPECT_EQ(r.req(d), kWriteTo);
  const NodeEntry twice = Call("_grad_add", "twice", {c, c});
  EXPECT_FALSE(Planned({{-twice}}, kFloats).skipped(twice));
}

TEST(PlanMemory, PlansTensorsOfNoElements) {
  const NodeEntry x = MakeVariable("x");
  const Planned p({{-(-(-x))}}, Variables{{"x", {}}});
  EXPECT_EQ(p.plan.arena_bytes, 0);
}

TEST(PlanMemory, RefusesSizesThatOverflow) {
  const NodeEntry x = MakeVariable("x");
  NodeEntry y = x;
  for (int i = 0; i < 5000; ++i) y = Call("noise", "n", {y});
  const IndexedGraph graph({{y}});
  const Inferred inferred = InferShapeType(graph, {{"x", {{int64_t{1} << 47}, DType::kFloat64}}}).value();
  EXPECT_EQ(PlanMemory(graph, inferred).status().code(), absl::StatusCode::kInvalidArgument);
}

// The gradients of weights are asked for from the first layer on, and made from the last: none waits for another.
TEST(PlanMemory, KeepsOneGradientOfAChainAtATime) {
  constexpr int kLayers = 20;
  Variables variables = {{"x", Values(64, 1.0)}};
  std::vector<NodeEntry> weights;
  NodeEntry h = MakeVariable("x");
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(MakeVariable("w" + std::to_string(i)));
    variables["w" + std::to_string(i)] = Values(64, 0.5);
    h = h * weights.back();
  }
  const Planned p({*BuildGradient({h}, weights, {NodeEntry{}})}, variables);
  EXPECT_LE(p.plan.arena_bytes, (kLayers + 2) * 512);
}

// A LeNet of MXNet's example (20 and 50 filters 5x5, 500 hidden), forward and backward at batch size 64.
TEST(PlanMemory, HalvesTheMemoryOfLeNet) {
  const auto layer = [](const std::string& name, std::vector<NodeEntry> inputs, const std::string& shape) {
    return Call("layer", name, std::move(inputs), {{"shape", shape}});
  };
  std::vector<NodeEntry> weights;
  const auto weight = [&](const std::string& name, const std::string& shape) {
    weights.push_back(MakeVariable(name, {{"__shape__", shape}, {"__dtype__", "float32"}}));
    return weights.back();
  };
  const NodeEntry data = MakeVariable("data", {{"__shape__", "(64, 1, 28, 28)"}, {"__dtype__", "float32"}});
  NodeEntry h = layer("conv1", {data, weight("w1", "(20, 1, 5, 5)"), weight("b1", "(20,)")}, "(64, 20, 24, 24)");
  h = layer("pool1", {Call("rectify", "relu1", {h})}, "(64, 20, 12, 12)");
  h = layer("conv2", {h, weight("w2", "(50, 20, 5, 5)"), weight("b2", "(50,)")}, "(64, 50, 8, 8)");
  h = layer("pool2", {Call("rectify", "relu2", {h})}, "(64, 50, 4, 4)");
  h = layer("fc1", {Call("identity", "flat", {h}, {{"shape", "(64, 800)"}}), weight("w3", "(500, 800)"), weight("b3", "(500,)")},
            "(64, 500)");
  h = layer("fc2", {Call("rectify", "relu3", {h}), weight("w4", "(10, 500)"), weight("b4", "(10,)")}, "(64, 10)");
  Graph graph{*BuildGradient({h}, weights, {NodeEntry{}})};
  graph.outputs.insert(graph.outputs.begin(), h);
  const Planned p(*Simplify(graph), Signatures{});
  EXPECT_LE(p.plan.arena_bytes, 0.5 * p.plan.unshared_bytes) << p.plan.arena_bytes << " of " << p.plan.unshared_bytes;
  RecordProperty("percent", 100 * p.plan.arena_bytes / p.plan.unshared_bytes);
}

// A random graph that uses every way of sharing. Its values are whole numbers, so that sums do not depend on order.
Graph RandomGraph(std::mt19937& random) {
  std::vector<NodeEntry> entries = {MakeVariable("x"), MakeVariable("y")};
  const auto any = [&] {  // Late ones more often.
    const size_t back = std::min(random() % entries.size(), random() % entries.size());
    return entries[entries.size() - 1 - back];
  };
  const int count = 5 + random() % 60;
  for (int i = 0; i < count; ++i) {
    const std::string name = "n" + std::to_string(i);
    NodeEntry made;
    switch (random() % 10) {
      case 0: made = Call("identity", name, {any()}); break;
      case 1: made = Call("BlockGrad", name, {any()}); break;
      case 2: made = Call("sum_diff", name, {any(), any()}); break;
      case 3: made = Call("_grad_add", name, {any(), any()}); break;
      case 4: made = Call("add_n", name, {any(), any()}); break;
      case 5: made = Call("add_n", name, {any(), any(), any()}); break;
      case 6: made = Call("ones_like", name, {any()}); break;
      case 7: made = Call("elemwise_sub", name, {any(), any()}); break;
      case 8: made = Call("_grad_add", name, {Call("negative", name + "a", {any()}), Call("noise", name + "b", {any()})}); break;
      default: made = Call("negative", name, {any()}); break;
    }
    for (uint32_t k = 0; k < made.node->num_outputs(); ++k) entries.push_back({made.node, k});
  }
  Graph graph;
  for (size_t n = 1 + random() % 4; n > 0; --n) graph.outputs.push_back(any());
  return graph;
}

TEST(PlanMemory, NeverOverwritesAValueThatIsStillRead) {
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    std::mt19937 random(seed);
    const Graph graph = RandomGraph(random);
    const Planned p(graph, Variables{{"x", Values(9, 3.0)}, {"y", Values(9, -2.0)}});
    ASSERT_LE(p.plan.arena_bytes, p.plan.unshared_bytes + 64 * int64_t{p.graph.num_entries()});
    if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(PlanMemory, IsLinearInChainsAndWideGraphs) {
  const NodeEntry x = MakeVariable("x");
  NodeEntry chain = x;
  std::vector<NodeEntry> wide;
  for (int i = 0; i < 100000; ++i) {
    chain = Call("negative", "n", {chain});
    wide.push_back(Call("negative", "n", {x}));
  }
  const Signatures known = {{"x", {{100}, DType::kFloat32}}};
  EXPECT_EQ(Planned({{chain}}, known).plan.arena_bytes, 448);
  EXPECT_EQ(Planned({{Call("add_n", "sum", wide)}}, known).plan.arena_bytes, 100000 * 448);
}

}  // namespace
}  // namespace gluond
