// Whatever happened to a checkpoint's files: an error that says which file, never a crash, and nothing is changed.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "engine/store/checkpoint.h"
#include "engine/store/crc32c.h"
#include "tests/engine/store/store_fixture.h"

namespace gluond {
namespace {

class DamageTest : public StoreTest {
 protected:
  DamageTest() : store_(OpenStore()) {
    EXPECT_OK(store_->Save("m", MakeCheckpoint(1)));
    manifest_ = ReadFileBytes(Path("m/v1/manifest.json"));
  }

  absl::Status Load() const { return store_->Load("m", *memory_).status(); }

  // Puts `text` in the manifest's place, with the right checksum: what another server may have written.
  void WriteManifest(const std::string& text) const {
    WriteFileBytes(Path("m/v1/manifest.json"), text);
    WriteFileBytes(Path("m/CURRENT"), absl::StrCat("1 ", Crc32c(text), "\n"));
  }
  // The manifest with one text replaced by another.
  void EditManifest(const std::string& from, const std::string& to) const {
    std::string text = manifest_;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " is not in " << text;
    WriteManifest(text.replace(at, from.size(), to));
  }
  // Another graph.json, with the right size and checksum.
  void WriteGraph(const std::string& text) const {
    const std::string old = ReadFileBytes(Path("m/v1/graph.json"));
    WriteFileBytes(Path("m/v1/graph.json"), text);
    EditManifest(absl::StrCat("\"bytes\":", old.size(), ",\"crc32c\":", Crc32c(old)),
                 absl::StrCat("\"bytes\":", text.size(), ",\"crc32c\":", Crc32c(text)));
  }

  const std::unique_ptr<CheckpointStore> store_;
  std::string manifest_;
};

TEST_F(DamageTest, EveryFlippedByteOfTheManifestIsNoticed) {
  for (size_t at = 0; at < manifest_.size(); ++at) {
    std::string damaged = manifest_;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    WriteFileBytes(Path("m/v1/manifest.json"), damaged);
    const absl::Status status = Load();
    ASSERT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
  }
  WriteFileBytes(Path("m/v1/manifest.json"), manifest_);
  EXPECT_OK(Load());
}

// With the right checksum: what then is read may be another number, but the reader stands.
TEST_F(DamageTest, AManifestOfAnyContentsCrashesNothing) {
  size_t refused = 0;
  for (size_t at = 0; at < manifest_.size(); ++at) {
    for (char c : {'"', '9', '['}) {
      std::string other = manifest_;
      other[at] = c;
      WriteManifest(other);
      refused += !Load().ok();
    }
    EXPECT_OK(store_->List());
  }
  EXPECT_GT(refused, manifest_.size());
}

TEST_F(DamageTest, EveryFlippedByteOfEveryFileIsNoticed) {
  for (const char* file : {"m/CURRENT", "m/v1/graph.json", "m/v1/parameters.safetensors", "m/v1/optimizer.safetensors"}) {
    const std::string bytes = ReadFileBytes(Path(file));
    for (size_t at = 0; at + 1 < bytes.size(); ++at) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x11);
      WriteFileBytes(Path(file), damaged);
      const absl::Status status = Load();
      ASSERT_TRUE(absl::IsDataLoss(status)) << file << " " << at << ": " << status;
    }
    WriteFileBytes(Path(file), bytes);
  }
  EXPECT_OK(Load());
}

TEST_F(DamageTest, SaysWhichFileIsMissingOrShort) {
  for (const char* file : {"graph.json", "parameters.safetensors", "optimizer.safetensors", "manifest.json"}) {
    const std::string path = Path("m/v1/") + file, bytes = ReadFileBytes(path);
    const auto expect = [&](const char* what) {
      const absl::Status status = Load();
      EXPECT_TRUE(absl::IsDataLoss(status)) << what << ": " << status;
      EXPECT_NE(status.message().find(absl::StrCat("checkpoint 'm': ", file)), absl::string_view::npos) << status;
    };
    WriteFileBytes(path, bytes.substr(0, bytes.size() / 2));
    expect("short");
    WriteFileBytes(path, bytes + "x");
    expect("long");
    WriteFileBytes(path, "");
    expect("empty");
    std::filesystem::remove(path);
    expect("missing");
    WriteFileBytes(path, bytes);
  }
  std::filesystem::rename(Path("m/v1"), Path("m/v2"));
  EXPECT_EQ(Load().message(), "checkpoint 'm': the directory v1 is missing");
}

