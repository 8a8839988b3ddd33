#include "server/rpc/trace_context.h"

#include <string>

#include "gtest/gtest.h"

namespace gluond::server {
namespace {

constexpr char kGood[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(RequestIdTest, IsPrintableAndShort) {
  EXPECT_TRUE(IsRequestId("a"));
  EXPECT_TRUE(IsRequestId(std::string(128, '~')));
  for (const std::string bad : {"", "a b", "a\n", "\xc3\xa4", "a\x7f"}) EXPECT_FALSE(IsRequestId(bad)) << bad;
  EXPECT_FALSE(IsRequestId(std::string(129, 'a')));
}

TEST(RequestIdTest, NewOnesDiffer) {
  EXPECT_TRUE(IsRequestId(NewRequestId()));
  EXPECT_NE(NewRequestId(), NewRequestId());
}

TEST(RequestIdTest, TraceparentIsAsTheStandardSays) {
  EXPECT_TRUE(IsTraceparent(kGood));
  EXPECT_TRUE(IsTraceparent("cc" + std::string(kGood).substr(2) + "-more")) << "a version to come";
  const std::string good = kGood;
  EXPECT_FALSE(IsTraceparent(""));
  EXPECT_FALSE(IsTraceparent(good.substr(0, 54)));
  EXPECT_FALSE(IsTraceparent(good + "-more"));
  EXPECT_FALSE(IsTraceparent("ff" + good.substr(2)));
  EXPECT_FALSE(IsTraceparent("cc" + good.substr(2) + "-m\"re\n"));
  EXPECT_FALSE(IsTraceparent("cc" + good.substr(2) + "-" + std::string(1000, 'a')));
  EXPECT_FALSE(IsTraceparent("00-" + std::string(32, '0') + good.substr(35)));
  EXPECT_FALSE(IsTraceparent(good.substr(0, 36) + std::string(16, '0') + "-01"));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = 'X';
    EXPECT_FALSE(IsTraceparent(bad)) << bad;
  }
}

}  // namespace
}  // namespace gluond::server
