#include "engine/core/graph.h"

#include <pthread.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GLUOND_REGISTER_OP(neg);
GLUOND_REGISTER_OP(elemwise_mul).set_num_inputs(2);
GLUOND_REGISTER_OP(two_out).set_num_outputs(2);

constexpr int kLong = 100000;

std::vector<std::string> Names(const std::vector<NodeEntry>& outputs) {
  std::vector<std::string> names;
  PostOrderVisit(outputs, [&](const NodePtr& node) { names.push_back(node->name()); });
  return names;
}

TEST(Graph, VisitsWhatANodeNeedsBeforeIt) {
  const NodeEntry x = MakeVariable("x"), a = MakeNode("neg", "a", {x}), b = MakeNode("neg", "b", {x});
  const NodeEntry y = MakeNode("elemwise_mul", "y", {b, a});
  EXPECT_THAT(Names({y}), ElementsAre("x", "b", "a", "y"));
  EXPECT_THAT(Names({a, y, a}), ElementsAre("x", "a", "b", "y"));
  EXPECT_THAT(Names({NodeEntry{}}), ElementsAre());
}

TEST(Graph, ReportsWrongCalls) {
  const NodeEntry x = MakeVariable("x");
  EXPECT_EQ(TryMakeNode("no_such_op", "n", {x}).status().code(), absl::StatusCode::kNotFound);
  const absl::Status status = TryMakeNode("elemwise_mul", "n", {x}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("operator 'elemwise_mul' takes 2 inputs (data0, data1), got 1"));
  EXPECT_EQ(TryMakeNode("neg", "n", {x}, {{"axis", "1"}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(NodeOrder, NumbersEachNodeAfterItsInputs) {
  const NodeEntry x = MakeVariable("x"), two = MakeNode("two_out", "two", {x}), y = NodeEntry{two.node, 1} * x;
  const NodeOrder order(Graph{{y, x, {two.node, 1}}});
  EXPECT_THAT(order.nodes(), ElementsAre(x.node, two.node, y.node));
  EXPECT_THAT(order.inputs_of(0), IsEmpty());
  EXPECT_THAT(order.inputs_of(1), ElementsAre(0));
  EXPECT_THAT(order.inputs_of(2), ElementsAre(1, 0));
  EXPECT_EQ(order.outputs[0].node, 2u);
  EXPECT_EQ(order.outputs[1].node, 0u);
  EXPECT_EQ(order.outputs[2].node, 1u);
  EXPECT_EQ(order.outputs[2].index, 1u);
  EXPECT_EQ(order.numbers.at(two.node.get()), 1u);
  EXPECT_FALSE(order.numbers.Has(MakeVariable("other").node.get()));
}

TEST(NodeOrder, DoesNotEnterWhatIsSkipped) {
  const NodeEntry x = MakeVariable("x"), h = MakeNode("neg", "h", {x}), y = MakeNode("neg", "y", {h});
  const NodeOrder order({y, h, NodeEntry()}, [&h](const Node* node) { return node == h.node.get(); });
  EXPECT_THAT(order.nodes(), ElementsAre(y.node));
  EXPECT_THAT(order.inputs_of(0), ElementsAre(NodeNumbers::kNone));
  EXPECT_EQ(order.outputs[1].node, NodeNumbers::kNone);
  EXPECT_EQ(order.outputs[2].node, NodeNumbers::kNone);
}

// More of them than a page of numbers has, in whatever order they lie in memory.
TEST(NodeNumbers, KeepsTheNumbersOfManyNodesApart) {
  std::vector<NodeEntry> nodes;
  NodeNumbers numbers;
  for (uint32_t i = 0; i < 1000; ++i) numbers[nodes.emplace_back(MakeVariable("x")).node.get()] = i;
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(numbers.at(nodes[i].node.get()), i);
}

TEST(IndexedGraph, NumbersNodesAndEntries) {
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w"), two = MakeNode("two_out", "two", {x});
  const NodeEntry y = NodeEntry{two.node, 1} * w;
  const IndexedGraph graph({{y}});
  EXPECT_EQ(graph.num_nodes(), 4u);
  EXPECT_EQ(graph.num_entries(), 5u);
  EXPECT_THAT(graph.variables(), ElementsAre(0, 2));
  EXPECT_EQ(graph.entry({two.node, 1}), graph.entry(two) + 1);
  EXPECT_EQ(graph[graph.id(y.node.get())].inputs[0].entry, graph.entry({two.node, 1}));
  EXPECT_EQ(graph.outputs()[0].entry, graph.entry(y));
}

// The order in which gradients are asked for is that of the layers, from the first.
TEST(IndexedGraph, RunsAnOutputAsSoonAsItCan) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry h1 = MakeNode("neg", "h1", {x}), h2 = MakeNode("neg", "h2", {h1});
  const NodeEntry near = MakeNode("neg", "near", {h1}), far = MakeNode("neg", "far", {h2});
  const IndexedGraph graph({{far, near}});
  EXPECT_LT(graph.id(near.node.get()), graph.id(far.node.get()));
  EXPECT_EQ(graph.outputs()[0].entry, graph.entry(far));
}

// Drops `entry` in a thread with a stack of 256 KiB, which no recursion along the graph would fit in.
void DestroyOnASmallStack(NodeEntry entry) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  pthread_t thread;
  const auto drop = [](void* e) -> void* {
    *static_cast<NodeEntry*>(e) = {};
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, drop, &entry), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

TEST(Graph, DestroysALongChain) {
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < kLong; ++i) y = MakeNode("neg", "n", {y});
  DestroyOnASmallStack(std::move(y));
}

TEST(Graph, DestroysALongChainOfSquares) {
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < kLong; ++i) y = y * y;
  DestroyOnASmallStack(std::move(y));
}

TEST(Graph, DestroysOnlyWhatNobodyElseHolds) {
  const NodeEntry x = MakeVariable("x");
  NodeEntry middle = x;
  for (int i = 0; i < 10; ++i) middle = middle * x;
  { NodeEntry y = MakeNode("neg", "y", {middle}); }
  EXPECT_EQ(IndexedGraph({{middle}}).num_nodes(), 11u);
  EXPECT_EQ(middle.node.use_count(), 1);
}

TEST(IndexedGraph, WalksALongChainAndAWideGraph) {
  const NodeEntry x = MakeVariable("x");
  NodeEntry chain = x;
  std::vector<NodeEntry> wide;
  for (int i = 0; i < kLong; ++i) {
    chain = MakeNode("neg", "n", {chain});
    wide.push_back(MakeNode("neg", "w", {x}));
  }
  EXPECT_EQ(IndexedGraph({{chain}}).num_nodes(), kLong + 1u);
  EXPECT_EQ(IndexedGraph({wide}).num_nodes(), kLong + 1u);
}

TEST(Graph, NodesMayBeSharedByThreads) {
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < 1000; ++i) y = y * y;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([graph = Graph{{y}}]() mutable {
      EXPECT_EQ(IndexedGraph(graph).num_nodes(), 1001u);
      graph.outputs.clear();
    });
  }
  y = {};
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gluond
