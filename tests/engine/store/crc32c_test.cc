#include "engine/store/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace gluond {
namespace {

// RFC 3720, B.4.
TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising.push_back(c);
  EXPECT_EQ(Crc32c(rising), 0x46DD794Eu);
}

TEST(Crc32c, GoesOnWhereItEnded) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), Crc32c(text));
  }
}

// By the definition, a bit at a time.
uint32_t Slow(const std::string& text) {
  uint32_t crc = ~0u;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, IsItsDefinitionAtEveryLength) {
  std::string text(3 * 3 * 2048 + 100, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i * 7919 >> 5);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{6143}, size_t{6144}, size_t{6145},
                            size_t{12287}, size_t{12288}, text.size()}) {
    EXPECT_EQ(Crc32c(text.substr(0, size)), Slow(text.substr(0, size))) << size;
    EXPECT_EQ(Crc32c(text.substr(text.size() - size)), Slow(text.substr(text.size() - size))) << size;
  }
}

}  // namespace
}  // namespace gluond
