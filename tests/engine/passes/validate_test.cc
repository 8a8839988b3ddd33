#include "engine/passes/validate.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/passes/test_ops.h"

namespace gluond {
namespace {

using ::testing::AllOf;
using testing::Call;
using ::testing::HasSubstr;

void ExpectInvalid(const absl::Status& status, const ::testing::Matcher<std::string>& message) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), message);
}

TEST(Validate, AcceptsAGraphWithASharedVariableAndAllOutputs) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry y = Call("sum_diff", "y", {x, x});
  EXPECT_EQ(Validate({{y, {y.node, 1}, x, y}}, {.client_graph = true}), absl::OkStatus());
  EXPECT_EQ(Validate({}), absl::OkStatus());
}

TEST(Validate, NamesTheNodesOfACycle) {
  const NodeEntry a = Call("negative", "a", {MakeVariable("x")});
  const NodeEntry b = Call("cube", "b", {a});
  a.node->inputs[0] = b;
  ExpectInvalid(Validate({{b}}), AllOf(HasSubstr("cycle of 2 nodes"), HasSubstr("'a' (negative)"), HasSubstr("'b' (cube)")));
  a.node->inputs.clear();  // The cycle would keep itself alive.
}

TEST(Validate, ShortensALongCycle) {
  const NodeEntry first = Call("negative", "first", {MakeVariable("x")});
  NodeEntry last = first;
  for (int i = 0; i < 100; ++i) last = Call("negative", "n" + std::to_string(i), {last});
  first.node->inputs[0] = last;
  const absl::Status status = Validate({{last}});
  ExpectInvalid(status, AllOf(HasSubstr("cycle of 101 nodes"), HasSubstr("and 93 more")));
  EXPECT_LT(status.message().size(), 500u);
  first.node->inputs.clear();
}

TEST(Validate, RefusesAnOutputThatTheNodeLacks) {
  const NodeEntry y = Call("negative", "y", {{MakeVariable("x").node, 0}});
  ExpectInvalid(Validate({{{y.node, 1}}}), HasSubstr("output 0 of the graph is output 1 of node 'y' (negative), which has 1"));
  const NodeEntry z = Call("negative", "z", {{y.node, 7}});
  ExpectInvalid(Validate({{z}}), HasSubstr("input 0 of node 'z' (negative) is output 7 of node 'y'"));
}

TEST(Validate, RefusesMissingEntries) {
  ExpectInvalid(Validate({{NodeEntry{}}}), HasSubstr("output 0 of the graph is missing"));
  const NodeEntry y = Call("negative", "y", {NodeEntry{}});
  ExpectInvalid(Validate({{y}}), HasSubstr("input 0 of node 'y' (negative) is missing"));
}

TEST(Validate, HidesHiddenOutputsFromClientsOnly) {
  const NodeEntry y = Call("sum_diff", "y", {MakeVariable("a"), MakeVariable("b")});
  const NodeEntry hidden{y.node, 2};
  ExpectInvalid(Validate({{hidden}}, {.client_graph = true}), HasSubstr("hidden; use one of its first 2 outputs"));
  ExpectInvalid(Validate({{Call("negative", "z", {hidden})}}, {.client_graph = true}), HasSubstr("input 0 of node 'z'"));
  EXPECT_EQ(Validate({{hidden}}), absl::OkStatus());
}

TEST(Validate, RefusesTwoVariablesOfOneName) {
  ExpectInvalid(Validate({{MakeVariable("x") + MakeVariable("x")}}), HasSubstr("variable 'x'"));
}

TEST(Validate, RefusesTwoNodesOfOneNameFromClientsOnly) {
  const NodeEntry x = MakeVariable("x");
  const Graph graph{{Call("negative", "same", {Call("cube", "same", {x})})}};
  ExpectInvalid(Validate(graph, {.client_graph = true}), HasSubstr("node 'same'"));
  EXPECT_EQ(Validate(graph), absl::OkStatus());
}

TEST(Validate, CountsInputs) {
  const NodeEntry y = Call("elemwise_sub", "y", {MakeVariable("a"), MakeVariable("b")});
  y.node->inputs.pop_back();
  ExpectInvalid(Validate({{y}}), HasSubstr("node 'y' (elemwise_sub) has 1 inputs, expected 2"));
}

TEST(Validate, LimitsTheNumberOfNodes) {
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < 9; ++i) y = Call("negative", "n", {y});
  EXPECT_EQ(Validate({{y}}, {.max_nodes = 10}), absl::OkStatus());
  EXPECT_EQ(Validate({{y}}, {.max_nodes = 9}).code(), absl::StatusCode::kResourceExhausted);
}

TEST(Validate, WalksAChainOf100000Nodes) {
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < 100000; ++i) y = Call("negative", "n" + std::to_string(i), {y});
  EXPECT_EQ(Validate({{y}}, {.client_graph = true}), absl::OkStatus());
}

TEST(CheckKernels, ListsOperatorsWithoutAKernelAndTheirNodes) {
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w");
  const NodeEntry h = Call("dense", "fc1", {x, w}, {{"units", "4"}});
  const Graph graph{{Call("negative", "y", {Call("dense", "fc2", {h, w}, {{"units", "4"}})})}};
  ExpectInvalid(CheckKernels(graph, DeviceType::kCpu), HasSubstr("no CPU kernel for dense (nodes 'fc1', 'fc2')"));
  ExpectInvalid(CheckKernels(graph, DeviceType::kGpu), AllOf(HasSubstr("dense"), HasSubstr("negative (nodes 'y')")));
  EXPECT_EQ(CheckKernels(Graph{{Call("negative", "y", {x})}}, DeviceType::kCpu), absl::OkStatus());
}

}  // namespace
}  // namespace gluond
