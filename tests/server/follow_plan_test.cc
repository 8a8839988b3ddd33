// FollowPlan by itself: what a follower does next, whatever the leader says and whatever fails. Nothing is fetched.

#include "server/follow/follow_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using Published = VersionTable::Indices;

const absl::Status kFull = absl::ResourceExhaustedError("the store is full");
const absl::Status kNoSuchOperator = absl::NotFoundError("no such operator");

// A name's index: versions with the checksums 100, 101, ... by their numbers.
VersionIndex Index(const std::vector<int64_t>& numbers, int64_t next, Routes routes = {}) {
  VersionIndex index{next, 0, {}, std::move(routes)};
  for (const int64_t number : numbers) index.versions[number].checksum = static_cast<uint32_t>(100 + number);
  return index;
}

std::string TextOf(const FollowStep& step) {
  const char* const kinds[] = {"nothing", "fetch", "route", "drop"};
  return absl::StrCat(kinds[step.kind], " ", step.name, step.number == 0 ? "" : absl::StrCat(" ", step.number));
}

class FollowPlanTest : public testing::Test {
 protected:
  // Does what the plan says, until it says nothing more. Fetches of versions in `failing` fail.
  std::vector<std::string> Follow() {
    std::vector<std::string> steps;
    for (FollowStep step = plan_.Next(own_, now_); step.kind != FollowStep::kNothing; step = plan_.Next(own_, now_)) {
      steps.push_back(TextOf(step));
      const auto failure = failing_.find(step.kind == FollowStep::kFetch ? step.number : 0);
      const absl::Status done = failure == failing_.end() ? absl::OkStatus() : failure->second;
      if (done.ok()) Apply(step);
      plan_.Ended(step, done, now_);
      EXPECT_LT(steps.size(), 50u) << "the plan comes to no end";
      if (steps.size() >= 50) break;
    }
    return steps;
  }
  void Apply(const FollowStep& step) {
    VersionIndex& mine = own_[step.name];
    switch (step.kind) {
      case FollowStep::kFetch:
        mine.versions[step.number] = step.facts;
        mine.next = std::max(mine.next, step.number + 1);
        break;
      case FollowStep::kRoute:
        mine.routes = step.routes;
        mine.next = step.next;
        break;
      default:
        for (const auto& [label, number] : mine.routes.labels) EXPECT_NE(number, step.number) << label;
        EXPECT_FALSE(mine.routes.weights.contains(step.number));
        mine.versions.erase(step.number);
    }
  }

  FollowPlan plan_;
  Published own_;
  FollowPlan::Time now_;
  std::map<int64_t, absl::Status> failing_;  // By version; 0: routes and drops.
};

TEST_F(FollowPlanTest, VersionsComeBeforeRoutesAndRetiredOnesLeaveLast) {
  plan_.Hear({{"m", Index({1}, 2, {.labels = {{"stable", 1}}, .weights = {}})}});
  EXPECT_THAT(Follow(), ElementsAre("fetch m 1", "route m"));
  plan_.Hear({{"m", Index({2, 3}, 4, {.labels = {{"stable", 3}}, .weights = {{2, 1}, {3, 9}}})}});
  EXPECT_THAT(Follow(), ElementsAre("fetch m 2", "fetch m 3", "route m", "drop m 1"));
  EXPECT_EQ(own_["m"].routes.labels.at("stable"), 3);
  EXPECT_EQ(own_["m"].next, 4);
  EXPECT_EQ(plan_.Behind(own_), 0);
  EXPECT_THAT(Follow(), IsEmpty());
  plan_.Hear({{"m", Index({2, 3}, 9, own_["m"].routes)}});  // Versions that came and went meanwhile have had their numbers.
  EXPECT_THAT(Follow(), ElementsAre("route m"));
  EXPECT_EQ(own_["m"].next, 9);
}

