#include "engine/nn/block.h"

#include "engine/nn/node_spec.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

using BlockTest = ModelTest;

std::vector<std::string> ParameterNames(const ModelDefinition& definition) {
  std::vector<std::string> names;
  for (const Parameter& p : definition.parameters) names.push_back(p.name);
  return names;
}

TEST_F(BlockTest, ParametersHaveStructuralNames) {
  const BlockSpec net = {"HybridSequential", "", {}, {
      {"HybridSequential", "features", {}, {{"Conv2D", "", {{"channels", "4"}, {"kernel_size", "3"}}},
                                            {"BatchNorm"}}},
      {"Dense", "", {{"units", "2"}, {"use_bias", "False"}}}}};
  const auto definition = ExpandBlock(net, {{"data", {-1, 1, 8, 8}}});
  ASSERT_OK(definition.status());
  EXPECT_EQ(ParameterNames(*definition),
            (std::vector<std::string>{"features.0.weight", "features.0.bias", "features.1.gamma", "features.1.beta",
                                      "features.1.running_mean", "features.1.running_var", "1.weight"}));
  EXPECT_TRUE(definition->parameters[4].auxiliary);
  EXPECT_EQ(definition->parameters[4].grad_req, GradReq::kNull);
  EXPECT_FALSE(definition->parameters[2].auxiliary);
}

TEST_F(BlockTest, ARootBlockNeedsNoPath) {
  EXPECT_EQ(ParameterNames(*ExpandBlock({"Dense", "", {{"units", "2"}}}, {{"data", {-1, 3}}})),
            (std::vector<std::string>{"weight", "bias"}));
}

// Every block on ones, with all parameters a half: the output's shape and first value.
struct OutputCase {
  const char* name;
  BlockSpec block;
  Shape input;
  Shape output;
  float first;
};
class BlockOutputTest : public ModelTest, public testing::WithParamInterface<OutputCase> {};

TEST_P(BlockOutputTest, IsAsGluons) {
  const OutputCase& c = GetParam();
  Shape batch = c.input;
  batch[0] = -1;
  auto model = MakeModel(c.block, {{"data", batch}});
  ASSERT_OK(Initialize(*model, {{"Constant", {{"value", "0.5"}}}}));
  Tensor x = *Tensor::Empty(*memory_, c.input, DType::kFloat32);
  std::fill_n(x.data<float>(), x.Size(), 1.0f);
  const auto y = Predict(*model, {{"data", x}});
  ASSERT_OK(y.status());
  EXPECT_EQ((*y)[0].tensor.shape(), c.output);
  EXPECT_NEAR((*y)[0].tensor.data<float>()[0], c.first, 1e-4);
}

const BlockSpec kHalf = {"Dense", "", {{"units", "3"}, {"use_bias", "0"}}};  // Of 3 ones: 1.5.

INSTANTIATE_TEST_SUITE_P(Blocks, BlockOutputTest, testing::ValuesIn<OutputCase>({
    {"Dense", {"Dense", "", {{"units", "2"}, {"bias_initializer", "ones"}}}, {5, 3}, {5, 2}, 2.5},
    {"DenseFlattens", {"Dense", "", {{"units", "2"}}}, {5, 3, 2}, {5, 2}, 3},
    {"DenseOnTheLastAxis", {"Dense", "", {{"units", "2"}, {"flatten", "False"}}}, {5, 3, 2}, {5, 3, 2}, 1},
    {"DenseActivates", {"Dense", "", {{"units", "2"}, {"activation", "tanh"}}}, {1, 2}, {1, 2}, 0.761594f},
    {"Conv2D", {"Conv2D", "", {{"channels", "4"}, {"kernel_size", "3"}, {"strides", "(2, 2)"}, {"padding", "1"}}},
     {2, 3, 8, 8}, {2, 4, 4, 4}, 6},
    {"Conv2DGroups", {"Conv2D", "", {{"channels", "4"}, {"kernel_size", "1"}, {"groups", "2"}}},
     {2, 6, 4, 4}, {2, 4, 4, 4}, 1.5},
    {"MaxPool2D", {"MaxPool2D"}, {2, 3, 8, 8}, {2, 3, 4, 4}, 1},
    {"MaxPool2DCeil", {"MaxPool2D", "", {{"pool_size", "3"}, {"strides", "2"}, {"ceil_mode", "True"}}},
     {1, 1, 8, 8}, {1, 1, 4, 4}, 1},
    {"AvgPool2DCountsPadding", {"AvgPool2D", "", {{"padding", "1"}}}, {1, 1, 4, 4}, {1, 1, 3, 3}, 0.25},
    {"AvgPool2DLeavesPaddingOut", {"AvgPool2D", "", {{"padding", "1"}, {"count_include_pad", "False"}}},
     {1, 1, 4, 4}, {1, 1, 3, 3}, 1},
    {"GlobalAvgPool2D", {"GlobalAvgPool2D"}, {2, 3, 5, 7}, {2, 3, 1, 1}, 1},
    {"GlobalMaxPool2D", {"GlobalMaxPool2D"}, {2, 3, 5, 7}, {2, 3, 1, 1}, 1},
    {"BatchNormPredictsByRunningValues", {"BatchNorm"}, {4, 3, 2, 2}, {4, 3, 2, 2}, 0.999995f},
    {"LayerNorm", {"LayerNorm", "", {{"beta_initializer", "ones"}}}, {4, 3}, {4, 3}, 1},
    {"DropoutPredictsTheIdentity", {"Dropout", "", {{"rate", "0.5"}}}, {4, 3}, {4, 3}, 1},
    {"Embedding", {"Embedding", "", {{"input_dim", "5"}, {"output_dim", "7"}}}, {2, 3}, {2, 3, 7}, 0.5},
    {"Flatten", {"Flatten"}, {2, 3, 4}, {2, 12}, 1},
    {"Activation", {"Activation", "", {{"activation", "sigmoid"}}}, {2, 3}, {2, 3}, 0.731059f},
    {"LeakyReLU", {"LeakyReLU", "", {{"alpha", "0.1"}}}, {2, 3}, {2, 3}, 1},
    {"Lambda", {"Lambda", "", {{"function", "_mul_scalar"}, {"scalar", "3"}}}, {2, 3}, {2, 3}, 3},
    // As in MXNet, a bias is 0 and a gamma 1 by their names.
    {"LambdaWithParameters", {"Lambda", "", {{"function", "FullyConnected"}, {"num_hidden", "2"}}}, {2, 3}, {2, 2}, 1.5},
    {"LambdaWithStates", {"Lambda", "", {{"function", "BatchNorm"}, {"fix_gamma", "False"}}}, {4, 3}, {4, 3}, 0.9995f},
    {"Sequential", {"Sequential", "", {}, {kHalf, kHalf}}, {2, 3}, {2, 3}, 2.25},
    {"EmptySequential", {"HybridSequential"}, {2, 3}, {2, 3}, 1},
    {"Concurrent", {"Concurrent", "", {{"axis", "1"}}, {kHalf, kHalf}}, {2, 3}, {2, 6}, 1.5},
    {"Residual", {"Residual", "", {}, {kHalf}}, {2, 3}, {2, 3}, 2.5},
    {"ResidualWithShortcut", {"Residual", "", {}, {kHalf, kHalf}}, {2, 3}, {2, 3}, 3},
}), [](const auto& info) { return info.param.name; });

