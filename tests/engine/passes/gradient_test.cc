#include "engine/passes/gradient.h"

#include <string>
#include <vector>

#include "engine/core/op.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/passes/test_ops.h"

namespace gluond {
namespace {

using ::testing::AllOf;
using testing::Call;
using ::testing::ElementsAre;
using testing::Evaluate;
using ::testing::HasSubstr;
using testing::Values;
using testing::Variables;

const NodeEntry kOnes;  // The head gradient that stands for ones.

// The values of dys/dxs at `at`.
std::vector<Values> Gradient(const std::vector<NodeEntry>& ys, const std::vector<NodeEntry>& xs, const Variables& at,
                             std::vector<NodeEntry> out_grads = {}) {
  out_grads.resize(ys.size());
  const absl::StatusOr<Gradients> gradients = BuildGradient(ys, xs, out_grads);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  return Evaluate({gradients.value_or(Gradients{})}, at);
}

TEST(Gradient, TestOperatorsAreRegisteredRight) { EXPECT_EQ(CheckRegistry(), absl::OkStatus()); }

TEST(Gradient, OfACubeIsThreeTimesTheSquare) {
  const NodeEntry x = MakeVariable("x");
  EXPECT_THAT(Gradient({Call("cube", "y", {x})}, {x}, {{"x", {1, 2, -3}}}), ElementsAre(Values{3, 12, 27}));
}

TEST(Gradient, StartsFromTheHeadGradient) {
  const NodeEntry x = MakeVariable("x"), dy = MakeVariable("dy");
  EXPECT_THAT(Gradient({Call("cube", "y", {x})}, {x}, {{"x", {1, 2}}, {"dy", {10, 100}}}, {dy}), ElementsAre(Values{30, 1200}));
}

TEST(Gradient, FollowsEveryPathToAnInput) {
  const NodeEntry a = MakeVariable("a"), b = MakeVariable("b");
  const NodeEntry y = a * b + a / b - a;
  EXPECT_THAT(Gradient({y}, {a, b}, {{"a", {6}}, {"b", {2}}}), ElementsAre(Values{1.5}, Values{4.5}));
}

TEST(Gradient, SumsUpToEightContributionsByOneAddN) {
  const NodeEntry x = MakeVariable("x");
  NodeEntry y = 1.0 * x;
  for (int i = 2; i <= 8; ++i) y = y + double(i) * x;
  const Gradients dx = *BuildGradient({y}, {x}, {kOnes});
  EXPECT_EQ(dx[0].node->op()->name(), "add_n");
  EXPECT_EQ(dx[0].node->num_inputs(), 8u);
  EXPECT_THAT(Evaluate({dx}, {{"x", {1}}}), ElementsAre(Values{36}));
}

TEST(Gradient, SumsMoreByAChainThatIsWideUntilItsEnd) {
  const NodeEntry x = MakeVariable("x");
  NodeEntry y = 1.0 * x;
  for (int i = 2; i <= 9; ++i) y = y + double(i) * x;
  const Gradients dx = *BuildGradient({y}, {x}, {kOnes});
  EXPECT_EQ(dx[0].node->op()->name(), "_cast_like");
  EXPECT_EQ(dx[0].node->inputs[0].node->op()->name(), "_grad_sum");
  EXPECT_THAT(Evaluate({dx}, {{"x", {1}}}), ElementsAre(Values{45}));
}

TEST(Gradient, AddsUpSeveralHeads) {
  const NodeEntry x = MakeVariable("x");
  EXPECT_THAT(Gradient({2.0 * x, x * x}, {x}, {{"x", {5}}}), ElementsAre(Values{12}));
}

TEST(Gradient, CountsTheSameHeadAsOftenAsItIsGiven) {
  const NodeEntry x = MakeVariable("x"), y = x * x, g = MakeVariable("g");
  EXPECT_THAT(Gradient({y, y}, {x}, {{"x", {5}}, {"g", {3}}}, {kOnes, g}), ElementsAre(Values{40}));
}

TEST(Gradient, OfAnInputThatIsAHeadCountsTheHead) {
  const NodeEntry x = MakeVariable("x");
  EXPECT_THAT(Gradient({x, 3.0 * x}, {x}, {{"x", {5, 6}}}), ElementsAre(Values{4, 4}));
}

TEST(Gradient, StopsWhereAnEntryHasNoNode) {
  const NodeEntry x = MakeVariable("x");
  EXPECT_THAT(Gradient({x * Call("BlockGrad", "stop", {x})}, {x}, {{"x", {5}}}), ElementsAre(Values{5}));
}

TEST(Gradient, IsZerosWhereNothingFlows) {
  const NodeEntry x = MakeVariable("x"), other = MakeVariable("other");
  EXPECT_THAT(Gradient({Call("BlockGrad", "stop", {x})}, {x, other}, {{"x", {5, 6}}, {"other", {7}}}),
              ElementsAre(Values{0, 0}, Values{0}));
}

TEST(Gradient, BeginsAtALossWhereNothingFlows) {
  const NodeEntry x = MakeVariable("x"), loss = Call("loss", "loss", {x * x});
  const Variables at = {{"x", {5, 6}}};
  const auto own = ElementsAre(Values{10, 12});
  EXPECT_THAT(Gradient({loss}, {x}, at), own);
  EXPECT_THAT(Gradient({Call("BlockGrad", "stop", {loss})}, {x}, at), own);
  EXPECT_THAT(Gradient({Call("BlockGrad", "stop", {3.0 * loss})}, {x}, at), own) << "not a head's only node";
  EXPECT_THAT(Gradient({Call("BlockGrad", "stop", {loss}) + 2.0 * x}, {x}, at), ElementsAre(Values{12, 14}));
  EXPECT_THAT(Gradient({loss + Call("BlockGrad", "stop", {loss})}, {x}, at), own) << "once, with several consumers";
  EXPECT_THAT(Gradient({2.0 * x}, {x}, at), ElementsAre(Values{2, 2})) << "no head leads to the loss";
}

TEST(Gradient, GivesZerosToHeadsThatNobodyUses) {
  const NodeEntry a = MakeVariable("a"), b = MakeVariable("b");
  const NodeEntry both = Call("sum_diff", "both", {a, b}), diff{both.node, 1};
  EXPECT_THAT(Gradient({diff}, {a, b}, {{"a", {6}}, {"b", {2}}}), ElementsAre(Values{1}, Values{-1}));
  const Gradients da = *BuildGradient({diff}, {a}, {kOnes});
  EXPECT_EQ(da[0].node->inputs[0].node->op()->name(), "zeros_like");
  EXPECT_EQ(da[0].node->inputs[0].node->inputs[0].node, both.node);
}

TEST(Gradient, OfIntermediateEntries) {
  const NodeEntry x = MakeVariable("x"), h = x * x, y = h * h;
  EXPECT_THAT(Gradient({y}, {h, x}, {{"x", {3}}}), ElementsAre(Values{18}, Values{108}));
  const NodeEntry both = Call("sum_diff", "both", {x, x}), sum{both.node, 0}, diff{both.node, 1};
  EXPECT_THAT(Gradient({sum * diff + sum}, {sum, diff}, {{"x", {3}}}), ElementsAre(Values{1}, Values{6}));
}

TEST(Gradient, OfGradients) {
  const NodeEntry x = MakeVariable("x"), y = Call("cube", "y", {x});
  const Gradients d1 = *BuildGradient({y}, {x}, {kOnes});
  const Gradients d2 = *BuildGradient({d1[0]}, {x}, {kOnes});
  const Gradients d3 = *BuildGradient({d2[0]}, {x}, {kOnes});
  EXPECT_THAT(Evaluate({{d1[0], d2[0], d3[0]}}, {{"x", {2, -1}}}), ElementsAre(Values{12, 3}, Values{12, -6}, Values{6, 6}));
}

TEST(Gradient, NamesAnOperatorWithoutAGradient) {
  const NodeEntry x = MakeVariable("x"), y = Call("opaque", "dark", {x * x});
  const absl::Status status = BuildGradient({y}, {x}, {kOnes}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("node 'dark' (opaque)"), HasSubstr("FGradient"), HasSubstr("BlockGrad")));
}

TEST(Gradient, DoesNotAskOperatorsThatAreNotOnTheWay) {
  const NodeEntry x = MakeVariable("x"), other = MakeVariable("other");
  EXPECT_THAT(Gradient({x * Call("opaque", "dark", {other})}, {x}, {{"x", {5}}, {"other", {7}}}), ElementsAre(Values{7}));
  EXPECT_THAT(Gradient({Call("BlockGrad", "stop", {Call("opaque", "dark", {x})})}, {x}, {{"x", {5}}}), ElementsAre(Values{0}));
  const NodeEntry h = Call("opaque", "dark", {x});  // Differentiated by, not through.
  EXPECT_THAT(Gradient({h * h}, {h}, {{"x", {5}}}), ElementsAre(Values{10}));
}

TEST(Gradient, ReportsAGradientOfTheWrongNumberOfEntries) {
  const NodeEntry x = MakeVariable("x");
  const absl::Status status = BuildGradient({Call("wrong_gradient", "w", {x})}, {x}, {kOnes}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 'w' (wrong_gradient): FGradient returned 0 entries for 1"));
  EXPECT_EQ(BuildGradient({x}, {x}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Gradient, IsLinearInAChain) {
  const NodeEntry x = MakeVariable("x");
  NodeEntry y = x;
  for (int i = 0; i < 100000; ++i) y = Call("negative", "n", {y});
  EXPECT_THAT(Gradient({y}, {x}, {{"x", {2}}}), ElementsAre(Values{1}));
}

TEST(Gradient, IsLinearInTheNumberOfUses) {
  const NodeEntry x = MakeVariable("x");
  std::vector<NodeEntry> terms;
  for (int i = 0; i < 50000; ++i) terms.push_back(-x);
  EXPECT_THAT(Gradient({Call("add_n", "sum", terms)}, {x}, {{"x", {2}}}), ElementsAre(Values{-50000}));
}

}  // namespace
}  // namespace gluond
