#include "engine/passes/infer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/passes/gradient.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/passes/test_ops.h"

namespace gluond {
namespace {

using ::testing::AllOf;
using testing::Call;
using ::testing::HasSubstr;

constexpr DType kF32 = DType::kFloat32;

NodeEntry Dense(const std::string& name, const NodeEntry& data, int units) {
  return Call("dense", name, {data, MakeVariable(name + "_weight")}, {{"units", std::to_string(units)}});
}

void ExpectStatus(const absl::StatusOr<Inferred>& inferred, absl::StatusCode code, const ::testing::Matcher<std::string>& message) {
  EXPECT_EQ(inferred.status().code(), code) << inferred.status();
  EXPECT_THAT(std::string(inferred.status().message()), message);
}

TEST(Infer, FillsParametersFromTheData) {
  const NodeEntry h = Dense("fc1", MakeVariable("data"), 10), y = Dense("fc2", h, 3);
  const IndexedGraph graph({{y}});
  const auto inferred = InferShapeType(graph, {{"data", {{64, 20}, kF32}}});
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(inferred->shapes[graph.entry(h.node->inputs[1])], Shape({10, 20}));
  EXPECT_EQ(inferred->shapes[graph.entry(y.node->inputs[1])], Shape({3, 10}));
  EXPECT_EQ(inferred->shapes[graph.entry(y)], Shape({64, 3}));
  EXPECT_EQ(inferred->types[graph.entry(y.node->inputs[1])], kF32);
}

TEST(Infer, WorksBackwardFromAnOutput) {
  const NodeEntry x = MakeVariable("x"), label = MakeVariable("label");
  const NodeEntry h = Dense("fc", x, 5);
  const IndexedGraph graph({{h - label}});
  const auto inferred = InferShapeType(graph, {{"label", {{8, -1}, DType::kUnknown}}, {"fc_weight", {{-1, 7}, kF32}}});
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(inferred->shapes[graph.entry(x)], Shape({8, 7}));
  EXPECT_EQ(inferred->shapes[graph.entry(label)], Shape({8, 5}));
  EXPECT_EQ(inferred->types[graph.entry(label)], kF32);
}

TEST(Infer, JoinsWhatSeveralUsersKnow) {
  const NodeEntry x = MakeVariable("x"), a = MakeVariable("a"), b = MakeVariable("b");
  const IndexedGraph graph({{x + a, x + b}});
  const auto inferred = InferShapeType(graph, {{"a", {{2, -1}, kF32}}, {"b", {{-1, 3}, DType::kUnknown}}});
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  for (const NodeEntry& e : {x, a, b}) EXPECT_EQ(inferred->shapes[graph.entry(e)], Shape({2, 3}));
}

TEST(Infer, TakesAttributesOfVariables) {
  const NodeEntry x = MakeVariable("x", {{"__shape__", "(2, -1)"}, {"__dtype__", "1"}});
  const IndexedGraph graph({{-x}});
  const auto inferred = InferShapeType(graph, {{"x", {{-1, 4}, DType::kUnknown}}});
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(inferred->shapes[1], Shape({2, 4}));
  EXPECT_EQ(inferred->types[1], DType::kFloat64);
  ExpectStatus(InferShapeType(graph, {{"x", {{3, 4}, kF32}}}), absl::StatusCode::kInvalidArgument,
               HasSubstr("variable 'x': its attribute '__shape__' is [2,?]"));
  ExpectStatus(InferShapeType(graph, {{"x", {{2, 4}, kF32}}}), absl::StatusCode::kInvalidArgument,
               HasSubstr("'__dtype__' is float64, got type float32"));
  const IndexedGraph broken({{-MakeVariable("x", {{"__shape__", "(2,"}})}});
  ExpectStatus(InferShapeType(broken, {}), absl::StatusCode::kInvalidArgument, HasSubstr("variable 'x': __shape__"));
}

TEST(Infer, NamesNodeOperatorAndArgumentOfAContradiction) {
  const IndexedGraph graph({{Dense("fc1", MakeVariable("data"), 10)}});
  ExpectStatus(InferShapeType(graph, {{"data", {{64, 20}, kF32}}, {"fc1_weight", {{10, 21}, kF32}}}),
               absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("Error in operator fc1 (dense): input 0 'data': Shape inconsistent"),
                     HasSubstr("Provided = [64,20]"), HasSubstr("inferred shape=[?,21]")));
  const IndexedGraph sum({{Call("elemwise_add", "plus", {MakeVariable("a"), MakeVariable("b")})}});
  ExpectStatus(InferShapeType(sum, {{"a", {{2}, kF32}}, {"b", {{3}, kF32}}}), absl::StatusCode::kInvalidArgument,
               HasSubstr("Error in operator plus (elemwise_add): input 1 'data1' has shape [3], expected [2]"));
  ExpectStatus(InferShapeType(sum, {{"a", {{2}, kF32}}, {"b", {{2}, DType::kInt8}}}), absl::StatusCode::kInvalidArgument,
               HasSubstr("input 1 'data1' is int8, expected float32"));
}

TEST(Infer, NamesTheFirstNodeThatStaysUnknown) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry h = Dense("fc1", x, 4);
  const IndexedGraph graph({{Dense("fc2", h, 3)}});
  ExpectStatus(InferShapeType(graph, {{"x", {{8, -1}, kF32}}}), absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("operator fc1 (dense)"), HasSubstr("input 0 'data' (variable 'x') has shape [8,?]"),
                     HasSubstr("input 1 'weight' (variable 'fc1_weight') has shape [4,?]")));
  ExpectStatus(InferShapeType(graph, {{"x", {{8, 2}, DType::kUnknown}}}), absl::StatusCode::kFailedPrecondition,
               HasSubstr("has no known type"));
  const auto partial = InferPartially(graph, {{"x", {{8, -1}, kF32}}});
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_EQ(partial->shapes[graph.outputs()[0].entry], Shape({8, 3}));
  ExpectStatus(InferShapeType(IndexedGraph({{x}}), {}), absl::StatusCode::kFailedPrecondition, HasSubstr("variable 'x'"));
}

