// Inflate: a message comes back whole, whatever its pieces; one that is damaged or too large is refused, and of the latter no
// more is made than may be.

#include "server/wire/inflate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/deflated.h"

namespace gluond::server {
namespace {

constexpr int64_t kMost = 1 << 20;

Slices Cut(const std::string& text, size_t piece) {
  Slices slices;
  for (size_t at = 0; at < text.size(); at += piece) slices.emplace_back(text.substr(at, piece));
  return slices;
}

std::string Text(const Slices& slices) {
  const Bytes bytes(slices);
  std::string text(bytes.size(), '\0');
  bytes.CopyTo(text.data());
  return text;
}

// Neither all the same nor without any order.
std::string Some(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 1;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>((state >> 28) + 'a');
  }
  return text;
}

class InflateTest : public testing::TestWithParam<Encoding> {
 protected:
  absl::StatusOr<Slices> Try(const Slices& slices, int64_t most = kMost) {
    return Inflate(slices, GetParam(), most, absl::ResourceExhaustedError("too large"), [this](int64_t bytes) {
      charged_ += bytes;
      return charged_ > budget_ ? absl::ResourceExhaustedError("no memory") : absl::OkStatus();
    });
  }
  void ExpectDamaged(const std::string& text) {
    for (const size_t piece : {size_t{1}, std::max<size_t>(1, text.size())}) {
      const absl::Status status = Try(Cut(text, piece)).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    }
  }

  int64_t charged_ = 0, budget_ = int64_t{1} << 40;
};

INSTANTIATE_TEST_SUITE_P(Encodings, InflateTest, testing::Values(Encoding::kDeflate, Encoding::kGzip));

TEST_P(InflateTest, GivesTheMessageBackWhateverItsPieces) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{500'000}}) {
    const std::string text = Some(size), packed = Deflated(text, GetParam());
    for (const size_t piece : {size_t{1}, size_t{7}, packed.size()}) {
      const absl::StatusOr<Slices> got = Try(Cut(packed, piece));
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_TRUE(Text(*got) == text) << size << " bytes in pieces of " << piece;
    }
  }
}

TEST_P(InflateTest, AMessageOfTheLimitIsTakenAndOneByteMoreIsNot) {
  for (const int64_t most : {int64_t{1}, int64_t{4096}, int64_t{12'288}, int64_t{100'000}}) {
    const auto size = static_cast<size_t>(most);
    EXPECT_TRUE(Try({grpc::Slice(Deflated(std::string(size, 'x'), GetParam()))}, most).ok()) << most;
    const absl::Status status = Try({grpc::Slice(Deflated(std::string(size + 1, 'x'), GetParam()))}, most).status();
    EXPECT_EQ(status, absl::ResourceExhaustedError("too large")) << most;
  }
}

TEST_P(InflateTest, ABombTakesNoMoreMemoryThanAMessageMay) {
  const std::string bomb = Deflated(std::string(200 << 20, '\0'), GetParam());
  ASSERT_LT(bomb.size(), 300'000u);
  EXPECT_TRUE(absl::IsResourceExhausted(Try({grpc::Slice(bomb)}).status()));
  EXPECT_LE(charged_, kMost + (64 << 10));
}

TEST_P(InflateTest, MemoryIsAskedForBeforeItIsTaken) {
  budget_ = 200 << 10;
  EXPECT_EQ(Try({grpc::Slice(Deflated(Some(500'000), GetParam()))}).status(), absl::ResourceExhaustedError("no memory"));
  EXPECT_LT(charged_, 2 * budget_ + (64 << 10));
}

TEST_P(InflateTest, WhatIsNotWholeIsDamaged) {
  const std::string packed = Deflated(Some(10'000), GetParam());
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5}, packed.size() / 2, packed.size() - 1}) {
    ExpectDamaged(packed.substr(0, size));
  }
}

TEST_P(InflateTest, WhatIsNotCompressedIsDamaged) {
  ExpectDamaged("not compressed at all");
  ExpectDamaged(std::string(1000, '\0'));
  ExpectDamaged(std::string(1000, '\xff'));
  ExpectDamaged(Deflated(Some(1000), GetParam() == Encoding::kGzip ? Encoding::kDeflate : Encoding::kGzip));
}

TEST_P(InflateTest, AChangedByteIsFound) {
  const std::string packed = Deflated(Some(300), GetParam());
  // The header of gzip has a time and a system that nobody checks.
  for (size_t i = 10; i < packed.size(); ++i) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(Try({grpc::Slice(damaged)}).ok()) << i;
  }
}

TEST_P(InflateTest, NothingFollowsTheEnd) {
  const std::string packed = Deflated("once", GetParam());
  ExpectDamaged(packed + "x");
  ExpectDamaged(packed + packed);
  Slices with_nothing = Cut(packed, 3);
  with_nothing.emplace_back("");
  EXPECT_TRUE(Try(with_nothing).ok());
}

TEST(InflateNothingTest, AMessageThatIsNotCompressedIsItself) {
  const absl::StatusOr<Slices> got = Inflate(Cut("as it is", 3), Encoding::kNone, /*most_bytes=*/1, absl::OkStatus(),
                                             [](int64_t) { return absl::InternalError("nobody asks"); });
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(Text(*got), "as it is");
}

}  // namespace
}  // namespace gluond::server
