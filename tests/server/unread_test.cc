// Bytes that were received and given to nobody are charged, and the peer that keeps most of them is named.

#include "server/net/grpc_1_51/unread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace gluond::server {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kMiB = 1 << 20;

class UnreadTest : public testing::Test {
 protected:
  std::vector<std::string> Look(const std::vector<Unread::Connection>& connections) {
    return unread_.Look(connections, now_ += milliseconds(50));
  }

  const std::shared_ptr<Budget> memory_ = std::make_shared<Budget>("memory", 400 * kMiB, "--max_memory_bytes");
  Unread unread_{memory_, 100 * kMiB};
  Unread::Clock::time_point now_ = Unread::Clock::now();
};

TEST_F(UnreadTest, WhatIsNotGivenIsCharged) {
  EXPECT_THAT(Look({{"a", 30 * kMiB, 0, 0}, {"b", 40 * kMiB, 0, 39 * kMiB}}), IsEmpty());
  EXPECT_NEAR(static_cast<double>(unread_.bytes()), 31 * kMiB, 64 << 10);
  EXPECT_GE(memory_->used(), unread_.bytes());
  EXPECT_THAT(Look({{"a", 30 * kMiB, 0, 30 * kMiB}}), IsEmpty());
  EXPECT_EQ(unread_.bytes(), 0);
  EXPECT_LT(memory_->used(), 2 * kMiB);
}

TEST_F(UnreadTest, WhoHasKeptMostForLongestIsEnded) {
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Look({{"a", 40 * kMiB, 0, 0}, {"b", 5 * kMiB, 0, 0}}), IsEmpty());
  EXPECT_THAT(Look({{"a", 40 * kMiB, 0, 0}, {"b", 5 * kMiB, 0, 0}, {"c", 50 * kMiB, 0, 0}}), IsEmpty());
  EXPECT_THAT(Look({{"a", 40 * kMiB, 0, 0}, {"b", 5 * kMiB, 0, 0}, {"c", 60 * kMiB, 0, 0}}), ElementsAre("a"));
  EXPECT_THAT(Look({{"b", 5 * kMiB, 0, 0}, {"c", 60 * kMiB, 0, 0}}), IsEmpty());
}

TEST_F(UnreadTest, SmallMessagesInBetweenDoNotHelpWhoKeeps) {
  int64_t given = 0;
  std::vector<std::string> ended;
  for (int i = 0; i < 40; ++i) {
    given += 2000;
    ended = Look({{"keeper", 60 * kMiB + given, 0, given}});
    EXPECT_THAT(ended, IsEmpty());
  }
  EXPECT_THAT(Look({{"keeper", 60 * kMiB, 0, 0}, {"uploader", 55 * kMiB, 0, 0}}), ElementsAre("keeper"));
}

TEST_F(UnreadTest, WhereOthersUseTheMemoryALittleIsLeft) {
  ASSERT_TRUE(memory_->Charge(390 * kMiB).ok());
  EXPECT_THAT(Look({{"a", 8 * kMiB, 0, 0}}), IsEmpty());
  EXPECT_THAT(Look({{"a", 8 * kMiB, 0, 0}, {"b", 30 * kMiB, 0, 0}}), ElementsAre("b"));
  memory_->Refund(390 * kMiB);
}

TEST_F(UnreadTest, AnEstimateIsNoCreditForLater) {
  for (int64_t i = 1; i <= 100; ++i) EXPECT_THAT(Look({{"a", i * kMiB, 0, 3 * i * kMiB}}), IsEmpty());
  EXPECT_THAT(Look({{"a", 100 * kMiB + 110 * kMiB, 0, 300 * kMiB}}), ElementsAre("a"));
}

TEST_F(UnreadTest, APeerThatWasForgottenAndComesAgainKeepsNothing) {
  for (int64_t i = 1; i <= 20; ++i) {
    EXPECT_THAT(Look({{"a", 60 * i * kMiB, 0, 60 * kMiB}}), IsEmpty());
    EXPECT_THAT(Look({{"a", 60 * i * kMiB, 0, 0}}), IsEmpty());
    EXPECT_LT(unread_.bytes(), kMiB);
  }
}

TEST_F(UnreadTest, BytesOfCallsThatAreOverCountForNothing) {
  int64_t received = 0;
  for (int i = 0; i < 100; ++i) {
    received += 40 * kMiB;
    EXPECT_THAT(Look({{"proxy", received, 0, 0, true}}), IsEmpty());
    EXPECT_LE(unread_.bytes(), 41 * kMiB) << "those since the last look but one";
  }
  EXPECT_THAT(Look({{"proxy", received, 0, 0, true}}), IsEmpty());
  EXPECT_THAT(Look({{"proxy", received, 0, 0, true}}), IsEmpty());
  EXPECT_LT(unread_.bytes(), kMiB);
}

TEST_F(UnreadTest, BytesThatACallKeepsCountAsLongAsItIsThere) {
  EXPECT_THAT(Look({{"keeper", 0, 0, 0, true}}), IsEmpty());
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Look({{"keeper", 60 * kMiB, 0, 0, false}}), IsEmpty());
  EXPECT_NEAR(static_cast<double>(unread_.bytes()), 60 * kMiB, 2 * kMiB);
  EXPECT_THAT(Look({{"keeper", 60 * kMiB, 0, 0, false}, {"other", 55 * kMiB, 0, 0, true}}), ElementsAre("keeper"));
}

TEST_F(UnreadTest, WhatComesBesideMessagesIsForgotten) {
  // Pings, health checks and windows of a connection that lives for a day.
  int64_t received = 0;
  for (int i = 0; i < 24 * 3600 * 20; i += 200) {
    received += 200 * 1000;
    now_ += milliseconds(50 * 199);
    ASSERT_THAT(Look({{"a", received, 0, 0}}), IsEmpty());
    ASSERT_LT(unread_.bytes(), kMiB);
  }
}

}  // namespace
}  // namespace gluond::server
