#include "engine/nn/node_spec.h"
#include "engine/core/custom_host.h"
#include "engine/core/custom_spec.h"

#include "engine/passes/infer.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

using NodeSpecTest = ModelTest;

TEST_F(NodeSpecTest, MakesTheVariablesThatAreLeftOut) {
  // In any order; as MXNet's symbols do, "fc1" gets "fc1_weight" and "fc1_bias".
  const std::vector<NodeSpec> nodes = {{"softmax", "prob", {{"fc1"}}},
                                       {"FullyConnected", "fc1", {{"data"}}, {{"num_hidden", "3"}}}};
  const auto definition = ExpandNodes(nodes, {{"data", {-1, 4}}}, {});
  ASSERT_OK(definition.status());
  ASSERT_EQ(definition->parameters.size(), 2u);
  EXPECT_EQ(definition->parameters[0].name, "fc1_weight");
  EXPECT_EQ(definition->parameters[1].name, "fc1_bias");
  EXPECT_EQ(definition->parameters[1].initializer.type, "Zero");
  EXPECT_EQ(definition->output_names, std::vector<std::string>{"prob"});
  auto model = Model::Create(*definition, Options());
  ASSERT_OK(model.status());
  EXPECT_EQ((*model)->parameters().Get("fc1_weight")->shape, Shape({3, 4}));
  EXPECT_EQ((*model)->outputs()[0].signature.shape, Shape({-1, 3}));
}

TEST_F(NodeSpecTest, VariablesSayWhatTheyAre) {
  const std::vector<NodeSpec> nodes = {
      {"null", "w", {}, {{"__shape__", "(3, 0)"}, {"__lr_mult__", "0.1"}, {"__init__", R"(["one", {}])"}}},
      {"FullyConnected", "fc", {{"data"}, {"w"}}, {{"num_hidden", "3"}, {"no_bias", "True"}}}};
  const auto definition = ExpandNodes(nodes, {{"data", {-1, 4}}}, {{"fc"}});
  ASSERT_OK(definition.status());
  EXPECT_EQ(definition->parameters[0].shape, Shape({3, -1}));
  EXPECT_EQ(definition->parameters[0].lr_mult, 0.1);
  EXPECT_EQ(definition->parameters[0].initializer.type, "One");
}

TEST_F(NodeSpecTest, ListsWhatItExpanded) {
  const std::vector<NodeSpec> nodes = {{"FullyConnected", "fc1", {{"data"}}, {{"num_hidden", "3"}}},
                                       {"BatchNorm", "bn", {{"fc1"}}}};
  const auto definition = *ExpandNodes(nodes, {{"data", {-1, 4}}}, {});
  const auto again = ExpandNodes(ListNodes(definition.outputs), definition.inputs, {{"bn"}}, definition.parameters);
  ASSERT_OK(again.status());
  ASSERT_EQ(again->parameters.size(), definition.parameters.size());
  for (size_t i = 0; i < again->parameters.size(); ++i) {
    EXPECT_EQ(again->parameters[i].name, definition.parameters[i].name);
    EXPECT_EQ(again->parameters[i].auxiliary, definition.parameters[i].auxiliary);
  }
}

// Neither to clients nor to checkpoints; and what comes back from there is nobody else's operator.
TEST_F(NodeSpecTest, DoesNotTellWhichClientComputesAnOperator) {
  const std::vector<NodeSpec> nodes = {
      {"Custom", "mine", {{"data"}}, {{"op_type", "square"}, {kCustomAttribute, CustomSpec{.arguments = {"data"}}.ToText()}}}};
  const CustomHostPtr nobodys;
  const ScopedCustomHost host(nobodys, "a secret of the client's");
  const auto definition = *ExpandNodes(nodes, {{"data", {2, 4}}}, {});
  const std::vector<NodeSpec> listed = ListNodes(definition.outputs);
  EXPECT_EQ(listed.back().attrs.at("op_type"), "square");
  for (const auto& [name, text] : listed.back().attrs) EXPECT_EQ(text.find("secret"), std::string::npos) << name;
  const ScopedCustomHost nobody(nobodys);
  const auto again = ExpandNodes(listed, definition.inputs, {});
  ASSERT_OK(again.status());
  const auto inferred = InferShapeType(IndexedGraph(Graph{again->outputs}), {{"data", {{2, 4}, DType::kFloat32}}});
  EXPECT_TRUE(absl::IsFailedPrecondition(inferred.status())) << inferred.status();
  EXPECT_NE(inferred.status().message().find("'square' is one client's own"), std::string::npos) << inferred.status();
}

