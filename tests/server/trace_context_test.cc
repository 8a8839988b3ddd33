// TraceContext: a call is a span of its client's trace, or of a new one.

#include "server/rpc/trace_context.h"

#include <string>

#include "gtest/gtest.h"

namespace gluond::server {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736", kParent[] = "00f067aa0ba902b7";

std::string Parent(const std::string& flags, const std::string& version = "00") {
  return version + "-" + kTrace + "-" + kParent + "-" + flags;
}

TEST(TraceContextTest, TheCallIsANewSpanOfTheClientsTrace) {
  const TraceContext one(Parent("01")), two(Parent("01"));
  EXPECT_EQ(one.trace(), kTrace);
  EXPECT_EQ(one.parent(), kParent);
  EXPECT_NE(one.span(), kParent);
  EXPECT_NE(one.span(), two.span());
  EXPECT_EQ(one.ToTraceparent(), "00-" + std::string(kTrace) + "-" + std::string(one.span()) + "-01");
  EXPECT_TRUE(IsTraceparent(one.ToTraceparent()));
}

TEST(TraceContextTest, OfTheFlagsItKnowsOne) {
  for (const auto& [flags, expected] : {std::pair("00", "-00"), {"02", "-00"}, {"03", "-01"}, {"0f", "-01"}, {"fe", "-00"}}) {
    const std::string given = TraceContext(Parent(flags)).ToTraceparent();
    EXPECT_EQ(given.substr(given.size() - 3), expected) << flags;
  }
}

TEST(TraceContextTest, AVersionToComeIsAnsweredInThisOne) {
  const TraceContext trace(Parent("01-more", "cc"));
  EXPECT_EQ(trace.trace(), kTrace);
  EXPECT_EQ(trace.ToTraceparent().substr(0, 3), "00-");
}

TEST(TraceContextTest, AMalformedOneBeginsANewTrace) {
  for (const std::string& bad : {std::string(), std::string("nonsense"), Parent("1"), Parent("01", "ff"), Parent("01") + "x"}) {
    const TraceContext trace(bad), other(bad);
    EXPECT_EQ(trace.parent(), "") << bad;
    EXPECT_NE(trace.trace(), kTrace) << bad;
    EXPECT_NE(trace.trace(), other.trace()) << bad;
    EXPECT_TRUE(IsTraceparent(trace.ToTraceparent())) << trace.ToTraceparent();
    EXPECT_EQ(trace.ToTraceparent().substr(52), "-00") << bad;
  }
}

}  // namespace
}  // namespace gluond::server
