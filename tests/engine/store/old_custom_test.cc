// Custom operators in checkpoints of earlier servers: an attribute for each fact, the client's secret among them.

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "engine/core/custom_host.h"
#include "engine/core/custom_spec.h"
#include "engine/nn/node_spec.h"
#include "engine/store/state_json.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

// The definition of a model that is one custom operator, with these attributes beside `op_type`.
absl::StatusOr<ModelDefinition> Read(absl::string_view attrs) {
  const CustomHostPtr nobodys;
  const ScopedCustomHost host(nobodys);
  return DefinitionFromJson(*Json::Parse(absl::Substitute(
      R"({"inputs": [{"name": "data", "shape": [2, 4], "dtype": "float32"}], "outputs": [["mine", 0, "mine"]],
          "parameters": [], "nodes": [{"op": "", "name": "data", "inputs": [], "attrs": {}},
          {"op": "Custom", "name": "mine", "inputs": [["data", 0]], "attrs": {"op_type": "square", $0}}]})",
      attrs)));
}

TEST(OldCustomTest, FactsAreReadAndTheSecretIsDropped) {
  const auto definition = Read(R"("power": "2", "__arguments__": "data", "__outputs__": "y", "__dependencies__": "0,1",
                                  "__rules__": "shape,type", "__scope__": "a secret of the client's")");
  ASSERT_OK(definition.status());
  const AttrDict attrs = ListNodes(definition->outputs).back().attrs;
  EXPECT_EQ(attrs.size(), 3u) << "an attribute of the old form is left";
  EXPECT_EQ(attrs.at("power"), "2");
  const absl::StatusOr<CustomSpec> spec = CustomSpec::Of(attrs);
  ASSERT_OK(spec.status());
  EXPECT_EQ(spec->arguments, std::vector<std::string>{"data"});
  EXPECT_EQ(spec->outputs, std::vector<std::string>{"y"});
  EXPECT_EQ(spec->dependencies, (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(spec->same_shape && spec->same_dtype);
  EXPECT_FALSE(spec->shared) << "it was one client's own";
  EXPECT_EQ(DefinitionToJson(*definition).Dump().find("secret"), std::string::npos);
}

TEST(OldCustomTest, WithoutAScopeItIsShared) {
  const auto definition = Read(R"("__arguments__": "data", "__outputs__": "y")");
  ASSERT_OK(definition.status());
  EXPECT_TRUE(CustomSpec::Of(ListNodes(definition->outputs).back().attrs)->shared);
}

TEST(OldCustomTest, BrokenFactsAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Read(R"("__arguments__": "data", "__dependencies__": "0,x")").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Read(R"("__arguments__": "data", "__dependencies__": "9")").status()));
}

}  // namespace
}  // namespace gluond