TEST_F(FollowPlanTest, AVersionThatCannotBeFetchedLeavesAllAsItWas) {
  plan_.Hear({{"m", Index({1}, 2, {.labels = {{"stable", 1}, {"old", 1}}, .weights = {}})}});
  Follow();
  failing_[2] = kFull;
  plan_.Hear({{"m", Index({2}, 3, {.labels = {{"stable", 2}}, .weights = {{2, 1}}})}, {"n", Index({7}, 8)}});
  EXPECT_THAT(Follow(), ElementsAre("fetch m 2", "route m", "fetch n 7"));
  EXPECT_EQ(own_["m"].routes.labels, (std::map<std::string, int64_t>{{"stable", 1}}));
  EXPECT_THAT(own_["m"].routes.weights, IsEmpty());
  EXPECT_TRUE(own_["m"].versions.contains(1));
  EXPECT_EQ(plan_.Behind(own_), 1);
  failing_.clear();
  now_ += seconds(1);
  EXPECT_THAT(Follow(), ElementsAre("fetch m 2", "route m", "drop m 1"));
}

TEST_F(FollowPlanTest, ARetiredVersionThatNothingNeedsMakesRoomForOneThatLacksIt) {
  own_["m"] = Index({1, 2}, 3, {.labels = {{"stable", 2}}, .weights = {}});
  failing_[4] = kFull;
  plan_.Hear({{"m", Index({4}, 5, {.labels = {{"stable", 4}}, .weights = {}})}});
  EXPECT_THAT(Follow(), ElementsAre("fetch m 4", "route m", "drop m 1", "fetch m 4"));
  EXPECT_THAT(Follow(), IsEmpty());
  EXPECT_EQ(own_["m"].routes.labels.at("stable"), 2);
  failing_.clear();
  now_ += seconds(2);
  EXPECT_THAT(Follow(), ElementsAre("fetch m 4", "route m", "drop m 2"));
}

TEST_F(FollowPlanTest, AVersionThatNeverComesKeepsNoRetiredOneOfItsName) {
  plan_.Hear({{"m", Index({1}, 2, {.labels = {{"stable", 1}}, .weights = {}})}});
  Follow();
  failing_[2] = kNoSuchOperator;
  for (int64_t number = 3; number < 6; ++number) {
    plan_.Hear({{"m", Index({2, number}, number + 1, {.labels = {{"canary", 2}, {"stable", number}}, .weights = {}})}});
    Follow();
    EXPECT_EQ(own_["m"].versions.size(), 1u);
    EXPECT_EQ(own_["m"].routes.labels, (std::map<std::string, int64_t>{{"stable", number}}));
  }
}

TEST_F(FollowPlanTest, AFetchThatLacksRoomWaitsForTheDropsOfAllNames) {
  failing_[7] = kFull;
  plan_.Hear({{"m", Index({7}, 8)}});
  EXPECT_THAT(Follow(), ElementsAre("fetch m 7"));
  own_["n"] = Index({1, 2}, 3, {.labels = {{"stable", 1}}, .weights = {}});
  plan_.Hear({{"m", Index({7}, 8)}, {"n", Index({2}, 3, {.labels = {{"stable", 2}}, .weights = {}})}});
  now_ += seconds(1);
  failing_.clear();
  EXPECT_THAT(Follow(), ElementsAre("route n", "drop n 1", "fetch m 7"));
}

TEST_F(FollowPlanTest, RetiredVersionsThatRequestsMayGetStay) {
  const Routes weighted = {.labels = {{"stable", 2}}, .weights = {{1, 1}, {2, 9}}};
  own_ = {{"highest", Index({1, 2}, 3)}, {"weights", Index({1, 2}, 3, weighted)}};
  failing_[4] = kNoSuchOperator;
  plan_.Hear({{"highest", Index({4}, 5)}, {"weights", Index({4}, 5, {.labels = {{"stable", 4}}, .weights = {{4, 1}}})}});
  EXPECT_THAT(Follow(), ElementsAre("fetch highest 4", "route highest", "drop highest 1", "fetch weights 4", "route weights"));
  EXPECT_EQ(own_["weights"].routes.weights, weighted.weights);
  failing_.clear();
  now_ += seconds(1);
  Follow();
  EXPECT_EQ(own_["highest"].versions.size() + own_["weights"].versions.size(), 2u) << "4 of each";
}

