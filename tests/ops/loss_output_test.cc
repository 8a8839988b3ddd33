// Operators whose gradient is that of a loss, whatever head gradient comes in, against MXNet 1.9.1: regressions,
// SVMOutput, MakeLoss.

#include <limits>

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::loss_output {
namespace {

const Numbers kX = {{2, 3}, {-1.875, -1, -0.125, 0.75, 1.625, -1.375}};
const Numbers kLabel = {{2, 3}, {-1.875, -1.25, -0.625, 0, 0.625, 1.25}};

OP_CASES(LossOutputs,
         {
             OpCase{"Linear", "LinearRegressionOutput", {kX, kLabel}, {}, {kX}}.Indices({1}).WithoutGradient(),
             OpCase{"Mae", "MAERegressionOutput", {kX, kLabel}, {}, {kX}}.Indices({1}).WithoutGradient(),
             OpCase{"Logistic",
                    "LogisticRegressionOutput",
                    {kX, kLabel},
                    {},
                    {{{2, 3}, {0.13296424, 0.26894142, 0.46879063, 0.6791787, 0.83548354, 0.20181322}}}}
                 .Indices({1})
                 .WithoutGradient(),
             OpCase{"Svm", "SVMOutput", {kX, {{2}, {2, 0}}}, {}, {kX}}.Indices({1}).WithoutGradient(),
             OpCase{"Any", "MakeLoss", {kX}, {}, {kX}}.WithoutGradient(),
             OpCase{"OfAnEmptyBatch", "LinearRegressionOutput", {{{0, 3}, {}}, {{0, 3}, {}}}, {}, {{{0, 3}, {}}}}
                 .Indices({1})
                 .WithoutGradient(),
             OpCase{"OfALabelVector", "LinearRegressionOutput", {{{2, 1}, {1, 2}}, {{2}, {1, 2}}}, {}, {{{2, 1}, {1, 2}}}}
                 .Indices({1})
                 .WithoutGradient(),
         });

// The gradients are operators, of y and the labels, or of x.
OP_CASES(LossGradients, {
                            OpCase{"Linear",
                                   "_backward_LinearRegressionOutput",
                                   {kX, kLabel},
                                   {{"grad_scale", "2"}},
                                   {{{2, 3}, {0, 0.16666667, 0.33333333, 0.5, 0.66666667, -1.75}}}},
                            OpCase{"Mae",
                                   "_backward_MAERegressionOutput",
                                   {kX, kLabel},
                                   {{"grad_scale", "2"}},
                                   {{{2, 3}, {-0.66666667, 0.66666667, 0.66666667, 0.66666667, 0.66666667, -0.66666667}}}},
                            OpCase{"SquaredHinge",
                                   "_backward_SVMOutput",
                                   {kX, {{2}, {2, 0}}},
                                   {{"margin", "0.5"}, {"regularization_coefficient", "2"}},
                                   {{{2, 3}, {0, 0, -2.5, 0, 8.5, 0}}}}
                                .Indices({1}),
                            OpCase{"Hinge",
                                   "_backward_SVMOutput",
                                   {kX, {{2}, {2, 0}}},
                                   {{"margin", "0.5"}, {"regularization_coefficient", "2"}, {"use_linear", "True"}},
                                   {{{2, 3}, {0, 0, -2, 0, 2, 0}}}}
                                .Indices({1}),
                            OpCase{"MakeLoss", "_backward_MakeLoss", {kX}, {{"grad_scale", "3"}}, {{{2, 3}, {3, 3, 3, 3, 3, 3}}}},
                            OpCase{"MakeLossOfTheBatch",
                                   "_backward_MakeLoss",
                                   {kX},
                                   {{"grad_scale", "3"}, {"normalization", "batch"}},
                                   {{{2, 3}, {1.5, 1.5, 1.5, 1.5, 1.5, 1.5}}}},
                            OpCase{"MakeLossOfWhatIsAbove",
                                   "_backward_MakeLoss",
                                   {kX},
                                   {{"grad_scale", "3"}, {"normalization", "valid"}, {"valid_thresh", "-1"}},
                                   {{{2, 3}, {1, 1, 1, 1, 1, 1}}}},
                            OpCase{"MakeLossOfNothingAbove",
                                   "_backward_MakeLoss",
                                   {kX},
                                   {{"grad_scale", "3"}, {"normalization", "valid"}, {"valid_thresh", "10"}},
                                   {{{2, 3}, {3, 3, 3, 3, 3, 3}}}},
                        });

// dx for a head gradient of fives.
std::vector<double> GradientOf(const char* op, const std::vector<Numbers>& inputs, const AttrDict& attrs) {
  std::vector<NodeEntry> xs;
  std::map<std::string, HostTensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    xs.push_back(MakeVariable(absl::StrCat("x", i)));
    values[absl::StrCat("x", i)] = HostTensor::Of(inputs[i], DType::kFloat64);
  }
  const NodePtr node = *TryMakeNode(op, "y", xs, attrs);
  const Gradients dx = *(*node->op()->GetAttr<FGradient>("FGradient"))(node, {MakeVariable("dy")});
  EXPECT_EQ(dx.size(), inputs.size());
  values["dy"] = HostTensor::Of({inputs[0].shape, std::vector<double>(inputs[0].values.size(), 5)}, DType::kFloat64);
  const auto got = OneByOne().Evaluate({dx[0]}, values);
  EXPECT_TRUE(got.ok()) << got.status();
  return got.ok() ? (*got)[0].values() : std::vector<double>();
}

TEST(LossGradients, IgnoreTheHeadGradient) {
  const std::vector<double> logistic = GradientOf("LogisticRegressionOutput", {kX, kLabel}, {{"grad_scale", "2"}});
  const double want[] = {1.3386428, 1.0126276, 0.72919375, 0.4527858, 0.14032236, -0.69879119};
  ASSERT_EQ(logistic.size(), 6);
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(logistic[i], want[i], 1e-7);
  EXPECT_EQ(GradientOf("SVMOutput", {{{1, 2}, {0, 0}}, {{1}, {1}}}, {}), (std::vector<double>{2, -2}));
  EXPECT_EQ(GradientOf("MakeLoss", {{{2}, {1, 7}}}, {{"grad_scale", "0.5"}}), (std::vector<double>{0.5, 0.5}));
}

TEST(LossOutputs, RefuseWhatDoesNotFit) {
  EXPECT_EQ(ErrorOf("LinearRegressionOutput", {kX, {{2}, {1, 2}}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("SVMOutput", {kX, {{3}, {1, 2, 0}}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("SVMOutput", {{{3}, {1, 2, 0}}, {{3}, {1, 2, 0}}}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(SVMOutput, ALabelThatIsNoClassIsAnErrorThatNamesIt) {
  if (TestDevice().type == DeviceType::kGpu) GTEST_SKIP() << "a GPU makes the gradient NaN";
  for (double bad : {3.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const absl::Status status = ErrorOf("_backward_SVMOutput", {kX, {{2}, {0, bad}}});
    EXPECT_NE(status.message().find("label 1 is"), absl::string_view::npos) << status;
  }
}

TEST(LossOutputs, InferTheLabels) {
  const Op* op = Op::Find("LinearRegressionOutput");
  NodeAttrs attrs;
  ASSERT_TRUE(op->ParseAttrs(&attrs).ok());
  for (const auto& [x, label] : std::vector<std::pair<Shape, Shape>>{{{4, 3}, {4, 3}}, {{4, 1}, {4}}, {{4}, {4}}}) {
    ShapeVector in = {x, {}}, out = {{}};
    EXPECT_TRUE((*op->GetAttr<FInferShape>("FInferShape"))(attrs, &in, &out).value());
    EXPECT_EQ(in[1], label);
  }
}

}  // namespace
}  // namespace gluond::testing::loss_output