TEST_F(BlockTest, EveryBlockIsTested) {
  for (const auto& entry : Blocks().entries()) {
    EXPECT_FALSE(entry.description.empty()) << entry.name;
    for (const ArgumentDoc& doc : entry.attributes) EXPECT_FALSE(doc.description.empty()) << entry.name << doc.name;
  }
}

struct BadCase {
  const char* name;
  BlockSpec block;
  absl::StatusCode code;
  const char* message;  // A part of it.
};
class BadBlockTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadBlockTest, IsRefusedWithItsPath) {
  const absl::Status status = ExpandBlock(GetParam().block, {{"data", {-1, 3}}}).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_NE(status.message().find(GetParam().message), absl::string_view::npos) << status;
}

BlockSpec Nested(int depth) {
  BlockSpec block = {"Flatten"};
  for (int i = 0; i < depth; ++i) block = {"Sequential", "", {}, {block}};
  return block;
}

INSTANTIATE_TEST_SUITE_P(Blocks, BadBlockTest, testing::ValuesIn<BadCase>({
    {"UnknownType", {"Sequential", "", {}, {{"Dence"}}}, absl::StatusCode::kNotFound,
     "block '0' (Dence): there is no block 'Dence'; did you mean 'Dense'?"},
    {"UnknownAttribute", {"Dense", "", {{"unit", "3"}}}, absl::StatusCode::kInvalidArgument, "'units'"},
    {"MissingAttribute", {"Sequential", "", {}, {{"Sequential", "body", {}, {{"Dense"}}}}},
     absl::StatusCode::kInvalidArgument, "block 'body.0' (Dense): required attribute 'units'"},
    {"OutOfRange", {"Dense", "", {{"units", "0"}}}, absl::StatusCode::kInvalidArgument, "1 or more"},
    {"UnknownActivation", {"Dense", "", {{"units", "1"}, {"activation", "relo"}}}, absl::StatusCode::kInvalidArgument,
     "relo"},
    {"UnknownInitializer", {"Dense", "", {{"units", "1"}, {"weight_initializer", "Xavior"}}},
     absl::StatusCode::kNotFound, "'Xavier'"},
    {"UnknownOperator", {"Lambda", "", {{"function", "sofmax"}}}, absl::StatusCode::kNotFound, "'softmax'"},
    {"TwinNames", {"Sequential", "", {}, {{"Flatten", "a"}, {"Flatten", "a"}}}, absl::StatusCode::kInvalidArgument,
     "two children are named 'a'"},
    {"NamesWithDots", {"Sequential", "", {}, {{"Flatten", "a.b"}}}, absl::StatusCode::kInvalidArgument, "'a.b'"},
    {"ChildrenOfALayer", {"Flatten", "", {}, {{"Flatten"}}}, absl::StatusCode::kInvalidArgument, "no children"},
    {"NoBody", {"Residual"}, absl::StatusCode::kInvalidArgument, "got 0 children"},
    {"TooDeep", Nested(64), absl::StatusCode::kResourceExhausted, "64 deep"},
}), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gluond
