// Files of arrays: what is written comes back, in the bytes of Python and of the server; damaged files are errors.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/store/safetensors.h"
#include "gluond/gluond.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

std::string Path(const std::string& name) { return testing::TempDir() + "files_test_" + name; }

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

template <class T>
std::string Raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string U64(uint64_t value) { return Raw(value); }
std::string I32(int32_t value) { return Raw(value); }

// One of each dtype, and of odd shapes.
NamedTensors OneOfEach() {
  return {{"u8", Tensor::Of<uint8_t>({3}, {0, 127, 255})},
          {"bool", Tensor::Of<bool>({1, 3}, {true, false, true})},
          {"f32", Tensor::Of<float>({2, 2}, {1.5f, -0.0f, 3e38f, 1e-45f})},
          {"scalar", Tensor::Of<double>({}, {0.1})},
          {"f16", Tensor::Of<Float16>({3}, {Float16(1.0f), Float16(-2.5f), Float16(65504.0f)})},
          {"i8", Tensor::Of<int8_t>({2}, {-128, 127})},
          {"i32", Tensor::Of<int32_t>({1, 1, 2}, {INT32_MIN, INT32_MAX})},
          {"i64", Tensor::Of<int64_t>({1}, {INT64_MIN})},
          {"empty", Tensor::Of<float>({0, 7}, {})},
          {"\"quoted\" \\ \x01 Gr\xc3\xbc\xc3\x9f", Tensor::Of<float>({1}, {7})}};
}

class FilesTest : public testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return Path(std::string("each") + GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Formats, FilesTest, testing::Values(".params", ".safetensors"));

TEST_P(FilesTest, EveryDTypeComesBack) {
  ASSERT_TRUE(SaveTensors(path(), OneOfEach()).ok());
  const absl::StatusOr<NamedTensors> loaded = LoadTensors(path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(*loaded == OneOfEach());
  ASSERT_TRUE(SaveTensors(path(), {}).ok());
  EXPECT_TRUE(LoadTensors(path())->empty());
}

TEST_P(FilesTest, EveryCutIsAnError) {
  ASSERT_TRUE(SaveTensors(path(), OneOfEach()).ok());
  const std::string bytes = BytesOf(path());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const absl::Status status = ParseTensors(absl::string_view(bytes).substr(0, size)).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
  }
}

TEST_P(FilesTest, NoDamageOfAByteBreaksTheReader) {
  ASSERT_TRUE(SaveTensors(path(), OneOfEach()).ok());
  const std::string bytes = BytesOf(path());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const char flipped : {'\xff', '\x80', '\x01'}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flipped);
      const absl::StatusOr<NamedTensors> read = ParseTensors(damaged);
      EXPECT_TRUE(read.ok() || absl::IsDataLoss(read.status())) << at << ": " << read.status();
    }
  }
}

TEST_P(FilesTest, AFailedWriteLeavesTheOldFile) {
  ASSERT_TRUE(SaveTensors(path(), OneOfEach()).ok());
  const std::string before = BytesOf(path());
  EXPECT_FALSE(SaveTensors(path(), {{"\xff", Tensor()}}).ok());
  EXPECT_EQ(BytesOf(path()), before);
  EXPECT_TRUE(absl::IsPermissionDenied(SaveTensors(Path("no/such/folder") + GetParam(), {})));
}

TEST(FileFormatsTest, MissingFilesAndFoldersAreErrors) {
  EXPECT_TRUE(absl::IsNotFound(LoadTensors(Path("missing")).status()));
  const absl::Status folder = LoadTensors(testing::TempDir()).status();
  EXPECT_TRUE(absl::IsNotFound(folder)) << folder;
}

