#include "engine/store/checkpoint.h"

#include <unistd.h>

#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

class CheckpointTest : public TrainerTest {
 protected:
  CheckpointTest() : directory_(absl::StrCat(testing::TempDir(), "/checkpoint_", getpid())) {
    EXPECT_OK(LocalFileSystem().RemoveTree(directory_));
    store_ = *CheckpointStore::Open(LocalFileSystem(), directory_);
  }
  ~CheckpointTest() override { LocalFileSystem().RemoveTree(directory_).IgnoreError(); }

  Checkpoint Snapshot(Model& model) {
    return {*Await<absl::StatusOr<ModelState>>([&](auto done) { model.Snapshot(done); }), std::nullopt};
  }

  const std::string directory_;
  std::unique_ptr<CheckpointStore> store_;
};

TEST_F(CheckpointTest, AModelComesBackAsItWas) {
  auto model = MakeModel(LeNet(4, 6, 8), {{"data", {-1, 1, 28, 28}}});
  ASSERT_OK(Initialize(*model, {{"Xavier", {}}}));
  const Tensor x = MakeNoise({3, 1, 28, 28}, 1);
  const auto before = Predict(*model, {{"data", x}});
  ASSERT_OK(before.status());
  const auto saved = store_->Save("lenet", Snapshot(*model));
  ASSERT_OK(saved.status());
  EXPECT_FALSE(saved->has_trainer);

  auto loaded = store_->Load("lenet", *memory_);
  ASSERT_OK(loaded.status());
  auto other = Model::Create(loaded->model.definition, Options());
  ASSERT_OK(other.status());
  EXPECT_EQ((*other)->outputs()[0].name, "output");
  ASSERT_OK(Await<absl::Status>([&](auto done) { (*other)->Restore(loaded->model, done); }));
  const auto after = Predict(**other, {{"data", x}});
  ASSERT_OK(after.status());
  EXPECT_EQ(Bytes((*before)[0].tensor), Bytes((*after)[0].tensor));
}

TEST_F(CheckpointTest, ListsAndDeletes) {
  auto model = MakeModel({"Dense", "", {{"units", "2"}, {"in_units", "3"}}}, {{"data", {-1, 3}}});
  ASSERT_OK(Initialize(*model));
  for (const char* name : {"b", "a", "b"}) ASSERT_OK(store_->Save(name, Snapshot(*model)).status());
  auto list = *store_->List();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "a");
  EXPECT_EQ(list[1].name, "b");
  EXPECT_GT(list[1].bytes, 0);
  ASSERT_OK(store_->Delete("a"));
  EXPECT_EQ(store_->List()->size(), 1u);
  EXPECT_EQ(store_->Delete("a").code(), absl::StatusCode::kNotFound);
  const absl::Status missing = store_->Load("bb", *memory_).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("did you mean 'b'"), absl::string_view::npos) << missing;
}

TEST_F(CheckpointTest, NamesAreNeverPaths) {
  auto model = MakeModel({"Dense", "", {{"units", "2"}, {"in_units", "3"}}}, {{"data", {-1, 3}}});
  const Checkpoint checkpoint = Snapshot(*model);
  for (const std::string& name : {std::string(), std::string("../x"), std::string("a/b"), std::string(".hidden"),
                                  std::string("a\0b", 3), std::string("-a"), std::string(129, 'a'), std::string("é")}) {
    EXPECT_EQ(store_->Save(name, checkpoint).status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(store_->Load(name, *memory_).status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(store_->Delete(name).code(), absl::StatusCode::kInvalidArgument) << name;
  }
  ASSERT_OK(store_->Save("A0._-z", checkpoint).status());
}

TEST_F(CheckpointTest, EveryFlippedByteIsNoticed) {
  auto model = MakeModel({"Dense", "", {{"units", "2"}, {"in_units", "3"}}}, {{"data", {-1, 3}}});
  ASSERT_OK(Initialize(*model));
  ASSERT_OK(store_->Save("c", Snapshot(*model)).status());
  FileSystem& files = LocalFileSystem();
  const std::string version = directory_ + "/c/v1/";
  for (const char* file : {"graph.json", "parameters.safetensors", "manifest.json"}) {
    const std::string good = *files.Read(version + file, 1 << 20);
    for (size_t at = 0; at < good.size(); at += 37) {
      std::string bad = good;
      bad[at] ^= 4;
      auto out = *files.Create(version + file);
      ASSERT_OK(out->Append(bad));
      EXPECT_EQ(store_->Load("c", *memory_).status().code(), absl::StatusCode::kDataLoss) << file << " byte " << at;
    }
    auto out = *files.Create(version + file);
    ASSERT_OK(out->Append(good.substr(0, good.size() - 1)));
    EXPECT_EQ(store_->Load("c", *memory_).status().code(), absl::StatusCode::kDataLoss) << file << " cut";
    ASSERT_OK((*files.Create(version + file))->Append(good));
    ASSERT_OK(store_->Load("c", *memory_).status());
  }
}

}  // namespace
}  // namespace gluond
