#include "engine/store/dataset_store.h"

#include <string>
#include <utility>
#include <vector>

#include "engine/store/crc32c.h"
#include "tests/engine/store/store_fixture.h"

namespace gluond {
namespace {

class DatasetStoreTest : public StoreTest {
 protected:
  DatasetStore Open() const { return DatasetStore(OpenStore()->OpenApart(".datasets")); }

  StoredDataset MakeDataset(uint8_t first) const {
    StoredDataset stored;
    stored.dataset = *Dataset::FromTensors(
        {{.name = "data", .row_shape = {}, .scale = 1 / 255.0}, {.name = "\"label\"\n", .row_shape = {}, .shift = -1}},
        {Make<uint8_t>({3, 2}, {first, 1, 2, 3, 4, 255}), Make<int64_t>({3}, {INT64_MIN, 0, 7})}, *memory_);
    stored.client = "ann";
    stored.created = std::chrono::system_clock::time_point(std::chrono::microseconds(1'700'000'000'123'456));
    stored.crcs = {5, UINT32_MAX};
    stored.declared_crcs = {std::nullopt, UINT32_MAX};
    return stored;
  }
  static std::string Bytes(const Dataset& dataset, size_t column) {
    return {dataset.tensor(column).data<char>(), dataset.tensor(column).bytes()};
  }
  // Edits the manifest of "toy", with the right checksum.
  void EditManifest(const std::string& from, const std::string& to) const {
    std::string text = ReadFileBytes(Path(".datasets/toy/v1/manifest.json"));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, from.size(), to);
    WriteFileBytes(Path(".datasets/toy/v1/manifest.json"), text);
    WriteFileBytes(Path(".datasets/toy/CURRENT"), absl::StrCat("1 ", Crc32c(text), "\n"));
  }
};

TEST_F(DatasetStoreTest, LoadsWhatWasSaved) {
  const StoredDataset saved = MakeDataset(9);
  ASSERT_OK(Open().Save("toy", saved));
  const absl::StatusOr<StoredDataset> loaded = Open().Load("toy", *memory_);
  ASSERT_OK(loaded.status());
  EXPECT_TRUE(loaded->dataset->committed());
  EXPECT_EQ(loaded->dataset->rows(), 3);
  ASSERT_EQ(loaded->dataset->columns().size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Column& column = loaded->dataset->columns()[i];
    const Column& before = saved.dataset->columns()[i];
    EXPECT_EQ(column.name, before.name);
    EXPECT_EQ(column.row_shape, before.row_shape);
    EXPECT_EQ(column.dtype, before.dtype);
    EXPECT_EQ(column.scale, before.scale);
    EXPECT_EQ(column.shift, before.shift);
    EXPECT_EQ(Bytes(*loaded->dataset, i), Bytes(*saved.dataset, i));
  }
  EXPECT_EQ(loaded->client, "ann");
  EXPECT_EQ(loaded->created, saved.created);
  EXPECT_EQ(loaded->crcs, saved.crcs);
  EXPECT_EQ(loaded->declared_crcs, saved.declared_crcs);
}

TEST_F(DatasetStoreTest, ItsNamesAreNoCheckpoints) {
  DatasetStore store = Open();
  ASSERT_OK(store.Save("toy", MakeDataset(1)));
  EXPECT_TRUE(OpenStore()->Names()->empty());
  EXPECT_EQ(*store.Names(), std::vector<std::string>{"toy"});
  ASSERT_OK(store.Delete("toy"));
  EXPECT_TRUE(store.Names()->empty());
  EXPECT_TRUE(absl::IsNotFound(store.Delete("toy")));
  EXPECT_TRUE(absl::IsNotFound(store.Load("toy", *memory_).status()));
}

TEST_F(DatasetStoreTest, EveryFlippedByteOfTheRowsIsNoticed) {
  ASSERT_OK(Open().Save("toy", MakeDataset(1)));
  const std::string path = Path(".datasets/toy/v1/parameters.safetensors"), bytes = ReadFileBytes(path);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x11);
    WriteFileBytes(path, damaged);
    const absl::Status status = Open().Load("toy", *memory_).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
  }
}

TEST_F(DatasetStoreTest, ADamagedDatasetGivesWay) {
  ASSERT_OK(Open().Save("toy", MakeDataset(1)));
  WriteFileBytes(Path(".datasets/toy/CURRENT"), "nonsense");
  EXPECT_TRUE(absl::IsDataLoss(Open().Load("toy", *memory_).status()));
  ASSERT_OK(Open().Save("toy", MakeDataset(2)));
  EXPECT_EQ(Bytes(*Open().Load("toy", *memory_)->dataset, 0)[0], '\2');
}

TEST_F(DatasetStoreTest, ANewerFormatIsSaidSo) {
  ASSERT_OK(Open().Save("toy", MakeDataset(1)));
  EditManifest("\"notes\":{\"format_version\":1", "\"notes\":{\"format_version\":2");
  const absl::Status status = Open().Load("toy", *memory_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("format_version is 2, this server reads up to 1"), absl::string_view::npos) << status;
}

TEST_F(DatasetStoreTest, NotesThatLieAreRefused) {
  const std::pair<const char*, const char*> edits[] = {
      {"\"name\":\"data\"", "\"name\":\"\""},
      {"\"crc32c\":5,", "\"crc32c\":4294967296,"},
      {"\"columns\":[{", "\"columns\":[{},{"},
      {"\"columns\":[", "\"columms\":["},
      {"\"notes\":", "\"nodes\":"},
  };
  for (const auto& [from, to] : edits) {
    ASSERT_OK(Open().Save("toy", MakeDataset(1)));
    EditManifest(from, to);
    const absl::Status status = Open().Load("toy", *memory_).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << to << ": " << status;
    ASSERT_OK(Open().Delete("toy"));
  }
}

TEST_F(DatasetStoreTest, BoolsThatCouldNotBeReadBackAreRefused) {
  StoredDataset stored = MakeDataset(1);
  Tensor bools = *Tensor::Empty(*memory_, {2}, DType::kBool);
  bools.data<uint8_t>()[0] = 1;
  bools.data<uint8_t>()[1] = 2;
  stored.dataset = *Dataset::FromTensors({{.name = "b", .row_shape = {}}}, {bools}, *memory_);
  EXPECT_TRUE(absl::IsInvalidArgument(Open().Save("toy", stored)));
  bools.data<uint8_t>()[1] = 0;
  EXPECT_OK(Open().Save("toy", stored));
}

}  // namespace
}  // namespace gluond
