// Scopes: a client's own operators are computed by that client and by none that has only seen their graph, and no graph
// that leaves the server, to a client or to the disk, names the operators' client.

#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/custom/scope.h"
#include "tests/server/custom_host_fixture.h"

namespace gluond::server {
namespace {

using grpc::StatusCode;

class CustomScopeTest : public CustomTest {
 protected:
  CustomScopeTest() : scope_(ScopeOf(kKey)) {}

  std::unique_ptr<Provider> Own(Provider::Answerer answerer = &RightAnswer) {
    return std::make_unique<Provider>(address(), std::vector<std::string>{"square"}, std::move(answerer), scope_,
                                      /*shared=*/false, kKey);
  }
  std::string OwnNetwork(const std::string& name) const {
    return Network(name, R"("op": "Custom", "custom": {"op_type": "square", "arguments": ["data"]})")
        .insert(1, "\"host\": \"" + scope_ + "\", ");
  }
  void DefineOwn(const std::string& name) {
    Define(OwnNetwork(name));
    Initialize(name);
    CreateTrainer(name);
  }
  // Whether some file of the checkpoint store has it.
  bool IsOnTheDisk(const std::string& text) const {
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store_)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      files += !bytes.empty();
      if (bytes.find(text) != std::string::npos) return true;
    }
    EXPECT_GE(files, 4);
    return false;
  }
  v1::GetModelResponse GraphOf(const std::string& name) {
    return Call(models_, &v1::ModelService::Stub::GetModel, R"({"model": ")" + name + R"(", "graph": true})");
  }

  static constexpr char kKey[] = "only the provider knows this";
  const std::string scope_;
};

TEST_F(CustomScopeTest, IsMadeOfAKeyAsTheWireSays) {
  EXPECT_EQ(ScopeOf("abc"), "key:ba7816bf8f01cfea414140de5dae2223");  // FIPS 180-4's example.
}

TEST_F(CustomScopeTest, NoGraphLeavesTheServerWithIt) {
  const auto own = Own();
  DefineOwn("m");
  Step("m", 0);
  EXPECT_EQ(own->Count(&v1::Callback::has_backward), 1u);
  const auto described = GraphOf("m");
  EXPECT_EQ(described.SerializeAsString().find(scope_), std::string::npos) << described.ShortDebugString();
  EXPECT_NE(described.SerializeAsString().find("square"), std::string::npos);
  Call(models_, &v1::ModelService::Stub::SaveCheckpoint, R"({"model": "m", "checkpoint": "c"})");
  EXPECT_FALSE(IsOnTheDisk(scope_));
  EXPECT_TRUE(IsOnTheDisk("square"));
}

TEST_F(CustomScopeTest, AGraphFromOutsideIsNotComputedBySomebodyElse) {
  const auto own = Own();
  DefineOwn("m");
  Call(models_, &v1::ModelService::Stub::SaveCheckpoint, R"({"model": "m", "checkpoint": "c"})");
  Provider eve(address(), {"square"});
  Call(models_, &v1::ModelService::Stub::LoadCheckpoint, R"({"checkpoint": "c", "model": "copy"})",
       StatusCode::FAILED_PRECONDITION);
  ExpectMessage("custom operator 'square' is one client's own, and no credential says whose");
  v1::DefineModelRequest again;
  again.set_model("again");
  *again.mutable_graph() = GraphOf("m").model().graph();
  *again.add_variables() = Json<v1::Variable>(R"({"name": "data", "kind": "INPUT", "shape": [-1, 4]})");
  Call(models_, &v1::ModelService::Stub::DefineModel, again, StatusCode::FAILED_PRECONDITION);
  ExpectMessage("custom operator 'square' is one client's own");
  EXPECT_TRUE(eve.Seen().empty());
}

TEST_F(CustomScopeTest, ACheckpointLoadsIntoAModelThatSaysWhose) {
  const auto own = Own();
  DefineOwn("m");
  for (int i = 0; i < 3; ++i) Step("m", i);
  Call(models_, &v1::ModelService::Stub::SaveCheckpoint, R"({"model": "m", "checkpoint": "c"})");
  const auto saved = Parameters("m");
  Call(models_, &v1::ModelService::Stub::DeleteModel, R"({"model": "m"})");
  DefineOwn("m");
  Call(models_, &v1::ModelService::Stub::LoadCheckpoint, R"({"checkpoint": "c", "model": "m"})");
  EXPECT_EQ(Parameters("m"), saved);
  Step("m", 3);
  EXPECT_EQ(own->Count(&v1::Callback::has_forward), 4u);
}

TEST_F(CustomScopeTest, WhoHasSeenTheScopeCannotOpenIt) {
  const auto own = Own();
  DefineOwn("m");
  for (const char* key : {"", "eve's own key, which is long"}) {
    HostStreamClient eve(address());
    EXPECT_TRUE(eve.Open(scope_, "eve", key));
    EXPECT_EQ(eve.Finish().error_code(), *key == 0 ? StatusCode::INVALID_ARGUMENT : StatusCode::PERMISSION_DENIED) << key;
  }
  EXPECT_FALSE(own->ended());
  Step("m", 0);
  EXPECT_EQ(own->Count(&v1::Callback::has_forward), 1u);
  const auto resumed = Own();  // Another stream of the same client's.
  Step("m", 1);
  EXPECT_EQ(resumed->Count(&v1::Callback::has_forward), 1u);
}

}  // namespace
}  // namespace gluond::server