TEST_F(FollowPlanTest, AFailureIsTriedAgainAfterTwiceTheTimeUpToAMinute) {
  failing_[1] = kFull;
  plan_.Hear({{"m", Index({1}, 2)}});
  EXPECT_THAT(Follow(), ElementsAre("fetch m 1"));
  for (const int64_t pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    now_ += seconds(pause) - std::chrono::milliseconds(1);
    EXPECT_THAT(Follow(), IsEmpty()) << pause;
    now_ += std::chrono::milliseconds(1);
    EXPECT_THAT(Follow(), ElementsAre("fetch m 1")) << pause;
  }
  plan_.Hear({{"m", Index({}, 2)}});
  plan_.Hear({{"m", Index({1}, 2)}});  // Another word, another try.
  EXPECT_THAT(Follow(), ElementsAre("fetch m 1"));
}

TEST_F(FollowPlanTest, ARouteOrADropThatFailsWaitsAndKeepsNoOtherNameBack) {
  plan_.Hear({{"m", Index({1}, 2, {.labels = {{"stable", 1}}, .weights = {}})}, {"n", Index({1}, 2)}});
  failing_[0] = kFull;
  EXPECT_THAT(Follow(), ElementsAre("fetch m 1", "route m", "fetch n 1"));
  EXPECT_THAT(Follow(), IsEmpty());
  failing_.clear();
  now_ += seconds(1);
  EXPECT_THAT(Follow(), ElementsAre("route m"));
}

TEST_F(FollowPlanTest, ALeaderThatHasLostItsStoreTakesNothingAway) {
  plan_.Hear({{"m", Index({1, 2}, 3)}});
  Follow();
  plan_.Hear({});
  EXPECT_THAT(Follow(), IsEmpty());
  plan_.Hear({{"m", Index({}, 1)}});
  EXPECT_THAT(Follow(), IsEmpty());
  EXPECT_EQ(own_["m"].versions.size(), 2u);
  plan_.Hear({{"m", Index({}, 3)}});  // A leader that knows these numbers has retired the versions.
  EXPECT_THAT(Follow(), ElementsAre("drop m 1", "drop m 2"));
}

TEST_F(FollowPlanTest, AnotherHistoryOfAVersionIsAConflictAndTheOldOneGoesOn) {
  plan_.Hear({{"m", Index({1}, 2)}});
  Follow();
  Published other = {{"m", Index({1}, 2)}};
  other["m"].versions[1].checksum = 9;
  plan_.Hear(other);
  const FollowStep step = plan_.Next(own_, now_);
  EXPECT_EQ(TextOf(step), "fetch m 1");
  EXPECT_EQ(FollowPlan::Conflict(own_, step).code(), absl::StatusCode::kAlreadyExists);
  plan_.Ended(step, FollowPlan::Conflict(own_, step), now_);
  EXPECT_EQ(plan_.Next(own_, now_).kind, FollowStep::kNothing);
  EXPECT_EQ(plan_.Behind(own_), 1);
  EXPECT_TRUE(FollowPlan::Conflict({}, step).ok());
}

TEST_F(FollowPlanTest, ItHasCaughtUpWhenAllIsHereThatCanBeHere) {
  EXPECT_FALSE(plan_.HasCaughtUp(own_)) << "nobody was heard";
  plan_.Hear({{"m", Index({1, 2}, 3)}});
  EXPECT_FALSE(plan_.HasCaughtUp(own_));
  failing_ = {{1, kFull}, {2, kNoSuchOperator}};
  Follow();
  EXPECT_FALSE(plan_.HasCaughtUp(own_)) << "a full store may have room tomorrow";
  failing_.erase(1);
  now_ += seconds(1);
  Follow();
  EXPECT_TRUE(plan_.HasCaughtUp(own_)) << "no try brings an operator";
  EXPECT_EQ(plan_.Behind(own_), 1);
  FollowPlan empty;
  empty.Hear({});
  EXPECT_TRUE(empty.HasCaughtUp({}));
}

}  // namespace
}  // namespace gluond::server
