#include "client/cli/idx.h"

#include <zlib.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace gluond::cli {
namespace {

using std::string_literals::operator""s;

constexpr char kTwoImages[] =
    "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03"
    "abcdef";
constexpr char kTwoLabels[] = "\0\0\x08\x01\0\0\0\x02\x05\x09";

std::string Of(const char* literal, size_t size) { return std::string(literal, size - 1); }

class IdxTest : public testing::Test {
 protected:
  IdxTest() : folder_(testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::remove((folder_ + "-images-idx3-ubyte").c_str());
  }

  std::string Write(const std::string& bytes) const {
    std::ofstream(folder_, std::ios::binary) << bytes;
    return folder_;
  }

  std::string WriteCompressed(const std::string& bytes) const {
    gzFile file = gzopen((folder_ + "z.gz").c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return folder_ + "z";
  }

  const std::string folder_;
};

TEST_F(IdxTest, ReadsPlainFiles) {
  const auto tensor = ReadIdx(Write(Of(kTwoImages, sizeof(kTwoImages))));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape(), (client::Shape{2, 1, 3}));
  EXPECT_EQ(tensor->bytes(), "abcdef");
}

TEST_F(IdxTest, FindsAndReadsCompressedFiles) {
  const auto tensor = ReadIdx(WriteCompressed(Of(kTwoImages, sizeof(kTwoImages))));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->bytes(), "abcdef");
}

TEST_F(IdxTest, JoinsImagesWithTheirLabels) {
  std::ofstream(folder_ + "-images-idx3-ubyte", std::ios::binary) << Of(kTwoImages, sizeof(kTwoImages));
  std::ofstream(folder_ + "-labels-idx1-ubyte", std::ios::binary) << Of(kTwoLabels, sizeof(kTwoLabels));
  const size_t slash = folder_.rfind('/');
  const auto both = ReadLabelledImages(folder_.substr(0, slash), folder_.substr(slash + 1));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->images.shape(), (client::Shape{2, 1, 1, 3}));
  EXPECT_EQ(*both->labels.Values<uint8_t>(), (std::vector<uint8_t>{5, 9}));
  EXPECT_EQ(both->count(), 2);
}

TEST_F(IdxTest, AMissingFileSaysWhereSuchFilesComeFrom) {
  const absl::Status status = ReadIdx("/nowhere/train").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("dataset-fashion-mnist"), std::string::npos) << status;
}

TEST_F(IdxTest, ATruncatedFileIsDataLoss) {
  EXPECT_EQ(ReadIdx(Write(Of(kTwoImages, sizeof(kTwoImages) - 1))).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadIdx(Write("\0\0\x08\x03\0\0"s)).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(IdxTest, AHeaderCannotAskForMoreThanIsSane) {
  EXPECT_EQ(ReadIdx(Write("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(IdxTest, OtherFilesAreRefused) {
  EXPECT_EQ(ReadIdx(Write("a text about something else")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadIdx(Write("\0\0\x0d\x01\0\0\0\x01zzzz"s)).status().code(),  // Floats.
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::cli
