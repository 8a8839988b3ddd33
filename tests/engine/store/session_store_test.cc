#include "engine/store/session_store.h"

#include <string>
#include <vector>

#include "engine/store/crc32c.h"
#include "tests/engine/store/store_fixture.h"

namespace gluond {
namespace {

class SessionStoreTest : public StoreTest {
 protected:
  SessionStore Open() const { return SessionStore(OpenStore()->OpenApart(".sessions")); }

  SessionSave MakeSave() const {
    SessionSave save;
    save.summary.key_hash = "k\"ey\n";
    save.summary.version = UINT64_MAX;
    save.summary.client = "ann";
    save.summary.created = std::chrono::system_clock::time_point(std::chrono::microseconds(1'700'000'000'123'456));
    save.summary.manifest = "{\"a\": \"\u00e9\\n\"}";
    save.random = {INT64_MAX + uint64_t{7}, 9};
    const auto add = [&save](const std::string& name, Tensor tensor) {
      save.summary.arrays.push_back({name, tensor.dtype(), tensor.shape()});
      save.arrays.push_back({name, std::move(tensor)});
    };
    add("0", Make<float>({3, 2}, {0.5f, 1, 2, 3, 4, 255}));
    add("__metadata__", Make<int64_t>({1}, {INT64_MIN}));
    add("", Make<float>({0, 4}, {}));
    add("a \"scalar\"\n", Make<float>({1}, {7}).Reshaped(Shape::Scalar()));
    add("flags", Make<bool>({2}, {true, false}));
    return save;
  }
  // Edits the manifest of "run", with the right checksum.
  void EditManifest(const std::string& from, const std::string& to) const {
    std::string text = ReadFileBytes(Path(".sessions/run/v1/manifest.json"));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, from.size(), to);
    WriteFileBytes(Path(".sessions/run/v1/manifest.json"), text);
    WriteFileBytes(Path(".sessions/run/CURRENT"), absl::StrCat("1 ", Crc32c(text), "\n"));
  }
};

void ExpectSame(const SessionSummary& now, const SessionSummary& before) {
  EXPECT_EQ(now.key_hash, before.key_hash);
  EXPECT_EQ(now.version, before.version);
  EXPECT_EQ(now.client, before.client);
  EXPECT_EQ(now.created, before.created);
  EXPECT_EQ(now.manifest, before.manifest);
  EXPECT_EQ(now.bytes(), before.bytes());
  ASSERT_EQ(now.arrays.size(), before.arrays.size());
  for (size_t i = 0; i < now.arrays.size(); ++i) {
    EXPECT_EQ(now.arrays[i].name, before.arrays[i].name);
    EXPECT_EQ(now.arrays[i].dtype, before.arrays[i].dtype);
    EXPECT_EQ(now.arrays[i].shape, before.arrays[i].shape);
  }
}

TEST_F(SessionStoreTest, LoadsWhatWasSaved) {
  const SessionSave saved = MakeSave();
  ASSERT_OK(Open().Save("run", saved));
  const absl::StatusOr<SessionSave> loaded = Open().Load("run", *memory_);
  ASSERT_OK(loaded.status());
  ExpectSame(loaded->summary, saved.summary);
  EXPECT_EQ(loaded->summary.bytes(), 24 + 8 + 0 + 4 + 2);
  EXPECT_EQ(loaded->random.seed, saved.random.seed);
  EXPECT_EQ(loaded->random.runs, saved.random.runs);
  ASSERT_EQ(loaded->arrays.size(), saved.arrays.size());
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    const Tensor &now = loaded->arrays[i].tensor, &before = saved.arrays[i].tensor;
    EXPECT_EQ(loaded->arrays[i].name, saved.arrays[i].name);
    EXPECT_EQ(std::string(now.data<char>(), now.bytes()), std::string(before.data<char>(), before.bytes()));
  }
  const absl::StatusOr<SessionSummary> summary = Open().LoadSummary("run");
  ASSERT_OK(summary.status());
  ExpectSame(*summary, saved.summary);
}

TEST_F(SessionStoreTest, EveryFlippedByteIsNoticed) {
  ASSERT_OK(Open().Save("run", MakeSave()));
  for (const char* file : {".sessions/run/v1/parameters.safetensors", ".sessions/run/v1/manifest.json"}) {
    const std::string path = Path(file), bytes = ReadFileBytes(path);
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x11);
      WriteFileBytes(path, damaged);
      const absl::Status status = Open().Load("run", *memory_).status();
      ASSERT_TRUE(absl::IsDataLoss(status)) << file << " " << at << ": " << status;
    }
    WriteFileBytes(path, bytes);
  }
  ASSERT_OK(Open().Save("run", MakeSave())) << "another save replaces a damaged one";
}

TEST_F(SessionStoreTest, NotesThatAreNotItsOwnAreDamaged) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("format_version":1,"key_hash")", R"("format_version":0,"key_hash")"},
           {R"("dtype":"float32")", R"("dtype":"float16")"},
           {R"("dtype":"float32")", R"("dtype":"complex")"},
           {R"("shape":[3,2])", R"("shape":[2,3])"},
           {R"("shape":[3,2])", R"("shape":[-3,2])"},
           {R"("shape":[3,2])", R"("shape":[9223372036854775807,9223372036854775807])"},
           {R"("client_id":"ann")", R"("client_id":7)"}}) {
    ASSERT_OK(Open().Save("run", MakeSave()));
    EditManifest(from, to);
    const absl::Status status = Open().Load("run", *memory_).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << to << ": " << status;
    ASSERT_OK(Open().Delete("run"));
  }
}

TEST_F(SessionStoreTest, ANewerFormatIsForANewerServer) {
  ASSERT_OK(Open().Save("run", MakeSave()));
  EditManifest(R"("format_version":1,"key_hash")", R"("format_version":2,"key_hash")");
  EXPECT_TRUE(absl::IsFailedPrecondition(Open().LoadSummary("run").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Open().Load("run", *memory_).status()));
}

TEST_F(SessionStoreTest, ABoolThatIsNoneIsRefused) {
  SessionSave save = MakeSave();
  save.arrays.back().tensor.data<uint8_t>()[1] = 2;
  const absl::Status status = Open().Save("run", save);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("'flags'"), std::string::npos) << status;
  EXPECT_TRUE(Open().Names()->empty());
}

}  // namespace
}  // namespace gluond
