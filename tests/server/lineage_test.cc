// Lineage: a server that follows itself, directly or by others, is told so.

#include "server/serving/lineage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gluond::server {
namespace {

using testing::HasSubstr;

TEST(LineageTest, AServerFindsItselfInItsLeadersLine) {
  Lineage first(/*follows=*/true), second(true), third(true), leader(false);
  EXPECT_TRUE(third.SetLeader(leader.Line()).ok());
  EXPECT_TRUE(second.SetLeader(third.Line()).ok());
  EXPECT_TRUE(first.SetLeader(second.Line()).ok());
  EXPECT_EQ(first.Line().size(), 4u);
  EXPECT_EQ(first.Line().back(), leader.Line().front());
  const absl::Status by_others = third.SetLeader(first.Line()), itself = third.SetLeader(third.Line());
  EXPECT_EQ(by_others.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(by_others.message(), HasSubstr("nobody leads"));
  EXPECT_THAT(itself.message(), HasSubstr("follows itself"));
  EXPECT_TRUE(third.SetLeader({}).ok()) << "an older leader tells none";
}

TEST(LineageTest, AllServersOfALoopHearOfIt) {
  Lineage first(/*follows=*/true), second(true);
  EXPECT_TRUE(first.SetLeader(second.Line()).ok());
  EXPECT_FALSE(second.SetLeader(first.Line()).ok());
  EXPECT_FALSE(first.SetLeader(second.Line()).ok());
}

TEST(LineageTest, ALineHasAnEnd) {
  Lineage follower(/*follows=*/true);
  EXPECT_TRUE(follower.SetLeader(std::vector<uint64_t>(Lineage::kMost, 1)).ok());
  EXPECT_FALSE(follower.SetLeader(std::vector<uint64_t>(Lineage::kMost + 1, 1)).ok());
}

}  // namespace
}  // namespace gluond::server
