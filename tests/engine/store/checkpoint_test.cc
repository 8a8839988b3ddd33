#include "engine/store/checkpoint.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "engine/store/version_files.h"
#include "tests/engine/store/store_fixture.h"

namespace gluond {
namespace {

using CheckpointTest = StoreTest;

std::vector<std::string> Names(const CheckpointStore& store) {
  std::vector<std::string> names;
  const absl::StatusOr<std::vector<CheckpointSummary>> summaries = store.List();
  EXPECT_OK(summaries);
  for (const CheckpointSummary& summary : *summaries) names.push_back(summary.name);
  return names;
}

TEST_F(CheckpointTest, LoadsWhatWasSaved) {
  const auto store = OpenStore();
  const Checkpoint saved = MakeCheckpoint(3);
  ASSERT_OK(store->Save("lenet", saved));
  const absl::StatusOr<Checkpoint> loaded = OpenStore()->Load("lenet", *memory_);
  ASSERT_OK(loaded);
  EXPECT_EQ(Describe(*loaded), Describe(saved));
  EXPECT_EQ(loaded->trainer->learning_rate, 1.0);
  EXPECT_EQ(loaded->model.random.runs, 0xFFFFFFF3u);
  EXPECT_EQ(loaded->model.definition.parameters[0].lr_mult, 0.1 * 3);
}

TEST_F(CheckpointTest, AnotherMachineHasTheModelByItsFilesAndTheirChecksum) {
  const auto store = OpenStore();
  ASSERT_OK(store->Save("lenet", MakeCheckpoint(3)));
  const absl::StatusOr<uint32_t> checksum = store->Checksum("lenet");
  ASSERT_OK(checksum);
  std::vector<std::string> asked;
  const auto open = [&](const std::string& file) {
    asked.push_back(file);
    return store->OpenFile("lenet", *checksum, file);
  };
  const VersionReader reader(open, CheckpointStore::kDefaultMaxBytes);
  absl::StatusOr<ModelState> model = CheckpointStore::LoadModel(reader, *checksum, *memory_);
  ASSERT_OK(model);
  EXPECT_EQ(asked, (std::vector<std::string>{"manifest.json", "graph.json", "parameters.safetensors"}));
  Checkpoint expected = MakeCheckpoint(3);
  expected.trainer.reset();
  EXPECT_EQ(Describe(Checkpoint{*std::move(model), std::nullopt}), Describe(expected));
  EXPECT_TRUE(absl::IsDataLoss(CheckpointStore::LoadModel(reader, *checksum + 1, *memory_).status()));
  for (const char* file : {"../CURRENT", "CURRENT", "", "v1/graph.json"}) {
    EXPECT_TRUE(absl::IsNotFound(store->OpenFile("lenet", *checksum, file).status())) << file;
  }
  ASSERT_OK(store->Save("lenet", MakeCheckpoint(4)));
  EXPECT_TRUE(absl::IsNotFound(store->OpenFile("lenet", *checksum, "graph.json").status()));
  EXPECT_TRUE(absl::IsNotFound(store->Checksum("none").status()));
  const absl::Status away = absl::UnavailableError("away");
  const VersionReader from_nobody([&](const std::string&) { return away; }, CheckpointStore::kDefaultMaxBytes);
  EXPECT_TRUE(absl::IsUnavailable(CheckpointStore::LoadModel(from_nobody, *checksum, *memory_).status())) << "not DATA_LOSS";
}

TEST_F(CheckpointTest, AModelWithoutATrainerHasNoOptimizerFile) {
  const auto store = OpenStore();
  Checkpoint saved = MakeCheckpoint(1);
  saved.trainer.reset();
  ASSERT_OK(store->Save("m", saved));
  const absl::StatusOr<Checkpoint> loaded = store->Load("m", *memory_);
  ASSERT_OK(loaded);
  EXPECT_FALSE(loaded->trainer.has_value());
  EXPECT_EQ(Describe(*loaded), Describe(saved));
  EXPECT_FALSE(std::filesystem::exists(Path("m/v1/optimizer.safetensors")));
}

TEST_F(CheckpointTest, SavingAgainReplaces) {
  const auto store = OpenStore();
  for (uint64_t seed : {1, 2, 3}) {
    const absl::StatusOr<CheckpointSummary> summary = store->Save("m", MakeCheckpoint(seed));
    ASSERT_OK(summary);
    EXPECT_EQ(summary->step, static_cast<int64_t>(seed));
    EXPECT_EQ(Describe(*store->Load("m", *memory_)), Describe(MakeCheckpoint(seed)));
  }
  EXPECT_EQ(*LocalFileSystem().List(Path("m")), (std::vector<std::string>{"CURRENT", "v3"}));
}

TEST_F(CheckpointTest, ListTellsOfEach) {
  const auto store = OpenStore();
  EXPECT_TRUE(Names(*store).empty());
  ASSERT_OK(store->Save("b", MakeCheckpoint(2)));
  ASSERT_OK(store->Save("a.1-x_y", MakeCheckpoint(1)));
  EXPECT_EQ(Names(*store), (std::vector<std::string>{"a.1-x_y", "b"}));
  const CheckpointSummary summary = store->List()->at(1);
  EXPECT_EQ(summary.step, 2);
  EXPECT_TRUE(summary.has_trainer);
  EXPECT_GT(summary.saved_unix_seconds, 1'600'000'000);
  int64_t bytes = 0;
  for (const char* file : {"graph.json", "parameters.safetensors", "optimizer.safetensors"}) {
    bytes += static_cast<int64_t>(std::filesystem::file_size(Path("b/v1/") + file));
  }
  EXPECT_EQ(summary.bytes, bytes);
}

TEST_F(CheckpointTest, DeleteRemovesEverything) {
  const auto store = OpenStore();
  ASSERT_OK(store->Save("lenet", MakeCheckpoint(1)));
  ASSERT_OK(store->Save("resnet", MakeCheckpoint(2)));
  EXPECT_OK(store->Delete("lenet"));
  EXPECT_EQ(Names(*store), std::vector<std::string>{"resnet"});
  EXPECT_FALSE(std::filesystem::exists(Path("lenet")));
  const absl::Status missing = store->Delete("resnt");
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_EQ(missing.message(), "there is no checkpoint 'resnt'; did you mean 'resnet'?");
  EXPECT_EQ(store->Load("resnt", *memory_).status(), missing);
}

TEST_F(CheckpointTest, NamesAreNeverPaths) {
  const auto store = OpenStore();
  for (const std::string& name :
       std::vector<std::string>{"", ".", "..", "../x", "/etc/passwd", "a/b/c", "/b", "a/", "a+b", ".hidden", "-rf", "_x", "a b",
                                "a\n", std::string("a\0b", 3), "gr\xc3\xbc\xc3\x9f", "a\\b", std::string(129, 'a')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(store->Save(name, MakeCheckpoint(1)).status())) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(store->Load(name, *memory_).status())) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(store->Delete(name))) << name;
  }
  EXPECT_OK(store->Save(std::string(128, 'a'), MakeCheckpoint(1)));
  EXPECT_OK(store->Save("0..", MakeCheckpoint(1)));
}

TEST_F(CheckpointTest, FollowsNoLinks) {
  const TemporaryDirectory elsewhere;
  ASSERT_OK((*CheckpointStore::Open(LocalFileSystem(), elsewhere.path()))->Save("m", MakeCheckpoint(1)));
  const auto store = OpenStore();
  std::filesystem::create_symlink(elsewhere.path() + "/m", Path("link"));
  EXPECT_TRUE(absl::IsNotFound(store->Load("link", *memory_).status()));
  EXPECT_TRUE(absl::IsNotFound(store->Delete("link")));
  EXPECT_TRUE(absl::IsFailedPrecondition(store->Save("link", MakeCheckpoint(2)).status()));
  EXPECT_TRUE(Names(*store).empty());

  ASSERT_OK(store->Save("m", MakeCheckpoint(3)));
  std::filesystem::rename(Path("m/v1"), elsewhere.path() + "/v1");
  std::filesystem::create_symlink(elsewhere.path() + "/v1", Path("m/v1"));
  EXPECT_TRUE(absl::IsDataLoss(store->Load("m", *memory_).status()));
  EXPECT_OK(store->Delete("m"));
  EXPECT_TRUE(std::filesystem::exists(elsewhere.path() + "/v1/manifest.json"));
}

TEST_F(CheckpointTest, TheStoreItselfMayBeALink) {
  std::filesystem::create_directory(Path("real"));
  std::filesystem::create_symlink(Path("real"), Path("link"));
  const auto store = CheckpointStore::Open(LocalFileSystem(), Path("link"));
  ASSERT_OK(store);
  EXPECT_OK((*store)->Save("m", MakeCheckpoint(1)));
  EXPECT_OK((*store)->Load("m", *memory_));
}

TEST_F(CheckpointTest, ADirectoryThatCannotBeMadeIsAnError) {
  WriteFileBytes(Path("file"), "");
  EXPECT_FALSE(CheckpointStore::Open(LocalFileSystem(), Path("file")).ok());
  EXPECT_TRUE(absl::IsNotFound(CheckpointStore::Open(LocalFileSystem(), Path("no/such/parent")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckpointStore::Open(LocalFileSystem(), "").status()));
}

TEST_F(CheckpointTest, OpenRemovesWhatIsLeftOfStoppedSavesAndNothingElse) {
  ASSERT_OK(OpenStore()->Save("m", MakeCheckpoint(1)));
  const auto touch = [&](const std::string& file) {
    std::filesystem::create_directories(std::filesystem::path(Path(file)).parent_path());
    WriteFileBytes(Path(file), "x");
  };
  touch("m/v2/graph.json");
  touch("m/CURRENT.tmp");
  touch("new/v1/parameters.safetensors");
  touch("m/notes.txt");
  touch("homework/v1/essay.txt");  // Somebody's own directory, whose name looks like ours.
  touch("homework/version");
  OpenStore();
  EXPECT_FALSE(std::filesystem::exists(Path("m/v2")));
  EXPECT_FALSE(std::filesystem::exists(Path("m/CURRENT.tmp")));
  EXPECT_FALSE(std::filesystem::exists(Path("new/v1")));
  EXPECT_TRUE(std::filesystem::exists(Path("m/notes.txt")));
  EXPECT_TRUE(std::filesystem::exists(Path("homework/v1/essay.txt")));
  EXPECT_TRUE(std::filesystem::exists(Path("homework/version")));
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenStore()->Save("homework", MakeCheckpoint(1)).status()));
  EXPECT_EQ(ReadFileBytes(Path("homework/v1/essay.txt")), "x");
  EXPECT_EQ(Describe(*OpenStore()->Load("m", *memory_)), Describe(MakeCheckpoint(1)));
}