TEST_F(NodeSpecTest, TakesALongChain) {
  std::vector<NodeSpec> nodes;
  for (int i = 0; i < 20000; ++i) {
    const std::string from = i == 0 ? "data" : absl::StrCat("n", i - 1);
    nodes.push_back({"_plus_scalar", absl::StrCat("n", i), {{from}}, {{"scalar", "1"}}});
  }
  std::reverse(nodes.begin(), nodes.end());
  EXPECT_OK(ExpandNodes(nodes, {{"data", {-1}}}, {}).status());
  EXPECT_EQ(ExpandNodes(nodes, {{"data", {-1}}}, {}, {}, 100).status().code(), absl::StatusCode::kResourceExhausted);
}

struct BadNodesCase {
  const char* name;
  std::vector<NodeSpec> nodes;
  std::vector<EntrySpec> outputs;
  absl::StatusCode code;
  const char* message;
};
class BadNodesTest : public testing::TestWithParam<BadNodesCase> {};

TEST_P(BadNodesTest, AreRefused) {
  const absl::Status status = ExpandNodes(GetParam().nodes, {{"data", {-1, 4}}}, GetParam().outputs).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_NE(status.message().find(GetParam().message), absl::string_view::npos) << status;
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

INSTANTIATE_TEST_SUITE_P(
    Nodes, BadNodesTest,
    testing::ValuesIn<BadNodesCase>({
        {"Cycle", {{"relu", "a", {{"b"}}}, {"relu", "b", {{"a"}}}}, {}, kInvalid, "cycle"},
        {"SelfLoop", {{"relu", "a", {{"a"}}}}, {}, kInvalid, "cycle"},
        {"TwinNames", {{"relu", "a", {{"data"}}}, {"relu", "a", {{"data"}}}}, {}, kInvalid, "two nodes are named 'a'"},
        {"NamedLikeTheInput", {{"relu", "data", {{"data"}}}}, {}, kInvalid, "'data'"},
        {"UnknownInput", {{"relu", "a", {{"dat"}}}}, {}, kInvalid, "did you mean 'data'"},
        {"UnknownOperator", {{"rellu", "a", {{"data"}}}}, {}, absl::StatusCode::kNotFound, "node 'a'"},
        {"UnknownAttribute", {{"relu", "a", {{"data"}}, {{"slope", "1"}}}}, {}, kInvalid, "'slope'"},
        {"PartOfAGradient", {{"_backward_relu", "a", {{"data"}, {"data"}}}}, {}, kInvalid, "a part of gradients"},
        {"TooManyInputs", {{"relu", "a", {{"data"}, {"data"}}}}, {}, kInvalid, "takes 1 inputs"},
        {"IndexOutOfRange", {{"relu", "a", {{"data"}}}, {"relu", "b", {{"a", 7}}}}, {}, kInvalid, "has 1 outputs, got index 7"},
        {"UnknownOutput", {{"relu", "a", {{"data"}}}}, {{"c"}}, kInvalid, "no node 'c'"},
        {"NoName", {{"relu", "", {{"data"}}}}, {}, kInvalid, "node 0 has no name"},
        {"NoOutputs", {}, {}, kInvalid, "no outputs"},
        {"VariableWithInputs", {{"", "v", {{"data"}}}}, {{"v"}}, kInvalid, "a variable has no inputs"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gluond
