#include "server/serving/retired_names.h"

#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

TEST(RetiredNamesTest, EachNameGoesOnWhereItWas) {
  RetiredNames names;
  EXPECT_EQ(names.NextOf("a"), 1);
  names.Add("a", 5);
  EXPECT_EQ(names.NextOf("a"), 5);
  EXPECT_EQ(names.NextOf("b"), 1);
  names.Add("a", 7);
  EXPECT_EQ(names.NextOf("a"), 7);
}

// Names come, are used for a few versions, and go, some of them again and again.
TEST(RetiredNamesTest, NoNumberIsUsedTwiceHoweverManyNamesCome) {
  RetiredNames names;
  std::map<std::string, int64_t> last;
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = i % 3 == 0 ? absl::StrCat("old-", i % 10) : absl::StrCat("run-", i % 7000);
    const int64_t first = names.NextOf(name);
    ASSERT_GT(first, last[name]) << name;
    last[name] = first + i % 3;
    names.Add(name, last[name] + 1);
    ASSERT_LE(names.next.size(), RetiredNames::kMost);
  }
  EXPECT_LT(names.first, 100) << "new names begin low nevertheless";
}

}  // namespace
}  // namespace gluond::server