TEST_F(CheckpointTest, AModelThatCouldNotBeReadBackIsNotSaved) {
  const auto store = OpenStore();
  ASSERT_OK(store->Save("m", MakeCheckpoint(1)));
  Checkpoint twice = MakeCheckpoint(2);
  twice.model.parameters.push_back(twice.model.parameters[0]);
  EXPECT_TRUE(absl::IsInvalidArgument(store->Save("m", twice).status()));
  EXPECT_EQ(Describe(*store->Load("m", *memory_)), Describe(MakeCheckpoint(1)));
  EXPECT_EQ(*LocalFileSystem().List(Path("m")), (std::vector<std::string>{"CURRENT", "v1"}));
}

TEST_F(CheckpointTest, ThePythonPackageOpensItsTensors) {
  const char* python = std::getenv("PYTHON");
  const std::string run = python == nullptr ? "python3" : python;
  if (std::system((run + " -c 'import numpy, safetensors.numpy' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << run << " has no package safetensors";
  }
  ASSERT_OK(OpenStore()->Save("m", MakeCheckpoint(1)));
  WriteFileBytes(Path("check.py"), R"(
import json, sys
from safetensors.numpy import load_file
assert {k: v.shape for k, v in load_file(sys.argv[1] + "/parameters.safetensors").items()} == {
    "0.weight": (5, 3), "0.bias": (5,), "2.weight": (2, 5), "2.bias": (2,)}
assert len(load_file(sys.argv[1] + "/optimizer.safetensors")) == 4
assert json.load(open(sys.argv[1] + "/manifest.json"))["step"] == 1
assert len(json.load(open(sys.argv[1] + "/graph.json"))["parameters"]) == 4
)");
  EXPECT_EQ(std::system(absl::StrCat(run, " ", Path("check.py"), " ", Path("m/v1")).c_str()), 0);
}

TEST_F(CheckpointTest, AModelOfAGroupOfServersKeepsItsShards) {
  const auto store = OpenStore();
  Checkpoint saved = MakeCheckpoint(1);
  saved.virtual_shards = 4;
  ASSERT_OK(store->Save("m", saved));
  EXPECT_EQ(store->Load("m", *memory_)->virtual_shards, 4);
  saved.virtual_shards = 3;
  ASSERT_OK(store->Save("m", saved));
  EXPECT_TRUE(absl::IsDataLoss(store->Load("m", *memory_).status())) << store->Load("m", *memory_).status();
}

// A live checkpoint is a model's, with its place on a server, and stands apart from the users'.
TEST_F(CheckpointTest, AFolderHasNamesOfItsOwn) {
  const auto store = OpenStore();
  const auto live = store->OpenApart(".live");
  Checkpoint checkpoint = MakeCheckpoint(2);
  checkpoint.hosting =
      Hosting{"cpu", uint64_t{1} << 63, 1.5, 7, {{"ann", 12}, {"\n \"bob\"", UINT64_MAX}}, {{"acme/ann", "packed"}}, {"ann"}};
  ASSERT_OK(store->Save("m", MakeCheckpoint(1)));
  ASSERT_OK(live->Save("m", checkpoint));
  ASSERT_OK(live->Save("other", MakeCheckpoint(3)));
  EXPECT_EQ(store->List()->size(), 1u);
  EXPECT_EQ(*live->Names(), (std::vector<std::string>{"m", "other"}));
  const absl::StatusOr<Checkpoint> loaded = OpenStore()->OpenApart(".live")->Load("m", *memory_);
  ASSERT_OK(loaded.status());
  ASSERT_TRUE(loaded->hosting.has_value());
  EXPECT_EQ(loaded->hosting->device, "cpu");
  EXPECT_EQ(loaded->hosting->seed, uint64_t{1} << 63);
  EXPECT_EQ(loaded->hosting->ttl_seconds, 1.5);
  EXPECT_EQ(loaded->hosting->version, 7u);
  EXPECT_EQ(loaded->hosting->applied, checkpoint.hosting->applied);
  EXPECT_EQ(loaded->hosting->silent, checkpoint.hosting->silent);
  EXPECT_EQ(loaded->hosting->in_part, checkpoint.hosting->in_part);
  ASSERT_OK(live->Delete("m"));
  EXPECT_OK(store->Load("m", *memory_));
  EXPECT_FALSE(store->Load("m", *memory_)->hosting.has_value());
}

}  // namespace
}  // namespace gluond
