#include <limits>

#include "engine/core/elementwise.h"
#include "engine/passes/gradient.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::identity {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const Numbers kX = {{2, 2}, {1, -2, 0.5, 4}};

OP_CASES(
    Identity,
    {
        OpCase{"Copy", "_copy", {kX}, {}, {kX}}.TwiceDifferentiable(),
        OpCase{"BlockGrad", "BlockGrad", {kX}, {}, {kX}},
        OpCase{"MakeLoss", "make_loss", {kX}, {}, {kX}}.WithoutGradient(),
        OpCase{"WithAttrLikeRhs", "_identity_with_attr_like_rhs", {kX, {{2, 2}, {0, 0, 0, 0}}}, {}, {kX}}.TwiceDifferentiable(),
        {"AmpCast", "amp_cast", {kX}, {{"dtype", "float32"}}, {kX}},
        OpCase{"AmpMulticast", "amp_multicast", {kX, {{1}, {3}}}, {}, {kX, {{1}, {3}}}}.TwiceDifferentiable(),
        OpCase{"DivSqrtDim", "_contrib_div_sqrt_dim", {{{1, 4}, {1, -2, 0.5, 4}}}, {}, {{{1, 4}, {0.5, -1, 0.25, 2}}}}
            .TwiceDifferentiable(),
        {"DivSqrtDimOfNothing", "_contrib_div_sqrt_dim", {{{2, 0}, {}}}, {}, {{{2, 0}, {}}}},
        {"CastToTheSame", "Cast", {kX}, {{"dtype", "float64"}}, {kX}},
        OpCase{"CastTruncates", "Cast", {{{4}, {1.5, -1.5, 2, 100}}}, {{"dtype", "int32"}}, {{{4}, {1, -1, 2, 100}}}}
            .WithoutGradient(),
        OpCase{"CastSaturates", "Cast", {{{4}, {1e4, -1e4, 300, kNan}}}, {{"dtype", "uint8"}}, {{{4}, {255, 0, 255, 0}}}}
            .WithoutGradient()
            .OnlyFloats(),
        OpCase{"CastToBool", "Cast", {{{3}, {0.5, 0, -2}}}, {{"dtype", "bool"}}, {{{3}, {1, 0, 1}}}}.WithoutGradient(),
        {"ZerosLike", "zeros_like", {kX}, {}, {{{2, 2}, {0, 0, 0, 0}}}},
        {"OnesLike", "ones_like", {kX}, {}, {{{2, 2}, {1, 1, 1, 1}}}},
    });

// The gradient of sum(y) by x.
std::vector<double> GradientOf(const std::string& op, const AttrDict& attrs, DType type) {
  const NodeEntry x = MakeVariable("x");
  const NodePtr y = *TryMakeNode(op, "y", {x}, attrs);
  const Gradients dx = *BuildGradient({Output(y)}, {x}, {MakeVariable("dy")});
  const auto dy_type = attrs.empty() ? type : DType::kFloat64;
  const HostTensor result =
      (*OneByOne().Evaluate(dx, {{"x", HostTensor::Of(kX, type)}, {"dy", HostTensor::Of({{2, 2}, {5, 6, 7, 8}}, dy_type)}}))[0];
  EXPECT_EQ(result.dtype, type);
  return result.values();
}

// The types of the outputs, inferred from the types of the inputs.
std::vector<DType> TypesOf(const std::string& op, AttrDict attrs, const std::vector<DType>& in) {
  std::vector<NodeEntry> xs;
  std::vector<HostTensor> inputs;
  for (DType type : in) {
    xs.push_back(MakeVariable("x"));
    inputs.push_back(HostTensor::Of({{1}, {2}}, type));
  }
  const auto ys = OneByOne().Call(**TryMakeNode(op, "y", xs, std::move(attrs)), &inputs);
  std::vector<DType> types;
  for (const HostTensor& y : *ys) {
    EXPECT_EQ(y.values()[0], 2) << op;
    types.push_back(y.dtype);
  }
  return types;
}

using Types = std::vector<DType>;
constexpr DType kHalf = DType::kFloat16, kBrain = DType::kBfloat16, kSingle = DType::kFloat32, kDouble = DType::kFloat64;

TEST(Amp, CastsSingleAndHalfPrecisionOnly) {
  for (DType type : {kHalf, kBrain, kSingle}) EXPECT_EQ(TypesOf("amp_cast", {{"dtype", "float16"}}, {type}), Types{kHalf});
  for (DType type : {kDouble, DType::kInt32}) EXPECT_EQ(TypesOf("amp_cast", {{"dtype", "float16"}}, {type}), Types{type});
}

TEST(Amp, MulticastsToTheWidestOrNarrowest) {
  const AttrDict narrow = {{"cast_narrow", "True"}};
  EXPECT_EQ(TypesOf("amp_multicast", {}, {kHalf, kSingle}), (Types{kSingle, kSingle}));
  EXPECT_EQ(TypesOf("amp_multicast", narrow, {kSingle, kHalf}), (Types{kHalf, kHalf}));
  EXPECT_EQ(TypesOf("amp_multicast", {}, {kHalf, kHalf}), (Types{kHalf, kHalf}));
  EXPECT_EQ(TypesOf("amp_multicast", {}, {kHalf, kBrain}), (Types{kSingle, kSingle}));
  EXPECT_EQ(TypesOf("amp_multicast", {}, {kHalf, kDouble, DType::kInt32}), (Types{kHalf, kDouble, DType::kInt32}));
}

TEST(Identity, BlockGradStopsTheGradient) {
  EXPECT_EQ(GradientOf("BlockGrad", {}, DType::kFloat32), (std::vector<double>{0, 0, 0, 0}));
}
TEST(Identity, MakeLossHasAGradientOfOnes) {
  EXPECT_EQ(GradientOf("make_loss", {}, DType::kFloat32), (std::vector<double>{1, 1, 1, 1}));
}
TEST(Identity, CastPassesTheGradientBackInTheTypeOfItsInput) {
  EXPECT_EQ(GradientOf("Cast", {{"dtype", "float64"}}, DType::kFloat16), (std::vector<double>{5, 6, 7, 8}));
}

}  // namespace
}  // namespace gluond::testing::identity