TEST(FileFormatsTest, SafetensorsHaveTheServersBytes) {
  NamedTensors tensors = OneOfEach();
  tensors.emplace_back("bf16", Tensor::Of<Bfloat16>({1}, {Bfloat16(3.0f)}));
  ASSERT_TRUE(SaveTensors(Path("x.safetensors"), tensors).ok());
  const std::string bytes = BytesOf(Path("x.safetensors"));
  const auto memory = *DeviceAllocator::Create(Device(), std::make_shared<Budget>("the test", int64_t{1} << 30, "--none"));
  const auto read = gluond::ReadSafetensors(bytes, *memory);
  ASSERT_TRUE(read.ok()) << read.status();
  std::string again;
  ASSERT_TRUE(gluond::WriteSafetensors(read->tensors, {}, [&](absl::string_view piece) {
                again.append(piece.data(), piece.size());
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(again, bytes);
  EXPECT_EQ(read->tensors.size(), tensors.size());
}

TEST(FileFormatsTest, MXNetsFilesHaveFloatsForBfloat16) {
  ASSERT_TRUE(SaveTensors(Path("b.params"), {{"b", Tensor::Of<Bfloat16>({2}, {Bfloat16(3.0f), Bfloat16(-0.5f)})}}).ok());
  EXPECT_EQ((*LoadTensors(Path("b.params")))[0].second, Tensor::Of<float>({2}, {3.0f, -0.5f}));
}

TEST(FileFormatsTest, NamesThatAFormatCannotHold) {
  const Tensor x = Tensor::Of<float>({1}, {1});
  EXPECT_TRUE(absl::IsInvalidArgument(SaveTensors(Path("n.safetensors"), {{"a", x}, {"a", x}})));
  EXPECT_TRUE(absl::IsInvalidArgument(SaveTensors(Path("n.safetensors"), {{"__metadata__", x}})));
  EXPECT_TRUE(absl::IsInvalidArgument(SaveTensors(Path("n.safetensors"), {{"", x}})));
  EXPECT_TRUE(absl::IsInvalidArgument(SaveTensors(Path("n.params"), {{"\xc0\x80", x}})));
}

// Dtypes that the server lacks.
TEST(FileFormatsTest, OtherDTypesOfMXNetAreWidened) {
  const auto file = [](int32_t dtype, const std::string& values) {
    return U64(0x112) + U64(0) + U64(1) + Raw(0xF993FAC9u) + I32(0) + I32(1) + Raw(int64_t{2}) + I32(1) + I32(0) + I32(dtype) +
           values + U64(0);
  };
  const auto read = [&](int32_t dtype, const std::string& values) { return ParseTensors(file(dtype, values)).value()[0].second; };
  EXPECT_EQ(read(8, Raw(int16_t{-2}) + Raw(int16_t{3})), Tensor::Of<int32_t>({2}, {-2, 3}));
  EXPECT_EQ(read(9, Raw(uint16_t{65535}) + Raw(uint16_t{3})), Tensor::Of<int32_t>({2}, {65535, 3}));
  EXPECT_EQ(read(10, Raw(uint32_t{4000000000}) + Raw(uint32_t{3})), Tensor::Of<int64_t>({2}, {4000000000, 3}));
  EXPECT_EQ(read(11, U64(1) + U64(3)), Tensor::Of<int64_t>({2}, {1, 3}));
}

struct Malformed {
  const char* name;
  std::string bytes;
  const char* why;
};

std::string Params(const std::string& array, uint64_t count = 1, const std::string& names = U64(0)) {
  return U64(0x112) + U64(0) + U64(count) + array + names;
}
std::string Dense(int32_t rank, const std::string& shape, int32_t dtype, const std::string& values = "") {
  return Raw(0xF993FAC9u) + I32(0) + I32(rank) + shape + I32(1) + I32(0) + I32(dtype) + values;
}
std::string Safetensors(const std::string& header, const std::string& values = "") { return U64(header.size()) + header + values; }

std::vector<Malformed> AllMalformed() {
  const std::string one = Dense(1, Raw(int64_t{1}), 0, "abcd");
  return {
      {"Empty", "", "announced"},
      {"WrongMagic", U64(0x113) + U64(0) + U64(0) + U64(0), "0x112"},
      {"Text", "this is a text and no file of arrays", "0x112"},
      {"ManyArrays", Params("", uint64_t{1} << 62), "arrays, but has"},
      {"Sparse", Params(Raw(0xF993FAC9u) + I32(1) + one), "sparse"},
      {"ManyDimensions", Params(Dense(33, "", 0)), "33 dimensions"},
      {"NegativeRank", Params(Dense(-1, "", 0)), "dimensions"},
      {"NegativeDimension", Params(Dense(1, Raw(int64_t{-1}), 0)), "no array has the shape"},
      {"Overflow", Params(Dense(2, Raw(INT64_MAX) + Raw(INT64_MAX), 0)), "no array has the shape"},
      {"Huge", Params(Dense(1, Raw(int64_t{1} << 40), 0)), "bytes are announced"},
      {"UnknownDType", Params(Dense(1, Raw(int64_t{1}), 77, "abcd")), "77"},
      {"NoShape", Params(Dense(0, "", 0)), "no value"},
      {"NamesOfOthers", Params(one, 1, U64(2)), "1 arrays, but 2 names"},
      {"LongName", Params(one, 1, U64(1) + U64(uint64_t{1} << 60) + "w"), "bytes are announced"},
      {"NameNotUtf8", Params(one, 1, U64(1) + U64(1) + "\xff"), "UTF-8"},
      {"LongHeader", U64(uint64_t{1} << 60) + "{}", "a header of"},
      {"NotJson", Safetensors("{\"w\""), "':'"},
      {"Deep", Safetensors("{" + std::string(100000, '{')), "a string"},
      {"AfterTheHeader", Safetensors("{}x"), "the end of the header"},
      {"NameTwice", Safetensors(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{}})"), "twice"},
      {"UnknownMember", Safetensors(R"({"w":{"dtype":"U8","size":[0],"data_offsets":[0,0]}})"), "'size'"},
      {"MissingMember", Safetensors(R"({"w":{"dtype":"U8","shape":[0]}})"), "has only dtype, shape"},
      {"OtherDType", Safetensors(R"({"w":{"dtype":"C64","shape":[0],"data_offsets":[0,0]}})"), "C64"},
      {"MinusSize", Safetensors(R"({"w":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})"), "digits"},
      {"BeyondNumbers", Safetensors(R"({"w":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,0]}})"), "smaller"},
      {"ShapeOverflow",
       Safetensors(R"({"w":{"dtype":"F64","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,0]}})"),
       "no array has the shape"},
      {"LyingOffsets", Safetensors(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,2]}})", "ab"), "lies at [0, 2]"},
      {"BackwardOffsets", Safetensors(R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", "ab"), "lies at [2, 0]"},
      {"Gap", Safetensors(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "ab"), "expected 0"},
      {"Overlap",
       Safetensors(R"({"v":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                   "a"),
       "expected 1"},
      {"TooMuch", Safetensors(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "ab"), "1 bytes, but 2"},
      {"TooLittle", Safetensors(R"({"w":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", "ab"), "but 2"},
      {"HalfASurrogate", Safetensors(R"({"\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), "surrogate"},
      {"BadBool", Safetensors(R"({"w":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "\2"), "neither 0 nor 1"},
      {"MetadataOfNumbers", Safetensors(R"({"__metadata__":{"a":1}})"), "a string"},
  };
}

class MalformedTest : public testing::TestWithParam<Malformed> {};
INSTANTIATE_TEST_SUITE_P(Files, MalformedTest, testing::ValuesIn(AllMalformed()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(MalformedTest, IsAnErrorThatSaysWhy) {
  WriteBytes(Path("malformed"), GetParam().bytes);
  const absl::Status status = LoadTensors(Path("malformed")).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find(GetParam().why), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("malformed"), absl::string_view::npos) << status;
}

class ArrayFilesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("GLUOND_SERVER", "server/gluond-server", 0);
    Session::SetDefault(Session::StartServer().value());
  }
};

TEST_F(ArrayFilesTest, ArraysByNameAndListsComeBack) {
  const NDArray x = NDArray::Of<float>({2}, {1, 2});
  for (const char* const name : {"a.params", "a.safetensors"}) {
    const absl::Status saved = Save(Path(name), {{"x", x}, {"twice", x * 2}});
    ASSERT_TRUE(saved.ok()) << saved;
    auto loaded = Load(Path(name));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_EQ(loaded->size(), 2u);
    EXPECT_EQ(*(*loaded)["twice"].Values<float>(), (std::vector<float>{2, 4}));
    EXPECT_EQ(*((*loaded)["x"] + 1).Values<float>(), (std::vector<float>{2, 3}));
  }
  ASSERT_TRUE(SaveList(Path("l.params"), {x, x + 1}).ok());
  const auto list = LoadList(Path("l.params"));
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ(*(*list)[1].Values<float>(), (std::vector<float>{2, 3}));
  EXPECT_TRUE(absl::IsFailedPrecondition(Load(Path("l.params")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SaveList(Path("l.safetensors"), {x})));
  ASSERT_TRUE(SaveList(Path("l.params"), {x}).ok());
  const absl::Status unnamed = Load(Path("l.params")).status();
  EXPECT_NE(unnamed.message().find("LoadList reads them"), absl::string_view::npos) << unnamed;
}

TEST_F(ArrayFilesTest, AnErrorOfAnArrayIsToldAndNothingIsWritten) {
  const NDArray bad = NDArray::Ones({2}) + NDArray::Ones({3});
  std::filesystem::remove(Path("bad.params"));
  EXPECT_TRUE(absl::IsInvalidArgument(Save(Path("bad.params"), {{"bad", bad}})));
  EXPECT_FALSE(std::filesystem::exists(Path("bad.params")));
}

}  // namespace
}  // namespace gluond::client
