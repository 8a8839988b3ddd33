// Activation and LeakyReLU, by formula; their gradients and the gradients of those.

#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace gluond::testing::activation {
namespace {

const Numbers kX = {{4}, {-2, -0.5, 0.25, 3}};
std::vector<Numbers> Is(std::vector<double> y) { return {{{4}, std::move(y)}}; }

OP_CASES(Activation,
         {
             OpCase{"Relu", "Activation", {kX}, {{"act_type", "relu"}}, Is({0, 0, 0.25, 3})}.TwiceDifferentiable(),
             OpCase{"Sigmoid", "Activation", {kX}, {{"act_type", "sigmoid"}}, Is({0.11920292, 0.37754067, 0.5621765, 0.95257413})}
                 .TwiceDifferentiable(),
             OpCase{"Tanh", "Activation", {kX}, {{"act_type", "tanh"}}, Is({-0.96402758, -0.46211716, 0.24491866, 0.99505475})}
                 .TwiceDifferentiable(),
             OpCase{"Softrelu", "Activation", {kX}, {{"act_type", "softrelu"}}, Is({0.12692801, 0.47407698, 0.82593942, 3.0485874})}
                 .TwiceDifferentiable(),
             OpCase{"Softsign", "Activation", {kX}, {{"act_type", "softsign"}}, Is({-0.66666667, -0.33333333, 0.2, 0.75})}
                 .TwiceDifferentiable(),
         });

OP_CASES(
    LeakyRelu,
    {
        OpCase{"Leaky", "LeakyReLU", {kX}, {{"slope", "0.5"}}, Is({-1, -0.25, 0.25, 3})}.TwiceDifferentiable(),
        OpCase{"Elu", "LeakyReLU", {kX}, {{"act_type", "elu"}}, Is({-0.21616618, -0.098367335, 0.25, 3})}.TwiceDifferentiable(),
        OpCase{"Selu", "LeakyReLU", {kX}, {{"act_type", "selu"}}, Is({-1.5201665, -0.69175819, 0.26267525, 3.152103})}
            .TwiceDifferentiable(),
        OpCase{"Gelu", "LeakyReLU", {kX}, {{"act_type", "gelu"}}, Is({-0.045500264, -0.15426877, 0.14967658, 2.9959503})}
            .TwiceDifferentiable(),
        {"PreluOfChannels",
         "LeakyReLU",
         {{{2, 2, 2}, {-1, 2, -3, 4, 5, -6, 7, -8}}, {{2}, {0.5, 0.25}}},
         {{"act_type", "prelu"}},
         {{{2, 2, 2}, {-0.5, 2, -0.75, 4, 5, -3, 7, -2}}}},
        {"PreluOfOneSlope",
         "LeakyReLU",
         {{{2, 2}, {-1, 2, -3, 4}}, {{1}, {0.5}}},
         {{"act_type", "prelu"}},
         {{{2, 2}, {-0.5, 2, -1.5, 4}}}},
        {"PreluOfChannelsOfSamples",
         "LeakyReLU",
         {{{2, 2, 2}, {-1, 2, -3, 4, 5, -6, -7, -8}}, {{2, 2}, {0.5, 0.25, 3, 2}}},
         {{"act_type", "prelu"}},
         {{{2, 2, 2}, {-0.5, 2, -0.75, 4, 5, -18, -14, -16}}}},
        {"PreluOfSamples",
         "LeakyReLU",
         {{{2, 2, 2}, {-1, 2, -3, 4, 5, -6, -7, -8}}, {{2, 1}, {0.5, 3}}},
         {{"act_type", "prelu"}},
         {{{2, 2, 2}, {-0.5, 2, -1.5, 4, 5, -18, -21, -24}}}},
        {"PreluOfRowsOfSlopes",
         "LeakyReLU",
         {{{2, 3}, {-1, 2, -3, 4, -5, -6}}, {{1, 3}, {0.5, 0.25, 3}}},
         {{"act_type", "prelu"}},
         {{{2, 3}, {-0.5, 2, -9, 4, -1.25, -18}}}},
    });

TEST(Activation, ReluLetsNanThrough) {
  const absl::StatusOr<NodePtr> node = TryMakeNode("Activation", "y", {MakeVariable("x")}, {{"act_type", "relu"}});
  std::vector<HostTensor> inputs = {HostTensor::Of({{1}, {std::numeric_limits<double>::quiet_NaN()}}, DType::kFloat32)};
  EXPECT_TRUE(std::isnan((*OneByOne().Call(**node, &inputs))[0].values()[0]));
}

TEST(Activation, RefusesSlopesThatDoNotFit) {
  const absl::Status error =
      ErrorOf("LeakyReLU", {{{2, 3, 4}, std::vector<double>(24)}, {{4}, {1, 1, 1, 1}}}, {{"act_type", "prelu"}});
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(error.message()).find("'gamma' has shape [4], which does not fit to data [2,3,4]"), std::string::npos)
      << error;
}

TEST(Activation, RefusesAnUnknownType) {
  EXPECT_EQ(ErrorOf("Activation", {kX}, {{"act_type", "swish"}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::testing::activation
