#include "client/cpp/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace gluond::client {
namespace {

// RFC 3720, appendix B.4.
TEST(Crc32cTest, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, GoesOnWhereAPartEnded) {
  const std::string whole = "a tensor that travels in several chunks";
  for (size_t cut = 0; cut <= whole.size(); ++cut) {
    EXPECT_EQ(Crc32c(whole.substr(cut), Crc32c(whole.substr(0, cut))), Crc32c(whole));
  }
}

}  // namespace
}  // namespace gluond::client
