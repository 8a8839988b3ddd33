// Definitions as large as clients may send: each takes time in proportion to its bytes, or is refused.

#include "server/codec/definition_codec.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/codec/attrs_codec.h"

namespace gluond::server {
namespace {

constexpr int64_t kMaxNodes = 200'000;

// Sums of 1,000 variables each.
v1::DefineModelRequest Sums(int variables) {
  v1::DefineModelRequest request;
  v1::Node* node = nullptr;
  for (int i = 0; i < variables; ++i) {
    if (i % 1000 == 0) {
      node = request.mutable_graph()->add_nodes();
      node->set_op("add_n");
    }
    node->add_inputs(absl::StrCat("x", i));
  }
  return request;
}

void Declare(const std::string& name, v1::DefineModelRequest* request) {
  v1::Variable* variable = request->add_variables();
  variable->set_name(name);
  variable->add_shape(2);
}

TEST(DefinitionCodecTest, ManyDeclarationsAreFoundByName) {
  v1::DefineModelRequest request = Sums(kMaxNodes);
  for (int i = kMaxNodes; i-- > 0;) Declare(absl::StrCat("x", i), &request);  // Name by name that would be 4e10 steps.
  const absl::StatusOr<ModelDefinition> definition = DefinitionFromProto(request, kMaxNodes);
  ASSERT_TRUE(definition.ok()) << definition.status();
  ASSERT_EQ(definition->inputs.size(), kMaxNodes);
  EXPECT_EQ(definition->inputs.back().shape, Shape({2}));
}

TEST(DefinitionCodecTest, SoAreThoseOfParametersAndTheOneThatNothingReads) {
  v1::DefineModelRequest request = Sums(kMaxNodes - 1);
  for (int i = kMaxNodes; i-- > 0;) {
    Declare(absl::StrCat("x", i), &request);
    request.mutable_variables()->rbegin()->set_kind(v1::Variable::PARAMETER);
  }
  const absl::Status status = DefinitionFromProto(request, kMaxNodes).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "variable 'x199999' is declared, but nothing reads it")) << status;
}

TEST(DefinitionCodecTest, TheInputsOfATreeAreFoundByName) {
  v1::DefineModelRequest request;
  request.mutable_block()->set_block("Flatten");
  for (int i = 0; i < kMaxNodes; ++i) {
    Declare(absl::StrCat("x", i), &request);
    request.mutable_variables()->rbegin()->set_kind(v1::Variable::INPUT);
  }
  const absl::Status status = DefinitionFromProto(request, kMaxNodes).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "one input, got 200000")) << status;
}

TEST(DefinitionCodecTest, AVariableIsDeclaredOnce) {
  v1::DefineModelRequest request = Sums(1);
  for (int i = 0; i < 2; ++i) Declare("x0", &request);
  const absl::Status status = DefinitionFromProto(request, kMaxNodes).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "'x0' is declared twice")) << status;
}

// A checkpoint of a model that had it could not be loaded.
TEST(DefinitionCodecTest, EveryVariableHasAName) {
  v1::DefineModelRequest request;
  request.mutable_block()->set_block("Flatten");
  request.add_variables()->set_name("data");
  request.mutable_variables(0)->set_kind(v1::Variable::INPUT);
  EXPECT_TRUE(DefinitionFromProto(request, kMaxNodes).ok());
  request.add_variables()->set_kind(v1::Variable::INPUT);
  const absl::Status status = DefinitionFromProto(request, kMaxNodes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "variables[1] has no name");
}

// GetModel's answer defines the model again, also with the variables of inputs that were left out.
TEST(DefinitionCodecTest, TheVariableOfAMissingInputHasANodesName) {
  v1::DefineModelRequest request;
  v1::Node* const node = request.mutable_graph()->add_nodes();
  node->set_op("FullyConnected");
  node->add_inputs("x");
  (*node->mutable_attributes())["num_hidden"].set_number_value(2);
  node->set_name(std::string(121, 'n'));
  EXPECT_TRUE(DefinitionFromProto(request, kMaxNodes).ok());
  node->set_name(std::string(122, 'n'));
  const absl::Status status = DefinitionFromProto(request, kMaxNodes).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "input 1 is missing, and its variable: 'nnn")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "want 1 to 128 printable characters")) << status;
}

// It leaves what the name says, as without it; a checkpoint of the model keeps no difference.
TEST(DefinitionCodecTest, AnEmptyInitializerSaysNothing) {
  v1::DefineModelRequest request;
  v1::Node* const node = request.mutable_graph()->add_nodes();
  node->set_op("BatchNorm");
  node->set_name("bn");
  node->add_inputs("x");
  Declare("x", &request);
  request.add_variables()->set_name("bn_moving_mean");
  request.mutable_variables(1)->mutable_initializer();
  request.add_variables()->set_name("bn_gamma");
  request.mutable_variables(2)->mutable_initializer()->set_name("Zero");
  const absl::StatusOr<ModelDefinition> definition = DefinitionFromProto(request, kMaxNodes);
  ASSERT_TRUE(definition.ok()) << definition.status();
  for (const Parameter& parameter : definition->parameters) {
    const bool is_var = parameter.name == "bn_moving_var";
    EXPECT_EQ(parameter.initializer.type, is_var ? "One" : "Zero") << parameter.name;
  }
  EXPECT_EQ(definition->parameters.size(), 4u);
}

