#include "engine/store/safetensors.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/store/store_fixture.h"

namespace gluond {
namespace {

class SafetensorsTest : public StoreTest {
 protected:
  static std::string Write(const NamedTensors& tensors, const AttrDict& metadata = {}) {
    std::string bytes;
    EXPECT_OK(WriteSafetensors(tensors, metadata, [&](absl::string_view piece) {
      bytes.append(piece.data(), piece.size());
      return absl::OkStatus();
    }));
    return bytes;
  }
  // A file of this header and these bytes.
  static std::string File(const std::string& header, const std::string& data = "") {
    const uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
  }
  absl::Status Read(const std::string& bytes) const { return ReadSafetensors(bytes, *memory_).status(); }

  // One tensor of each type, of each rank, and of no elements, sizes that leave odd places.
  NamedTensors MakeOneOfEach() const {
    return {{"u8", Make<uint8_t>({3}, {0, 127, 255})},
            {"bool", Make<bool>({1, 3}, {true, false, true})},
            {"f32", Make<float>({2, 2}, {1.5f, -0.0f, 3e38f, 1e-45f})},
            {"scalar", Make<double>(Shape::Scalar(), {0.1})},
            {"f16", Make<Half>({3}, {Half(1.0f), Half(-2.5f), Half(65504.0f)})},
            {"bf16", Make<BFloat16>({1}, {BFloat16(3.0f)})},
            {"i8", Make<int8_t>({2}, {-128, 127})},
            {"i32", Make<int32_t>({1, 1, 1, 1, 1, 1, 1, 2}, {INT32_MIN, INT32_MAX})},
            {"i64", Make<int64_t>({1}, {INT64_MIN})},
            {"empty", Make<float>({0, 7}, {})},
            {"names \"quoted\" \\ and Gr\xc3\xbc\xc3\x9f"
             "e",
             Make<float>({1}, {7})}};
  }
};

// The format's own words in thirty lines, sharing nothing with the reader that is tested: the bytes of a tensor.
std::string BytesOf(const std::string& file, const std::string& name, std::string* entry) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(file[static_cast<size_t>(i)]);
  const std::string header = file.substr(8, length);
  const size_t at = header.find("\"" + name + "\":{");
  if (at == std::string::npos) return "not found";
  *entry = header.substr(at + name.size() + 3, header.find('}', at) - at - name.size() - 2);
  unsigned long long begin = 0, end = 0;
  const size_t offsets = entry->find("\"data_offsets\":[");
  if (std::sscanf(entry->c_str() + offsets, "\"data_offsets\":[%llu,%llu]", &begin, &end) != 2) return "no offsets";
  return file.substr(8 + length + begin, end - begin);
}

TEST_F(SafetensorsTest, EveryTypeAndRankComesBack) {
  const NamedTensors tensors = MakeOneOfEach();
  const std::string bytes = Write(tensors, {{"format", "gluond"}, {"note", "a \"quote\""}});
  const absl::StatusOr<Safetensors> read = ReadSafetensors(bytes, *memory_);
  ASSERT_OK(read);
  EXPECT_EQ(read->metadata, (AttrDict{{"format", "gluond"}, {"note", "a \"quote\""}}));
  ASSERT_EQ(read->tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor &expected = tensors[i].tensor, &got = read->tensors[i].tensor;
    EXPECT_EQ(read->tensors[i].name, tensors[i].name);
    EXPECT_EQ(got.shape(), expected.shape());
    EXPECT_EQ(got.dtype(), expected.dtype());
    EXPECT_EQ(std::string(got.data<char>(), got.bytes()), std::string(expected.data<char>(), expected.bytes()));
  }
}

TEST_F(SafetensorsTest, AnIndependentReaderFindsTheBytes) {
  const std::string file = Write(MakeOneOfEach(), {{"format", "gluond"}});
  std::string entry;
  EXPECT_EQ(BytesOf(file, "u8", &entry), std::string("\x00\x7f\xff", 3));
  EXPECT_EQ(entry.find(R"({"dtype":"U8","shape":[3],)"), 0u) << entry;
  EXPECT_EQ(BytesOf(file, "i64", &entry), std::string("\0\0\0\0\0\0\0\x80", 8));
  EXPECT_EQ(entry.find(R"({"dtype":"I64","shape":[1],)"), 0u) << entry;
  EXPECT_EQ(BytesOf(file, "f32", &entry).substr(0, 4), std::string("\0\0\xc0\x3f", 4));
  EXPECT_EQ(entry.find(R"({"dtype":"F32","shape":[2,2],)"), 0u) << entry;
  EXPECT_EQ(BytesOf(file, "bf16", &entry), std::string("\x40\x40", 2));
  EXPECT_EQ(BytesOf(file, "f16", &entry).substr(0, 2), std::string("\x00\x3c", 2));
  EXPECT_EQ(BytesOf(file, "bool", &entry), std::string("\1\0\1", 3));
  EXPECT_EQ(BytesOf(file, "empty", &entry), "");
  EXPECT_EQ(BytesOf(file, "scalar", &entry).size(), 8u);
  EXPECT_EQ(entry.find(R"({"dtype":"F64","shape":[],)"), 0u) << entry;
}

TEST_F(SafetensorsTest, NoTensorsAreAFileToo) {
  const std::string bytes = Write({});
  EXPECT_EQ(bytes, File("{}      "));
  EXPECT_OK(Read(bytes));
}

TEST_F(SafetensorsTest, TensorsBeginAtMultiplesOfTheirElements) {
  const std::string file = Write(MakeOneOfEach());
  const Json header = *Json::Parse(
      absl::string_view(file).substr(8, static_cast<unsigned char>(file[0]) + 256u * static_cast<unsigned char>(file[1])));
  for (const NamedTensor& named : MakeOneOfEach()) {
    uint64_t begin = 1;
    ASSERT_OK(header.Find(named.name)->Find("data_offsets")->elements()[0].Get(&begin));
    EXPECT_EQ(begin % static_cast<uint64_t>(SizeOf(named.tensor.dtype())), 0u) << named.name;
  }
}

TEST_F(SafetensorsTest, ThePythonPackageOpensIt) {
  const char* python = std::getenv("PYTHON");
  const std::string run = python == nullptr ? "python3" : python;
  if (std::system((run + " -c 'import numpy, safetensors.numpy' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << run << " has no package safetensors";
  }
  NamedTensors tensors = MakeOneOfEach();
  tensors.erase(tensors.begin() + 5);  // numpy has no bfloat16.
  WriteFileBytes(Path("file"), Write(tensors, {{"format", "gluond"}}));
  WriteFileBytes(Path("check.py"), R"(
import sys, numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
t = load_file(sys.argv[1])
assert len(t) == 10, t.keys()
assert t["u8"].dtype == np.uint8 and t["u8"].tolist() == [0, 127, 255]
assert t["bool"].dtype == np.bool_ and t["bool"].tolist() == [[True, False, True]]
assert t["f32"].dtype == np.float32 and t["f32"].shape == (2, 2) and t["f32"][0, 0] == 1.5
assert t["scalar"].dtype == np.float64 and t["scalar"].shape == () and t["scalar"] == 0.1
assert t["f16"].dtype == np.float16 and t["f16"].tolist() == [1, -2.5, 65504]
assert t["i8"].tolist() == [-128, 127] and t["i32"].shape == (1,) * 7 + (2,)
assert t["i64"].tolist() == [-2**63] and t["empty"].shape == (0, 7)
assert safe_open(sys.argv[1], "numpy").metadata() == {"format": "gluond"}
save_file(t, sys.argv[1] + ".python", {"by": "python"})
)");
  ASSERT_EQ(std::system(absl::StrCat(run, " ", Path("check.py"), " ", Path("file")).c_str()), 0);

  const absl::StatusOr<Safetensors> back = ReadSafetensors(ReadFileBytes(Path("file.python")), *memory_);
  ASSERT_OK(back);
  EXPECT_EQ(back->metadata, (AttrDict{{"by", "python"}}));
  for (const NamedTensor& named : tensors) {
    const auto it = std::find_if(back->tensors.begin(), back->tensors.end(),
                                 [&](const NamedTensor& other) { return other.name == named.name; });
    ASSERT_NE(it, back->tensors.end()) << named.name;
    EXPECT_EQ(it->tensor.shape(), named.tensor.shape());
    EXPECT_EQ(std::string(it->tensor.data<char>(), it->tensor.bytes()),
              std::string(named.tensor.data<char>(), named.tensor.bytes()));
  }
}

TEST_F(SafetensorsTest, RefusesNamesThatWouldMakeAnUnreadableFile) {
  const auto write = [](const NamedTensors& tensors) {
    return WriteSafetensors(tensors, {}, [](absl::string_view) { return absl::OkStatus(); });
  };
  EXPECT_TRUE(absl::IsInvalidArgument(write({{"__metadata__", Make<float>({1}, {1})}})));
  EXPECT_TRUE(absl::IsInvalidArgument(write({{"w", Make<float>({1}, {1})}, {"w", Make<float>({1}, {1})}})));
}

struct Wrong {
  const char* what;
  const char* header;
  size_t data;  // Bytes after the header.
  const char* message;
};

TEST_F(SafetensorsTest, SaysWhatIsWrong) {
  const Wrong table[] = {
      {"not JSON", "{]", 0, "JSON, byte 1"},
      {"an array", "[]", 0, "not an object"},
      {"unknown type", R"({"w":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype 'F99'"},
      {"no shape", R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", 4, "'shape': is missing"},
      {"negative dimension", R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "negative"},
      {"a product that overflows", R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "'w'"},
      {"a huge shape", R"({"w":{"dtype":"F32","shape":[100000000000],"data_offsets":[0,400000000000]}})", 4,
       "the tensors take 400000000000 bytes, the file has 4"},
      {"nine dimensions", R"({"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "'w'"},
      {"offsets of another size", R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "do not hold 8"},
      {"offsets that go back", R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "do not hold 4"},
      {"offsets beyond 64 bits", R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551620]}})", 4, "'w'"},
      {"negative offsets", R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "'w'"},
      {"three offsets", R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "two numbers"},
      {"an overlap",
       R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
       6, "'b' begins at 2, expected 4"},
      {"a gap",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3, "'b' begins at 2, expected 1"},
      {"bytes left over", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "the file has 2"},
      {"a name twice",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
       R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0, "'a' twice"},
      {"too deep", R"({"a":{"dtype":[[[[[[1]]]]]]}})", 0, "levels"},
      {"metadata of numbers", R"({"__metadata__":{"a":1}})", 0, "want a string"},
      {"metadata in a list", R"({"__metadata__":[]})", 0, "__metadata__ is not an object"},
      {"a bool of 7", R"({"w":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 1, "neither 0 nor 1"}};
  for (const Wrong& wrong : table) {
    const absl::Status status = Read(File(wrong.header, std::string(wrong.data, '\7')));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong.what << ": " << status;
    EXPECT_NE(status.message().find(wrong.message), absl::string_view::npos) << wrong.what << ": " << status;
  }
}

TEST_F(SafetensorsTest, RefusesEveryTruncation) {
  const std::string file = Write(MakeOneOfEach(), {{"format", "gluond"}});
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_TRUE(absl::IsInvalidArgument(Read(file.substr(0, size)))) << size;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Read(file + "x")));
}

// Whatever stands in the length and the header: an error or a file of the same size, never a crash.
TEST_F(SafetensorsTest, SurvivesEveryFlippedByte) {
  const std::string file = Write({{"a", Make<float>({2, 2}, {1, 2, 3, 4})}, {"b", Make<bool>({3}, {true, false, true})}});
  size_t refused = 0;
  for (size_t at = 0; at < file.size() - 19; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(value);
      const absl::Status status = Read(damaged);
      EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
      refused += !status.ok();
    }
  }
  EXPECT_GT(refused, 200 * (file.size() - 19));
}

TEST_F(SafetensorsTest, AFileThatPromisesMoreThanItHasTakesNoMemory) {
  const auto little = *DeviceAllocator::Create(Device(), std::make_shared<Budget>("the test", 1024, "--none"));
  const std::string file = File(R"({"w":{"dtype":"F32","shape":[70000000000],"data_offsets":[0,280000000000]}})");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSafetensors(file, *little).status()));
  const std::string honest = Write({{"w", MakeNoise({1024}, 1)}});
  EXPECT_TRUE(absl::IsResourceExhausted(ReadSafetensors(honest, *little).status()));
}

}  // namespace
}  // namespace gluond
