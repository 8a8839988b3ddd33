#include "engine/core/elementwise.h"

#include "engine/core/op.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GLUOND_REGISTER_OP(forward).set_num_inputs(2).set_num_outputs(2).set_attr<FNumVisibleOutputs>("FNumVisibleOutputs",
                                                                                              [](const NodeAttrs&) { return 1u; });
GLUOND_REGISTER_OP(_backward_none).set_num_inputs(1).set_num_outputs(2);
GLUOND_REGISTER_OP(_backward_in).set_num_inputs(3).set_num_outputs(2);
GLUOND_REGISTER_OP(_backward_out).set_num_inputs(3).set_num_outputs(2);
GLUOND_REGISTER_OP(_backward_in_out).set_num_inputs(5).set_num_outputs(2);

TEST(SameShape, FillsEveryShapeFromAnyOther) {
  ShapeVector in = {{2, -1}, Shape()}, out = {{-1, 3}};
  EXPECT_TRUE(SameShape({}, &in, &out).value());
  EXPECT_THAT(in, ElementsAre(Shape({2, 3}), Shape({2, 3})));
  EXPECT_THAT(out, ElementsAre(Shape({2, 3})));
}

TEST(SameShape, SaysWhatIsNotKnownYet) {
  ShapeVector in = {{2, -1}, Shape()}, out = {Shape()};
  EXPECT_FALSE(SameShape({}, &in, &out).value());
  EXPECT_THAT(out, ElementsAre(Shape({2, -1})));
}

TEST(SameShape, NamesTheArgumentThatContradicts) {
  ShapeVector in = {{2}, {3}}, out = {Shape()};
  EXPECT_THAT(std::string(SameShape({}, &in, &out).status().message()), HasSubstr("input 1 has shape [3], expected [2]"));
  in = {{2}, {2}};
  out = {{4}};
  EXPECT_THAT(std::string(SameShape({}, &in, &out).status().message()), HasSubstr("output 0 has shape [4]"));
}

TEST(SameType, FillsOrNamesTheContradiction) {
  TypeVector in = {DType::kUnknown, DType::kInt8}, out = {DType::kUnknown};
  EXPECT_TRUE(SameType({}, &in, &out).value());
  EXPECT_THAT(in, ElementsAre(DType::kInt8, DType::kInt8));
  EXPECT_THAT(out, ElementsAre(DType::kInt8));
  in[0] = DType::kBool;
  EXPECT_THAT(std::string(SameType({}, &in, &out).status().message()), HasSubstr("input 1 is int8, expected bool"));
}

absl::Status AssignSecondInput(ShapeVector* in, const Shape& shape) {
  SHAPE_ASSIGN_CHECK(in, 1, shape);
  return absl::OkStatus();
}

absl::Status AssignFirstOutput(TypeVector* out, DType type) {
  TYPE_ASSIGN_CHECK(out, 0, type);
  return absl::OkStatus();
}

TEST(AssignCheck, SaysWhichArgumentContradictsWhat) {
  ShapeVector in = {Shape(), {2, -1}};
  EXPECT_EQ(AssignSecondInput(&in, {-1, 3}), absl::OkStatus());
  EXPECT_EQ(in[1], Shape({2, 3}));
  EXPECT_EQ(AssignSecondInput(&in, {2, 4}).message(), "input 1: Shape inconsistent, Provided = [2,3], inferred shape=[2,4]");
  TypeVector out = {DType::kInt8};
  EXPECT_EQ(AssignFirstOutput(&out, DType::kBool).message(), "output 0: Type inconsistent, Provided = int8, inferred type=bool");
}

std::vector<std::string> InputNames(const NodeEntry& e) {
  std::vector<std::string> names;
  for (const NodeEntry& input : e.node->inputs) names.push_back(absl::StrCat(input.node->name(), input.index));
  return names;
}

TEST(ElemwiseGrad, PassesHeadsOfVisibleOutputsThenInputsThenOutputs) {
  const NodeEntry y = MakeNode("forward", "y", {MakeVariable("a"), MakeVariable("b")});
  const Gradients heads = {MakeVariable("dy"), MakeVariable("hidden")};
  EXPECT_THAT(InputNames(ElemwiseGradUseNone{"_backward_none"}(y.node, heads)[0]), ElementsAre("dy0"));
  EXPECT_THAT(InputNames(ElemwiseGradUseIn{"_backward_in"}(y.node, heads)[0]), ElementsAre("dy0", "a0", "b0"));
  EXPECT_THAT(InputNames(ElemwiseGradUseOut{"_backward_out"}(y.node, heads)[0]), ElementsAre("dy0", "y0", "y1"));
  EXPECT_THAT(InputNames(ElemwiseGradUseInOut{"_backward_in_out"}(y.node, heads)[0]), ElementsAre("dy0", "a0", "b0", "y0", "y1"));
}

TEST(MakeGradNode, GivesAnEntryPerOutput) {
  const NodeEntry y = MakeNode("forward", "y", {MakeVariable("a"), MakeVariable("b")});
  const Gradients gradients = MakeGradNode("_backward_none", y.node, {MakeVariable("dy")});
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_EQ(gradients[0].node, gradients[1].node);
  EXPECT_EQ(gradients[1].index, 1u);
  EXPECT_EQ(gradients[0].node->name(), "y_backward");
}

TEST(NoGradient, HasAnEmptyEntryForEachInput) {
  const NodeEntry y = MakeNode("forward", "y", {MakeVariable("a"), MakeVariable("b")});
  const Gradients gradients = NoGradient(y.node, {});
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_FALSE(gradients[0]);
}

}  // namespace
}  // namespace gluond
