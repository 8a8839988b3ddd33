// The names of a store, and their files.

#include "engine/store/stored_name.h"

#include <string>

#include "tests/engine/store/store_fixture.h"

namespace gluond {
namespace {

TEST(StoredNameTest, ATenantStandsBeforeAName) {
  EXPECT_OK(CheckStoredName("model", "digits"));
  EXPECT_OK(CheckStoredName("model", "acme/digits.v2-best_"));
  EXPECT_OK(CheckStoredName("model", std::string(32, 'a') + "/" + std::string(128, 'b')));
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("/digits"), std::string("acme/"), std::string("acme/a/b"),
        std::string("../digits"), std::string("acme/.."), std::string("acme/.a"), std::string(".acme/a"),
        std::string("acme+digits"), std::string("a b/c"), std::string(33, 'a') + "/b", "a/" + std::string(129, 'b')}) {
    EXPECT_FALSE(CheckStoredName("model", name).ok()) << name;
  }
  EXPECT_FALSE(CheckName("model", "acme/digits").ok()) << "a plain name has no tenant";
}

TEST(StoredNameTest, AFileHasOneName) {
  for (const std::string name : {"digits", "acme/digits", "acme/a.1.index"}) EXPECT_EQ(NameOfFile(FileOf(name)), name);
  EXPECT_EQ(FileOf("acme/digits"), "acme+digits");
  for (const std::string file : {"acme/digits", "a+b+c", "+a", "a+", ".lock-a", "..", ".live", "a+../b"}) {
    EXPECT_EQ(NameOfFile(file), std::nullopt) << file;
  }
}

using StoreOfTenantsTest = StoreTest;

TEST_F(StoreOfTenantsTest, SameNamesOfTenantsAreApart) {
  const auto store = OpenStore();
  ASSERT_OK(store->Save("best", MakeCheckpoint(1)));
  ASSERT_OK(store->Save("acme/best", MakeCheckpoint(2)));
  ASSERT_OK(store->Save("globex/best", MakeCheckpoint(3)));
  EXPECT_EQ(*store->Names(), (std::vector<std::string>{"acme/best", "best", "globex/best"}));
  EXPECT_EQ(Describe(*store->Load("acme/best", *memory_)), Describe(MakeCheckpoint(2)));
  EXPECT_TRUE(std::filesystem::is_directory(Path("acme+best")));
  ASSERT_OK(store->Delete("acme/best"));
  EXPECT_EQ(*store->Names(), (std::vector<std::string>{"best", "globex/best"}));
  EXPECT_FALSE(std::filesystem::exists(Path("acme+best")));
  EXPECT_OK(OpenStore()->Load("globex/best", *memory_));
}

TEST_F(StoreOfTenantsTest, NobodyHearsOfAnothersNames) {
  const auto store = OpenStore();
  ASSERT_OK(store->Save("acme/secret-1", MakeCheckpoint(1)));
  ASSERT_OK(store->Save("secret-2", MakeCheckpoint(1)));
  const absl::Status acme = store->Load("acme/secret-3", *memory_).status(),
                     other = store->Load("globex/secret-3", *memory_).status();
  EXPECT_NE(acme.message().find("secret-1"), std::string::npos) << acme;
  EXPECT_EQ(acme.message().find("secret-2"), std::string::npos) << acme;
  EXPECT_EQ(other.message().find("secret-1"), std::string::npos) << other;
}

TEST_F(StoreOfTenantsTest, ATenantsBytesHaveALimit) {
  const StoreLimits limits = {.tenant_bytes = [](absl::string_view tenant) { return tenant == "acme" ? 11'000 : 0; }};
  const auto store = *CheckpointStore::Open(LocalFileSystem(), directory_.path(), CheckpointStore::kDefaultMaxBytes, limits);
  const auto apart = store->OpenApart(".live");
  ASSERT_OK(apart->Save("acme/a", MakeCheckpoint(1)));
  const absl::Status refused = store->Save("acme/b", MakeCheckpoint(1)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_NE(refused.message().find("store_bytes=11000"), std::string::npos) << refused;
  EXPECT_OK(store->Save("globex/b", MakeCheckpoint(1)));
  EXPECT_OK(store->Save("b", MakeCheckpoint(1)));
  EXPECT_OK(apart->Save("acme/a", MakeCheckpoint(2))) << "it takes the place of the first";
  ASSERT_OK(apart->Delete("acme/a"));
  EXPECT_OK(store->Save("acme/b", MakeCheckpoint(1)));
}

}  // namespace
}  // namespace gluond
