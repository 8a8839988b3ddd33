#include "engine/nn/block.h"

#include <set>

#include "engine/core/error_info.h"
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
  const BlockSpec net = {
      "HybridSequential",
      "",
      {},
      {{"HybridSequential", "features", {}, {{"Conv2D", "", {{"channels", "4"}, {"kernel_size", "3"}}}, {"BatchNorm"}}},
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

const std::vector<OutputCase> kOutputCases = {
    {"Dense", {"Dense", "", {{"units", "2"}, {"bias_initializer", "ones"}}}, {5, 3}, {5, 2}, 2.5},
    {"DenseFlattens", {"Dense", "", {{"units", "2"}}}, {5, 3, 2}, {5, 2}, 3},
    {"DenseOnTheLastAxis", {"Dense", "", {{"units", "2"}, {"flatten", "False"}}}, {5, 3, 2}, {5, 3, 2}, 1},
    {"DenseActivates", {"Dense", "", {{"units", "2"}, {"activation", "tanh"}}}, {1, 2}, {1, 2}, 0.761594f},
    {"Conv2D",
     {"Conv2D", "", {{"channels", "4"}, {"kernel_size", "3"}, {"strides", "(2, 2)"}, {"padding", "1"}}},
     {2, 3, 8, 8},
     {2, 4, 4, 4},
     6},
    {"Conv2DGroups", {"Conv2D", "", {{"channels", "4"}, {"kernel_size", "1"}, {"groups", "2"}}}, {2, 6, 4, 4}, {2, 4, 4, 4}, 1.5},
    {"MaxPool2D", {"MaxPool2D"}, {2, 3, 8, 8}, {2, 3, 4, 4}, 1},
    {"MaxPool2DCeil",
     {"MaxPool2D", "", {{"pool_size", "3"}, {"strides", "2"}, {"ceil_mode", "True"}}},
     {1, 1, 8, 8},
     {1, 1, 4, 4},
     1},
    {"AvgPool2DCountsPadding", {"AvgPool2D", "", {{"padding", "1"}}}, {1, 1, 4, 4}, {1, 1, 3, 3}, 0.25},
    {"AvgPool2DLeavesPaddingOut",
     {"AvgPool2D", "", {{"padding", "1"}, {"count_include_pad", "False"}}},
     {1, 1, 4, 4},
     {1, 1, 3, 3},
     1},
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
    {"HybridConcurrent", {"HybridConcurrent", "", {}, {{"Identity"}, kHalf}}, {2, 3}, {2, 6}, 1},
    {"Identity", {"Identity"}, {2, 3}, {2, 3}, 1},
    {"HybridLambda", {"HybridLambda", "", {{"function", "negative"}}}, {2, 3}, {2, 3}, -1},
    {"SparseEmbedding", {"SparseEmbedding", "", {{"input_dim", "5"}, {"output_dim", "7"}}}, {2, 3}, {2, 3, 7}, 0.5},
    {"PReLU", {"PReLU"}, {2, 3}, {2, 3}, 1},
    {"PReLUOfTheNegativeSide",
     {"Sequential", "", {}, {{"Lambda", "", {{"function", "negative"}}}, {"PReLU"}}},
     {2, 3},
     {2, 3},
     -0.25},
    {"ELU", {"ELU"}, {2, 3}, {2, 3}, 1},
    {"SELU", {"SELU"}, {2, 3}, {2, 3}, 1.050701f},
    {"GELU", {"GELU"}, {2, 3}, {2, 3}, 0.841345f},
    {"Swish", {"Swish", "", {{"beta", "2"}}}, {2, 3}, {2, 3}, 0.880797f},
    {"Conv1D",
     {"Conv1D", "", {{"channels", "4"}, {"kernel_size", "3"}, {"strides", "2"}, {"padding", "1"}}},
     {2, 3, 8},
     {2, 4, 4},
     3},
    {"Conv3D", {"Conv3D", "", {{"channels", "4"}, {"kernel_size", "(1, 2, 3)"}}}, {2, 3, 4, 5, 6}, {2, 4, 4, 4, 4}, 9},
    {"Conv1DTranspose",
     {"Conv1DTranspose", "", {{"channels", "4"}, {"kernel_size", "2"}, {"strides", "2"}}},
     {2, 3, 4},
     {2, 4, 8},
     1.5},
    {"Conv2DTranspose",
     {"Conv2DTranspose",
      "",
      {{"channels", "4"}, {"kernel_size", "3"}, {"strides", "2"}, {"padding", "1"}, {"output_padding", "1"}, {"groups", "2"}}},
     {2, 6, 4, 4},
     {2, 4, 8, 8},
     1.5},
    {"Conv3DTranspose", {"Conv3DTranspose", "", {{"channels", "2"}, {"kernel_size", "1"}}}, {2, 3, 2, 2, 2}, {2, 2, 2, 2, 2}, 1.5},
    {"MaxPool1D", {"MaxPool1D"}, {2, 3, 8}, {2, 3, 4}, 1},
    {"MaxPool3D", {"MaxPool3D", "", {{"pool_size", "(1, 2, 4)"}}}, {2, 3, 4, 4, 4}, {2, 3, 4, 2, 1}, 1},
    {"AvgPool1D", {"AvgPool1D", "", {{"padding", "1"}}}, {1, 1, 4}, {1, 1, 3}, 0.5},
    {"AvgPool3D", {"AvgPool3D", "", {{"padding", "1"}}}, {1, 1, 4, 4, 4}, {1, 1, 3, 3, 3}, 0.125},
    {"GlobalAvgPool1D", {"GlobalAvgPool1D"}, {2, 3, 5}, {2, 3, 1}, 1},
    {"GlobalMaxPool1D", {"GlobalMaxPool1D"}, {2, 3, 5}, {2, 3, 1}, 1},
    {"GlobalAvgPool3D", {"GlobalAvgPool3D"}, {2, 3, 5, 2, 2}, {2, 3, 1, 1, 1}, 1},
    {"GlobalMaxPool3D", {"GlobalMaxPool3D"}, {2, 3, 5, 2, 2}, {2, 3, 1, 1, 1}, 1},
    {"ReflectionPad2D", {"ReflectionPad2D", "", {{"padding", "2"}}}, {1, 1, 3, 4}, {1, 1, 7, 8}, 1},
    {"ReflectionPad2DOfSides", {"ReflectionPad2D", "", {{"padding", "(0, 0, 0, 0, 1, 0, 0, 2)"}}}, {1, 1, 3, 4}, {1, 1, 4, 6}, 1},
    {"PixelShuffle1D", {"PixelShuffle1D", "", {{"factor", "2"}}}, {1, 6, 4}, {1, 3, 8}, 1},
    {"PixelShuffle2D", {"PixelShuffle2D", "", {{"factor", "(2, 3)"}}}, {1, 12, 3, 4}, {1, 2, 6, 12}, 1},
    {"PixelShuffle3D", {"PixelShuffle3D", "", {{"factor", "2"}}}, {1, 8, 1, 2, 3}, {1, 1, 2, 4, 6}, 1},
    {"BatchNormReLU", {"BatchNormReLU", "", {{"running_mean_initializer", "Constant(value=2)"}}}, {4, 3}, {4, 3}, 0},
    {"SyncBatchNorm", {"SyncBatchNorm", "", {{"num_devices", "1"}}}, {4, 3, 2, 2}, {4, 3, 2, 2}, 0.999995f},
    {"InstanceNorm", {"InstanceNorm", "", {{"beta_initializer", "ones"}}}, {2, 3, 4}, {2, 3, 4}, 1},
    {"InstanceNormOfTheLastAxis", {"InstanceNorm", "", {{"axis", "2"}, {"in_channels", "4"}}}, {2, 3, 4}, {2, 3, 4}, 0},
    {"GroupNorm", {"GroupNorm", "", {{"num_groups", "3"}, {"beta_initializer", "ones"}}}, {2, 6, 4}, {2, 6, 4}, 1},
    // Gates are functions of 1.5: three ones and a state of zeros, with weights of a half.
    {"RNN", {"RNN", "", {{"hidden_size", "4"}}}, {5, 2, 3}, {5, 2, 4}, 1.5},
    {"RNNInBothDirections",
     {"RNN", "", {{"hidden_size", "4"}, {"activation", "tanh"}, {"bidirectional", "True"}, {"layout", "NTC"}, {"input_size", "3"}}},
     {2, 5, 3},
     {2, 5, 8},
     0.905148f},
    {"LSTM", {"LSTM", "", {{"hidden_size", "4"}}}, {5, 2, 3}, {5, 2, 4}, 0.514386f},
    {"GRU", {"GRU", "", {{"hidden_size", "4"}}}, {5, 2, 3}, {5, 2, 4}, 0.165122f},
    {"RNNCell", {"RNNCell", "", {{"hidden_size", "4"}, {"length", "5"}}}, {2, 5, 3}, {2, 5, 4}, 0.905148f},
    {"LSTMCell", {"LSTMCell", "", {{"hidden_size", "4"}, {"length", "5"}, {"layout", "TNC"}}}, {5, 2, 3}, {5, 2, 4}, 0.514386f},
    {"GRUCell", {"GRUCell", "", {{"hidden_size", "4"}, {"length", "5"}}}, {2, 5, 3}, {2, 5, 4}, 0.165122f},
    {"LSTMPCell",
     {"LSTMPCell", "", {{"hidden_size", "4"}, {"projection_size", "2"}, {"length", "5"}}},
     {2, 5, 3},
     {2, 5, 2},
     1.028772f},
    {"SequentialRNNCell",
     {"SequentialRNNCell",
      "",
      {{"length", "5"}},
      {{"GRUCell", "", {{"hidden_size", "4"}}}, {"DropoutCell", "", {{"rate", "0.5"}}}}},
     {2, 5, 3},
     {2, 5, 4},
     0.165122f},
    {"HybridSequentialRNNCell",
     {"HybridSequentialRNNCell", "", {{"length", "5"}}, {{"GRUCell", "", {{"hidden_size", "4"}}}}},
     {2, 5, 3},
     {2, 5, 4},
     0.165122f},
    {"BidirectionalCell",
     {"BidirectionalCell",
      "",
      {{"length", "5"}},
      {{"GRUCell", "", {{"hidden_size", "4"}}}, {"RNNCell", "", {{"hidden_size", "2"}}}}},
     {2, 5, 3},
     {2, 5, 6},
     0.165122f},
    {"DropoutCell", {"DropoutCell", "", {{"rate", "0.5"}, {"length", "5"}}}, {2, 5, 3}, {2, 5, 3}, 1},
    {"ZoneoutCell",
     {"ZoneoutCell",
      "",
      {{"zoneout_outputs", "0.5"}, {"zoneout_states", "0.5"}, {"length", "5"}},
      {{"GRUCell", "", {{"hidden_size", "4"}}}}},
     {2, 5, 3},
     {2, 5, 4},
     0.165122f},
    {"ResidualCell",
     {"ResidualCell", "", {{"length", "5"}}, {{"GRUCell", "", {{"hidden_size", "3"}}}}},
     {2, 5, 3},
     {2, 5, 3},
     1.165122f},
    {"VariationalDropoutCell",
     {"VariationalDropoutCell", "", {{"drop_inputs", "0.5"}, {"length", "5"}}, {{"GRUCell", "", {{"hidden_size", "4"}}}}},
     {2, 5, 3},
     {2, 5, 4},
     0.165122f},
};
INSTANTIATE_TEST_SUITE_P(Blocks, BlockOutputTest, testing::ValuesIn(kOutputCases),
                         [](const auto& info) { return info.param.name; });

TEST_F(BlockTest, EveryBlockIsTested) {
  std::set<std::string> tested;
  for (const OutputCase& c : kOutputCases) tested.insert(c.block.type);
  for (const auto& entry : Blocks().entries()) {
    EXPECT_TRUE(tested.contains(entry.name)) << entry.name;
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

INSTANTIATE_TEST_SUITE_P(
    Blocks, BadBlockTest,
    testing::ValuesIn<BadCase>({
        {"UnknownType",
         {"Sequential", "", {}, {{"Dence"}}},
         absl::StatusCode::kNotFound,
         "block '0' (Dence): there is no block 'Dence'; did you mean 'Dense'?"},
        {"UnknownAttribute", {"Dense", "", {{"unit", "3"}}}, absl::StatusCode::kInvalidArgument, "'units'"},
        {"MissingAttribute",
         {"Sequential", "", {}, {{"Sequential", "body", {}, {{"Dense"}}}}},
         absl::StatusCode::kInvalidArgument,
         "block 'body.0' (Dense): required attribute 'units'"},
        {"OutOfRange", {"Dense", "", {{"units", "0"}}}, absl::StatusCode::kInvalidArgument, "1 or more"},
        {"UnknownActivation", {"Dense", "", {{"units", "1"}, {"activation", "relo"}}}, absl::StatusCode::kInvalidArgument, "relo"},
        {"UnknownInitializer",
         {"Dense", "", {{"units", "1"}, {"weight_initializer", "Xavior"}}},
         absl::StatusCode::kNotFound,
         "'Xavier'"},
        {"UnknownOperator", {"Lambda", "", {{"function", "sofmax"}}}, absl::StatusCode::kNotFound, "'softmax'"},
        {"TwinNames",
         {"Sequential", "", {}, {{"Flatten", "a"}, {"Flatten", "a"}}},
         absl::StatusCode::kInvalidArgument,
         "two children are named 'a'"},
        {"NamesWithDots", {"Sequential", "", {}, {{"Flatten", "a.b"}}}, absl::StatusCode::kInvalidArgument, "'a.b'"},
        {"AnotherLayout",
         {"Conv1D", "", {{"channels", "1"}, {"kernel_size", "1"}, {"layout", "NWC"}}},
         absl::StatusCode::kInvalidArgument,
         "want NCW"},
        {"TooManySizes",
         {"MaxPool1D", "", {{"pool_size", "(2, 2)"}}},
         absl::StatusCode::kInvalidArgument,
         "attribute 'pool_size' is (2, 2); want one number of 1 or more"},
        {"TooFewSizes",
         {"Conv3D", "", {{"channels", "1"}, {"kernel_size", "(2, 2)"}}},
         absl::StatusCode::kInvalidArgument,
         "want one or three numbers of 1 or more"},
        {"TwoPaddings",
         {"ReflectionPad2D", "", {{"padding", "(1, 1)"}}},
         absl::StatusCode::kInvalidArgument,
         "one number or eight"},
        {"StatisticsOfManyDevices",
         {"SyncBatchNorm", "", {{"num_devices", "2"}}},
         absl::StatusCode::kInvalidArgument,
         "num_devices"},
        {"ProjectedLayer",
         {"LSTM", "", {{"hidden_size", "4"}, {"projection_size", "2"}}},
         absl::StatusCode::kInvalidArgument,
         "LSTMPCell"},
        {"CellWithoutLength", {"LSTMCell", "", {{"hidden_size", "4"}}}, absl::StatusCode::kInvalidArgument, "'length'"},
        {"CellInACellWithLength",
         {"SequentialRNNCell", "", {{"length", "3"}}, {{"GRUCell", "", {{"hidden_size", "4"}, {"length", "3"}}}}},
         absl::StatusCode::kInvalidArgument,
         "block '0' (GRUCell): unknown attribute 'length'"},
        {"LayerInACell",
         {"SequentialRNNCell", "", {{"length", "3"}}, {{"Dense", "", {{"units", "4"}}}}},
         absl::StatusCode::kInvalidArgument,
         "block '0' (Dense): a child of a cell is a cell"},
        {"UnknownCell", {"ResidualCell", "", {{"length", "3"}}, {{"GRUCel"}}}, absl::StatusCode::kNotFound, "'GRUCell'"},
        {"RowWithoutCells",
         {"SequentialRNNCell", "", {{"length", "3"}}},
         absl::StatusCode::kInvalidArgument,
         "wants one or more cells as children, got 0"},
        {"OneDirection",
         {"BidirectionalCell", "", {{"length", "3"}}, {{"DropoutCell", "", {{"rate", "0"}}}}},
         absl::StatusCode::kInvalidArgument,
         "wants 2 cells as children, got 1"},
        {"ZoneoutOfARow",
         {"ZoneoutCell", "", {{"length", "3"}}, {{"SequentialRNNCell", "", {}, {{"GRUCell", "", {{"hidden_size", "4"}}}}}}},
         absl::StatusCode::kInvalidArgument,
         "block '' (ZoneoutCell): is not offered around a row of cells"},
        {"StepOfBothDirections",
         {"VariationalDropoutCell",
          "",
          {{"length", "3"}},
          {{"BidirectionalCell", "", {}, {{"GRUCell", "", {{"hidden_size", "4"}}}, {"GRUCell", "", {{"hidden_size", "4"}}}}}}},
         absl::StatusCode::kInvalidArgument,
         "cannot be stepped"},
        {"WrongInitializerOfACell",
         {"ResidualCell", "", {{"length", "3"}}, {{"GRUCell", "", {{"hidden_size", "4"}, {"h2h_bias_initializer", "Xavior"}}}}},
         absl::StatusCode::kNotFound,
         "block 'base_cell' (GRUCell): there is no initializer 'Xavior'"},
        {"ChildrenOfALayer", {"Flatten", "", {}, {{"Flatten"}}}, absl::StatusCode::kInvalidArgument, "no children"},
        {"NoBody", {"Residual"}, absl::StatusCode::kInvalidArgument, "got 0 children"},
        {"TooDeep", Nested(64), absl::StatusCode::kResourceExhausted, "64 deep"},
    }),
    [](const auto& info) { return info.param.name; });

TEST_F(BlockTest, HasNoMoreOperatorsThanItsLimit) {
  const BlockSpec dropout = {"DropoutCell", "", {{"rate", "0"}}};
  for (const BlockSpec& cell :
       {BlockSpec{"GRUCell", "", {{"hidden_size", "4"}}}, dropout, BlockSpec{"VariationalDropoutCell", "", {}, {dropout}}}) {
    const BlockSpec net = {"SequentialRNNCell", "", {{"length", "60000"}}, {cell}};
    const absl::Status status = ExpandBlock(net, {{"data", {-1, -1, 3}}}, {.max_nodes = 1000}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << cell.type;
    EXPECT_NE(status.message().find("1000 operators of --max_graph_nodes"), absl::string_view::npos) << status;
    EXPECT_EQ(InfoOf(status).value_or(ErrorInfo()).reason, reason::kLimit);
  }
}

}  // namespace
}  // namespace gluond