TEST(Infer, IsLinearInAChainFromEitherEnd) {
  NodeEntry y = MakeVariable("first");
  for (int i = 0; i < 100000; ++i) y = Call("negative", "n", {y});
  const IndexedGraph graph({{y + MakeVariable("last")}});
  for (const char* known : {"first", "last"}) {
    const auto inferred = InferShapeType(graph, {{known, {{2, 3}, kF32}}});
    ASSERT_TRUE(inferred.ok()) << inferred.status();
    EXPECT_EQ(inferred->shapes[0], Shape({2, 3}));
    EXPECT_EQ(inferred->shapes[graph.outputs()[0].entry], Shape({2, 3}));
  }
}

// Knowledge runs up one chain, down the next, and so on, as often as there are nodes.
TEST(Infer, IsLinearInAZigzag) {
  std::vector<NodeEntry> outputs;
  NodeEntry left = MakeVariable("v0");
  for (int i = 1; i < 20000; ++i) {
    const NodeEntry right = MakeVariable("v" + std::to_string(i));
    outputs.push_back(right + left);
    left = right;
  }
  std::reverse(outputs.begin(), outputs.end());
  const IndexedGraph graph({outputs});
  const auto inferred = InferShapeType(graph, {{"v0", {{2}, kF32}}});
  ASSERT_TRUE(inferred.ok()) << inferred.status();
}

TEST(Infer, IsLinearInAWideSum) {
  std::vector<NodeEntry> terms;
  for (int i = 0; i < 100000; ++i) terms.push_back(Call("negative", "n", {MakeVariable("v" + std::to_string(i))}));
  const IndexedGraph graph({{Call("add_n", "sum", terms)}});
  const auto inferred = InferShapeType(graph, {{"v99999", {{2}, kF32}}});
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(inferred->shapes[0], Shape({2}));
}

}  // namespace
}  // namespace gluond