// A model whose nodes nobody wants is told as a graph without nodes.
TEST(DefinitionCodecTest, AGraphMayHaveOutputsAndNoNodes) {
  v1::DefineModelRequest request;
  request.mutable_graph()->add_outputs("data");
  const absl::Status undeclared = DefinitionFromProto(request, kMaxNodes).status();
  EXPECT_EQ(undeclared.code(), absl::StatusCode::kInvalidArgument) << undeclared;
  Declare("data", &request);
  const absl::StatusOr<ModelDefinition> definition = DefinitionFromProto(request, kMaxNodes);
  ASSERT_TRUE(definition.ok()) << definition.status();
  ASSERT_EQ(definition->outputs.size(), 1u);
  EXPECT_EQ(definition->outputs[0].node->name(), "data");
  ASSERT_EQ(definition->inputs.size(), 1u);
  EXPECT_EQ(definition->inputs[0].shape, Shape({2}));
}

TEST(DefinitionCodecTest, DeclarationsAreCounted) {
  v1::DefineModelRequest request = Sums(1);
  for (int i = 0; i < 11; ++i) Declare(absl::StrCat("x", i), &request);
  const absl::Status status = DefinitionFromProto(request, 10).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "--max_graph_nodes")) << status;
}

TEST(DefinitionCodecTest, ShortNodesWithManyOutputsAreCounted) {
  v1::DefineModelRequest request;
  for (int i = 0; i < 1000; ++i) {  // 65,536 outputs each.
    v1::Node* node = request.mutable_graph()->add_nodes();
    node->set_op("SliceChannel");
    node->add_inputs("x");
    (*node->mutable_attributes())["num_outputs"].set_number_value(1 << 16);
  }
  const absl::Status status = DefinitionFromProto(request, 10'000).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "inputs and outputs")) << status;
}

TEST(DefinitionCodecTest, SoAreTheOutputsOfBlocks) {
  v1::DefineModelRequest request;
  request.mutable_block()->set_block("HybridSequential");
  for (int i = 0; i < 1000; ++i) {
    v1::Block* block = request.mutable_block()->add_children();
    block->set_block("Lambda");
    (*block->mutable_attributes())["function"].set_string_value("SliceChannel");
    (*block->mutable_attributes())["num_outputs"].set_number_value(1 << 16);
  }
  const absl::Status status = DefinitionFromProto(request, 10'000).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "--max_graph_nodes")) << status;
}

ArgumentDoc Doc(const char* name, const char* type) { return {name, type, true, "", ""}; }

// Values come back as their parameters' types say.
TEST(AttrsCodecTest, LosesNothing) {
  const std::vector<ArgumentDoc> declared = {Doc("i", "long"),    Doc("j", "long or None"), Doc("f", "float"),
                                             Doc("b", "boolean"), Doc("s", "string"),       Doc("t", "tuple of int")};
  const AttrDict attrs = {{"i", "9223372036854775807"},
                          {"j", "None"},
                          {"f", "0.10000000000000001"},
                          {"b", "True"},
                          {"s", "007"},
                          {"t", "(5, 5)"},
                          {"own", "1"}};
  ProtoAttributes proto;
  AttrsToProto(attrs, declared, &proto);
  EXPECT_EQ(proto["i"].string_value(), "9223372036854775807");
  EXPECT_EQ(proto["j"].string_value(), "None");
  EXPECT_EQ(proto["f"].number_value(), 0.1);
  EXPECT_TRUE(proto["b"].bool_value());
  EXPECT_EQ(proto["s"].string_value(), "007");
  EXPECT_EQ(proto["own"].string_value(), "1");
  proto["__scope__"].set_string_value("a secret of an older client");
  AttrDict again = *AttrsFromProto(proto);
  EXPECT_EQ(again["f"], "0.1");
  again["f"] = attrs.at("f");
  EXPECT_EQ(again, attrs);
}

TEST(CustomCodecTest, AnOperatorComesBackAsItWas) {
  v1::Node node, again;
  node.mutable_custom()->set_op_type("loss");
  for (const char* name : {"data", "label"}) node.mutable_custom()->add_arguments(name);
  node.mutable_custom()->add_outputs("y");
  node.mutable_custom()->mutable_dependencies()->add_arguments(1);
  node.mutable_custom()->mutable_dependencies()->add_outputs(0);
  node.mutable_custom()->set_same_dtype(true);
  node.mutable_custom()->set_version(3);
  AttrDict attrs = *CallAttrsFromProto(node);
  CustomToProto(&attrs, &again);
  EXPECT_TRUE(attrs.empty());
  EXPECT_EQ(again.ShortDebugString(), node.ShortDebugString());
  node.mutable_custom()->mutable_dependencies()->add_outputs(1);
  EXPECT_TRUE(absl::IsInvalidArgument(CallAttrsFromProto(node).status()));
}

}  // namespace
}  // namespace gluond::server
