// A store's limits: a save that would go over one writes nothing and hurts nobody.

#include "engine/store/store_quota.h"

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "tests/engine/store/store_fixture.h"

namespace gluond {
namespace {

class StoreQuotaTest : public StoreTest {
 protected:
  std::unique_ptr<CheckpointStore> OpenLimited(const StoreLimits& limits) const {
    absl::StatusOr<std::unique_ptr<CheckpointStore>> store =
        CheckpointStore::Open(LocalFileSystem(), directory_.path(), CheckpointStore::kDefaultMaxBytes, limits);
    EXPECT_OK(store.status());
    return *std::move(store);
  }
  int64_t Used() const { return *LocalFileSystem().TreeBytes(Path()); }
  static void ExpectRefused(const absl::Status& status, const std::string& says) {
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), says)) << status;
  }
};

TEST_F(StoreQuotaTest, BytesOfAllCheckpointsAreLimited) {
  ASSERT_OK(OpenStore()->Save("a", MakeCheckpoint(1)));
  const int64_t one = Used();
  const auto store = OpenLimited({.max_store_bytes = 3 * one});
  int saved = 1;
  absl::Status status;
  while (saved < 10 && (status = store->Save(absl::StrCat("b", saved), MakeCheckpoint(1)).status()).ok()) ++saved;
  ExpectRefused(status, "--max_store_bytes");
  EXPECT_GE(saved, 1);
  EXPECT_LE(saved, 3);
  EXPECT_LE(Used(), 3 * one);
  EXPECT_FALSE(std::filesystem::exists(Path(absl::StrCat("b", saved)))) << "nothing was written";
  EXPECT_EQ(store->List()->size(), static_cast<size_t>(saved));
  EXPECT_OK(store->Load("a", *memory_));
}

