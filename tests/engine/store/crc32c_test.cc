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

}  // namespace
}  // namespace gluond
