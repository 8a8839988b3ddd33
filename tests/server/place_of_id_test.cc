#include "server/serving/place_of_id.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

// Other processes, releases and machines split requests by the same numbers: they never change.
TEST(PlaceOfIdTest, IsTheSameEverywhere) {
  EXPECT_EQ(PlaceOfId(""), 0xf52a15e9a9b5e89b);
  EXPECT_EQ(PlaceOfId("a"), 0x2c0bdbf481420f8u);
  EXPECT_EQ(PlaceOfId("foobar"), 0x404da9e3b74078c2u);
  EXPECT_EQ(PlaceOfId("user-7"), 0x9e124c98a398664e);
  EXPECT_EQ(PlaceOfId("\xc3\xa9"), 0x233403617480019eu) << "bytes above 127 count as such";
}

TEST(PlaceOfIdTest, SplitsIdsByWeights) {
  int first = 0;
  for (int i = 0; i < 10'000; ++i) first += PlaceOfId(absl::StrCat("user-", i)) % 100 < 25;
  EXPECT_EQ(first, 2551);
}

}  // namespace
}  // namespace gluond::server