TEST_F(StoreQuotaTest, AnOverwrittenCheckpointsBytesAreItsSuccessors) {
  const auto store = OpenLimited({.max_store_bytes = 11'000});
  for (uint64_t seed = 1; seed < 20; ++seed) ASSERT_OK(store->Save("m", MakeCheckpoint(seed)));
  EXPECT_EQ(Describe(*store->Load("m", *memory_)), Describe(MakeCheckpoint(19)));
}

TEST_F(StoreQuotaTest, DeletingMakesRoom) {
  const auto store = OpenLimited({.max_store_bytes = 11'000});
  ASSERT_OK(store->Save("a", MakeCheckpoint(1)));
  ExpectRefused(store->Save("b", MakeCheckpoint(1)).status(), "--max_store_bytes");
  ASSERT_OK(store->Delete("a"));
  EXPECT_OK(store->Save("b", MakeCheckpoint(1)));
}

TEST_F(StoreQuotaTest, CheckpointsAreCounted) {
  const auto store = OpenLimited({.max_checkpoints = 2});
  ASSERT_OK(store->Save("a", MakeCheckpoint(1)));
  ASSERT_OK(store->Save("b", MakeCheckpoint(1)));
  ExpectRefused(store->Save("c", MakeCheckpoint(1)).status(), "--max_checkpoints");
  EXPECT_OK(store->Save("b", MakeCheckpoint(2))) << "it is one of the two";
}

TEST_F(StoreQuotaTest, AnOwnerHasHalfOfTheCheckpoints) {
  const auto store = OpenLimited({.max_checkpoints = 5, .has_tenants = true});
  for (const char* name : {"acme/a", "acme/b", "acme/c"}) ASSERT_OK(store->Save(name, MakeCheckpoint(1)));
  ExpectRefused(store->Save("acme/d", MakeCheckpoint(1)).status(), "has 3 other checkpoints, half of the 5 of --max_checkpoints");
  EXPECT_OK(store->Save("acme/c", MakeCheckpoint(2))) << "it is one of the three";
  EXPECT_OK(store->Save("globex/a", MakeCheckpoint(1)));
  EXPECT_OK(store->Save("a", MakeCheckpoint(1)));
  ExpectRefused(store->Save("b", MakeCheckpoint(1)).status(), "the limit of --max_checkpoints");
}

TEST_F(StoreQuotaTest, SavesAtTheSameTimeShareTheRoom) {
  StoreQuota quota(LocalFileSystem(), Path(), {.max_store_bytes = 100});
  absl::StatusOr<StoreQuota::Room> first = quota.Reserve("a", 60);
  ASSERT_OK(first);
  EXPECT_EQ(quota.UsedBytes(), 60);
  ExpectRefused(quota.Reserve("b", 60).status(), "--max_store_bytes");
  EXPECT_OK(quota.Reserve("a", 60)) << "one replaces the other";
  EXPECT_OK(quota.Reserve("b", 40));
  first = absl::CancelledError();
  EXPECT_OK(quota.Reserve("b", 60));
}

TEST_F(StoreQuotaTest, WhatIsNotTheStoresDoesNotCount) {
  WriteFileBytes(Path("a file"), std::string(1000, 'x'));
  ASSERT_OK(LocalFileSystem().MakeDirectory(Path(".hidden")));
  WriteFileBytes(Path(".hidden/file"), std::string(1000, 'x'));
  StoreQuota quota(LocalFileSystem(), Path(), {.max_store_bytes = 100, .max_checkpoints = 1});
  EXPECT_OK(quota.Reserve("a", 100));
}

// A disk of 100 GiB on which 2 GiB are left.
class FullDisk : public FileSystem {
 public:
  absl::StatusOr<DiskSpace> Space(const std::string&) const override { return DiskSpace{int64_t{100} << 30, int64_t{2} << 30}; }
  absl::StatusOr<std::vector<std::string>> List(const std::string&) const override { return std::vector<std::string>(); }
  bool IsDirectory(const std::string&) const override { return false; }
  absl::StatusOr<int64_t> TreeBytes(const std::string&) const override { return 0; }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string&) override { return Unused(); }
  absl::Status Rename(const std::string&, const std::string&) override { return Unused(); }
  absl::Status SyncDirectory(const std::string&) override { return Unused(); }
  absl::Status MakeDirectory(const std::string&) override { return Unused(); }
  absl::Status RemoveTree(const std::string&) override { return Unused(); }
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string&) const override { return Unused(); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string&, LockMode) const override { return Unused(); }

 private:
  static absl::Status Unused() { return absl::UnimplementedError("not used here"); }
};

TEST_F(StoreQuotaTest, AReserveOfTheDiskStaysFree) {
  const FullDisk disk;
  StoreQuota quota(disk, "/", {.keep_reserve = true});
  EXPECT_OK(quota.Reserve("a", int64_t{1} << 30));
  ExpectRefused(quota.Reserve("a", (int64_t{1} << 30) + 1).status(), "1073741824 stay free");
  const auto first = quota.Reserve("a", int64_t{1} << 29);
  ASSERT_OK(first);
  ExpectRefused(quota.Reserve("b", (int64_t{1} << 29) + 1).status(), "stay free");
  EXPECT_OK(StoreQuota(disk, "/", {}).Reserve("a", int64_t{1} << 50));
}

TEST_F(StoreQuotaTest, AFoldersBytesCountAndItsNumberDoesNot) {
  const auto store = OpenLimited({.max_store_bytes = 11'000, .max_checkpoints = 1});
  const auto live = store->OpenApart(".live");
  ASSERT_OK(live->Save("a", MakeCheckpoint(1)));
  ExpectRefused(store->Save("a", MakeCheckpoint(1)).status(), "--max_store_bytes");
  ASSERT_OK(live->Save("a", MakeCheckpoint(2)));
  ASSERT_OK(live->Delete("a"));
  ASSERT_OK(store->Save("a", MakeCheckpoint(1)));
  ExpectRefused(live->Save("b", MakeCheckpoint(1)).status(), "--max_store_bytes");
}

// The sums are kept: a save reads the disk for what it has written, and nothing else of the store.
TEST_F(StoreQuotaTest, TheSumsAreThoseOfTheDiskAndASaveLooksAtNoOther) {
  const auto store = OpenLimited({});
  const auto live = store->OpenApart(".live");
  ASSERT_OK(store->Save("a", MakeCheckpoint(1)));
  ASSERT_OK(live->Save("acme/a", MakeCheckpoint(1)));
  ASSERT_OK(live->Save("b", MakeCheckpoint(1)));
  ASSERT_OK(live->Delete("b"));
  ASSERT_OK(live->SetAside("acme/a"));
  ASSERT_OK(live->Save("acme/a", MakeCheckpoint(2)));
  const int64_t used = store->UsedBytes();
  EXPECT_EQ(used, Used());
  const auto again = OpenLimited({});
  again->OpenApart(".live");
  EXPECT_EQ(again->UsedBytes(), used);
  EXPECT_EQ(again->AsideBytes(), live->AsideBytes());
  WriteFileBytes(Path("a/v1/parameters.safetensors"), std::string(100'000, 'x'));
  ASSERT_OK(store->Save("c", MakeCheckpoint(1)));
  EXPECT_LT(store->UsedBytes(), 100'000);
}

TEST_F(StoreQuotaTest, WhatWasSetAsideCountsForItsTenantAndTheLastThreeStay) {
  int64_t most = 0;
  const auto store = OpenLimited({.tenant_bytes = [&most](absl::string_view) { return most; }});
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    ASSERT_OK(store->Save("acme/m", MakeCheckpoint(seed)));
    ASSERT_OK(store->SetAside("acme/m"));
  }
  for (const auto& [aside, is_there] : std::map<std::string, bool>{{"1", false}, {"2", false}, {"3", true}, {"5", true}}) {
    EXPECT_EQ(std::filesystem::exists(Path(".acme+m." + aside)), is_there) << aside;
  }
  EXPECT_TRUE(store->List()->empty()) << "they are no checkpoints";
  EXPECT_EQ(store->AsideBytes(), Used());
  most = Used() + 100;
  ExpectRefused(store->Save("acme/m", MakeCheckpoint(6)).status(), "more than the quota store_bytes=");
  EXPECT_OK(store->Save("globex/m", MakeCheckpoint(6)));
}

}  // namespace
}  // namespace gluond