TEST_F(DamageTest, ADamagedCheckpointCanBeDeletedButNotReplaced) {
  WriteFileBytes(Path("m/CURRENT"), std::string(1000, '1'));
  EXPECT_TRUE(absl::IsDataLoss(Load()));
  EXPECT_TRUE(absl::IsDataLoss(store_->Save("m", MakeCheckpoint(2)).status()));
  OpenStore();  // Leaves what a person might still rescue.
  EXPECT_TRUE(std::filesystem::exists(Path("m/v1/parameters.safetensors")));
  EXPECT_OK(store_->Delete("m"));
  EXPECT_OK(store_->Save("m", MakeCheckpoint(2)));
  EXPECT_OK(Load());
}

TEST_F(DamageTest, ANewerFormatIsSaidSo) {
  EditManifest("\"format_version\":1", "\"format_version\":2");
  const absl::Status status = Load();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("format_version is 2, this server reads up to 1"), absl::string_view::npos) << status;
  EditManifest("\"format_version\":1", "\"format_version\":0");
  EXPECT_TRUE(absl::IsDataLoss(Load()));
}

TEST_F(DamageTest, ManifestsThatLieAreRefused) {
  const std::pair<const char*, const char*> edits[] = {
      {"\"format_version\":1", "\"format_version\":1e0"},
      {"\"runs\":", "\"runs\":1"},  // More than 32 bits.
      {"\"seed\":", "\"seed\":-"},
      {"\"bytes\":", "\"bytes\":9223372036854775"},  // More than a file can have.
      {"\"bytes\":", "\"bytes\":-"},
      {"\"crc32c\":", "\"crc32c\":99999999999"},
      {"graph.json", "../../../etc/passwd"},
      {"graph.json", "missing.json"},
      {"\"step\":1,\"learning_rate\"", "\"step\":99999999999999999999,\"learning_rate\""},
      {"\"updates\":{", "\"updates\":{\"0.weight\":1,"},  // Twice.
      {"\"files\":[", "\"files\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}};
  for (const auto& [from, to] : edits) {
    EditManifest(from, to);
    const absl::Status status = Load();
    EXPECT_TRUE(absl::IsDataLoss(status)) << to << ": " << status;
    EXPECT_OK(store_->List());
  }
  WriteManifest(std::string(1 << 20, '['));
  EXPECT_TRUE(absl::IsDataLoss(Load()));
  const auto listed = store_->List();
  ASSERT_EQ(listed->size(), 1u) << "whoever lists hears of it";
  EXPECT_THAT(listed->front().damage, testing::HasSubstr("manifest.json"));
}

TEST_F(DamageTest, GraphsThatLieAreRefused) {
  const std::string graph = ReadFileBytes(Path("m/v1/graph.json"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = graph;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text :
       {std::string("{}"), std::string("[]"), std::string("null"), std::string(100'000, '['),
        with("\"shape\":[5,3]", "\"shape\":[5,99999999999999999]"), with("\"shape\":[5,3]", "\"shape\":[-7]"),
        with("\"nodes\":[", "\"nodes\":[7,"), with("\"grad_req\":\"write\"", "\"grad_req\":\"both\"")}) {
    WriteGraph(text);
    const absl::Status status = Load();
    EXPECT_TRUE(absl::IsDataLoss(status)) << text.substr(0, 80) << ": " << status;
    WriteFileBytes(Path("m/v1/graph.json"), graph);
  }
  WriteGraph(with("\"op\":\"FullyConnected\"", "\"op\":\"FullyConnectd\""));
  const absl::Status status = Load();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_NE(status.message().find("FullyConnected"), absl::string_view::npos) << status;
}

TEST_F(DamageTest, ALimitOnBytesHolds) {
  const auto small = CheckpointStore::Open(LocalFileSystem(), directory_.path(), 100);
  const absl::Status status = (*small)->Load("m", *memory_).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find("parameters.safetensors"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace gluond
