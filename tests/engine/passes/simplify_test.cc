#include "engine/passes/simplify.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/engine/passes/test_ops.h"

namespace gluond {
namespace {

using testing::Call;

bool Merges(const NodeEntry& a, const NodeEntry& b) {
  const Graph simple = *Simplify(Graph{{a, b}});
  return simple.outputs[0].node == simple.outputs[1].node;
}

TEST(Simplify, MergesEqualCalls) {
  const NodeEntry x = MakeVariable("x"), y = MakeVariable("y");
  EXPECT_TRUE(Merges(Call("elemwise_sub", "a", {x, y}), Call("elemwise_sub", "b", {x, y})));
  EXPECT_FALSE(Merges(Call("elemwise_sub", "a", {x, y}), Call("elemwise_sub", "b", {y, x})));
  EXPECT_FALSE(Merges(Call("elemwise_sub", "a", {x, y}), Call("elemwise_add", "b", {x, y})));
  EXPECT_TRUE(Merges(2.0 * x, 2.0 * x));
  EXPECT_FALSE(Merges(2.0 * x, 3.0 * x));
}

TEST(Simplify, MergesCallsWhoseInputsBecomeEqual) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry a = Call("cube", "a2", {Call("negative", "a1", {x})});
  const NodeEntry b = Call("cube", "b2", {Call("negative", "b1", {x})});
  const Graph simple = *Simplify(Graph{{a + b}});
  EXPECT_EQ(IndexedGraph(simple).num_nodes(), 4u);
  EXPECT_EQ(testing::Evaluate(simple, {{"x", {2}}}), testing::Evaluate({{a + b}}, {{"x", {2}}}));
}

TEST(Simplify, DistinguishesTheOutputsOfANode) {
  const NodeEntry x = MakeVariable("x"), both = Call("sum_diff", "both", {x, x});
  EXPECT_FALSE(Merges(-NodeEntry{both.node, 0}, -NodeEntry{both.node, 1}));
}

TEST(Simplify, LeavesRandomMutatingAndAsyncCallsAlone) {
  const NodeEntry x = MakeVariable("x");
  for (const char* op : {"noise", "bump", "remote"}) {
    EXPECT_FALSE(Merges(Call(op, "a", {x}), Call(op, "b", {x}))) << op;
  }
}

TEST(Simplify, LeavesReadersOfAMutatedVariableAlone) {
  const NodeEntry x = MakeVariable("x"), before = -x, bump = Call("bump", "bump", {x}), after = -x;
  const Graph simple = *Simplify(Graph{{before, bump, after}});
  EXPECT_NE(simple.outputs[0].node, simple.outputs[2].node);
}

TEST(Simplify, DropsDeadCodeAndKeepsTheGivenNodes) {
  const NodeEntry x = MakeVariable("x"), y = -x;
  Call("cube", "dead", {y});
  const Graph simple = *Simplify(Graph{{y}});
  EXPECT_EQ(simple.outputs[0].node, y.node);
  EXPECT_EQ(IndexedGraph(simple).num_nodes(), 2u);
}

TEST(Simplify, DoesNotChangeTheGivenGraph) {
  const NodeEntry x = MakeVariable("x"), a = -x, b = -x, y = Call("cube", "y", {b});
  const Graph simple = *Simplify(Graph{{a, y}});
  EXPECT_EQ(y.node->inputs[0].node, b.node);
  EXPECT_EQ(simple.outputs[1].node->inputs[0].node, a.node);
}

TEST(Simplify, IsLinearInChainsAndWideGraphs) {
  const NodeEntry x = MakeVariable("x");
  NodeEntry a = x, b = x;
  std::vector<NodeEntry> wide;
  for (int i = 0; i < 50000; ++i) {
    a = Call("negative", "a", {a});
    b = Call("negative", "b", {b});
    wide.push_back(Call("cube", "c", {x}));
  }
  EXPECT_TRUE(Merges(a, b));
  EXPECT_EQ(IndexedGraph(*Simplify(Graph{wide})).num_nodes(), 2u);
}

}  // namespace
}  // namespace gluond
