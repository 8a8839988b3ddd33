// VersionTable by itself: which version a request gets, and what publishing, retiring and declaring leave. No version is computed.

#include "server/serving/version_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "server/serving/names.h"
#include "server/serving/place_of_id.h"

namespace gluond::server {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMost = 5;

class VersionTableTest : public testing::Test {
 protected:
  // Stands for the version with that number, which only its address tells. The table asks it nothing.
  ServedVersionPtr Served(int64_t number) {
    return {std::shared_ptr<void>(), reinterpret_cast<ServedVersion*>(&places_[static_cast<size_t>(number)])};
  }
  int64_t NumberOf(const ServedVersionPtr& served) { return reinterpret_cast<char*>(served.get()) - places_.data(); }
  std::vector<int64_t> NumbersOf(const absl::StatusOr<std::vector<ServedVersionPtr>>& versions) {
    EXPECT_TRUE(versions.ok()) << versions.status();
    std::vector<int64_t> numbers;
    for (const ServedVersionPtr& each : *versions) numbers.push_back(NumberOf(each));
    return numbers;
  }
  // Begins to publish; the labels are the new version's.
  absl::StatusOr<VersionTable::Reserved> Reserve(const std::string& name = "m", const std::vector<std::string>& labels = {}) {
    auto reserved = table_.Reserve(name, {}, labels);
    if (reserved.ok()) table_.SetServed(name, reserved->number, Served(reserved->number));
    return reserved;
  }
  int64_t Publish(const std::string& name = "m", const std::vector<std::string>& labels = {}) {
    const auto reserved = Reserve(name, labels);
    EXPECT_TRUE(reserved.ok()) << reserved.status();
    // A version that is described has to be a real one.
    table_.SetServed(name, reserved->number, nullptr);
    EXPECT_TRUE(table_.EndPublish(name, *reserved, absl::OkStatus()).ok());
    table_.SetServed(name, reserved->number, Served(reserved->number));
    return reserved->number;
  }
  void Route(const VersionTable::Change& change) {
    auto routes = table_.PlanRoutes("m", change);
    ASSERT_TRUE(routes.ok()) << routes.status();
    table_.SetRoutes("m", *std::move(routes));
  }
  void Retire(int64_t number, const std::string& name = "m") {
    ASSERT_TRUE(table_.BeginRetire(name, number, std::nullopt).ok());
    EXPECT_EQ(NumberOf(*table_.EndRetire(name, number, absl::OkStatus())), number);
    table_.Erase(name, number);
    if (table_.RetireName(name).has_value()) table_.EraseName(name);
  }
  // The number of the version that a request gets; 0: none.
  int64_t Chosen(const std::string& version = "", std::optional<absl::string_view> id = std::nullopt) {
    const absl::StatusOr<ServedVersionPtr> chosen = table_.Choose("m", version, id);
    return chosen.ok() ? NumberOf(*chosen) : 0;
  }
  absl::Status Refusal(const std::string& version = "") { return table_.Choose("m", version, std::nullopt).status(); }
  // A declared model "m" of these versions, each of a checkpoint with that revision.
  VersionTable::Models Wanted(const std::map<int64_t, std::string>& revisions) {
    VersionTable::Models wanted;
    wanted["m"].is_declared = true;
    for (const auto& [number, revision] : revisions) {
      wanted["m"].versions[number].state = v1::ServedVersion::READY;
      wanted["m"].versions[number].revision = revision;
    }
    return wanted;
  }

  Tenants tenants_;
  VersionTable table_{kMost, tenants_, /*is_stored=*/true};
  std::array<char, 100> places_ = {};
};

TEST_F(VersionTableTest, ARequestNamesANumberOrALabel) {
  EXPECT_EQ(Publish(), 1);
  EXPECT_EQ(Publish("m", {"canary"}), 2);
  EXPECT_EQ(Chosen("1"), 1);
  EXPECT_EQ(Chosen("canary"), 2);
  EXPECT_EQ(Refusal("01").code(), StatusCode::kNotFound) << "no label, and no number as answers tell it";
  EXPECT_EQ(Refusal("3").message(), "'m' has no version '3'; there are 1, 2, canary");
  EXPECT_THAT(table_.Choose("n", "", std::nullopt).status().message(), HasSubstr("no model is served as 'n'"));
  Route({.labels = {{"canary", 1}}, .weights = {}, .expected_etag = {}});
  EXPECT_EQ(Chosen("canary"), 1);
}

TEST_F(VersionTableTest, ARequestThatNamesNoVersionGetsTheStableOneOrTheHighestThatIsReady) {
  Publish();
  Publish();
  const auto third = Reserve();
  EXPECT_EQ(Chosen(), 2);
  EXPECT_EQ(Refusal("3").code(), StatusCode::kUnavailable) << "it is being loaded";
  Route({.labels = {{"stable", 1}}, .weights = {}, .expected_etag = {}});
  EXPECT_EQ(Chosen(), 1);
  table_.SetLoaded("m", 1, absl::ResourceExhaustedError("no memory"));
  EXPECT_EQ(Refusal().message(), "version 1 of 'm' is UNAVAILABLE: no memory") << "another is not the stable one";
}

TEST_F(VersionTableTest, WeightsSplitRequestsAndAnIdStays) {
  Publish("m", {"stable"});
  Publish();
  Route({.labels = {}, .weights = {{1, 3}, {2, 1}}, .expected_etag = {}});
  std::map<int64_t, int> count, nameless;
  for (int i = 0; i < 4000; ++i) {
    const std::string id = absl::StrCat("user-", i);
    const int64_t chosen = Chosen("", id);
    EXPECT_EQ(chosen, PlaceOfId(id) % 4 < 3 ? 1 : 2) << id;
    ++count[chosen];
    ++nameless[Chosen("", "")];
  }
  EXPECT_NEAR(count[2], 1000, 100);
  EXPECT_NEAR(nameless[2], 1000, 100);
  EXPECT_EQ(Chosen(), 1) << "who has no id, as a question about the model, gets the stable one";
  EXPECT_EQ(Chosen("2", "user-1"), 2);
  EXPECT_EQ(table_.BeginRetire("m", 2, std::nullopt).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(table_.PlanRoutes("m", {.labels = {}, .weights = {{1, 0}}, .expected_etag = {}}).status().code(),
            StatusCode::kInvalidArgument);
  Route({.labels = {}, .weights = {}, .clear_weights = true, .expected_etag = {}});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Chosen("", absl::StrCat("user-", i)), 1);
}

TEST_F(VersionTableTest, LostRoutesAreAskedFor) {
  VersionIndex index;
  index.next = 8;
  index.versions[7] = {};
  index.routes.are_lost = true;
  table_.Add("m", index, absl::OkStatus());
  table_.SetLoaded("m", 7, Served(7));
  EXPECT_EQ(Chosen("7"), 7);
  EXPECT_THAT(Refusal().message(), HasSubstr("set the label `stable` or weights again"));
  Route({.labels = {{"stable", 7}}, .weights = {}, .expected_etag = {}});
  EXPECT_EQ(Chosen(), 7);
  EXPECT_EQ(Publish(), 8);
}

TEST_F(VersionTableTest, ANumberIsUsedOnce) {
  Publish("m", {"stable"});
  EXPECT_EQ(Publish(), 2);
  EXPECT_EQ(table_.BeginRetire("m", 1, std::nullopt).status().message(),
            "version 1 of 'm' has the label 'stable'; give it to another version first (RouteVersions)");
  ASSERT_TRUE(table_.BeginRetire("m", 2, std::nullopt).ok());
  EXPECT_EQ(Chosen("2"), 0);
  EXPECT_EQ(table_.NextIndex("m", {}).versions.size(), 1u);
  EXPECT_EQ(table_.EndRetire("m", 2, absl::DataLossError("the disk")).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(Chosen("2"), 2) << "its index still has it";
  Retire(2);
  EXPECT_EQ(Refusal("2").code(), StatusCode::kNotFound);
  EXPECT_EQ(Publish(), 3);
  Route({.labels = {{"stable", 0}}, .weights = {}, .expected_etag = {}});
  Retire(3);
  Retire(1);
  EXPECT_FALSE(table_.Has("m"));
  EXPECT_EQ(Publish(), 4);
}

TEST_F(VersionTableTest, APublicationThatFailsLeavesNoTrace) {
  const auto reserved = Reserve("m", {"stable"});
  EXPECT_EQ(table_.EndPublish("m", *reserved, absl::DataLossError("the disk")).status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(table_.Has("m"));
  EXPECT_EQ(Publish(), 1);
  EXPECT_EQ(Refusal("stable").code(), StatusCode::kNotFound);
  std::vector<std::string> labels;
  for (size_t i = 0; i <= kMostLabels; ++i) labels.push_back(absl::StrCat("l", i));
  EXPECT_EQ(Reserve("m", labels).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Publish(), 2);
  for (int64_t i = 2; i < kMost; ++i) Publish();
  EXPECT_EQ(Reserve().status().code(), StatusCode::kResourceExhausted);
}

TEST_F(VersionTableTest, AChangeIsRefusedToWhoSawAnotherState) {
  Publish();
  table_.SetServed("m", 1, nullptr);
  const std::string seen = table_.List("m")[0].etag();
  EXPECT_TRUE(table_.PlanRoutes("m", {.labels = {}, .weights = {}, .expected_etag = seen}).ok());
  table_.NextIndex("m", {});
  EXPECT_EQ(table_.PlanRoutes("m", {.labels = {}, .weights = {}, .expected_etag = seen}).status().code(), StatusCode::kAborted);
  EXPECT_EQ(table_.BeginRetire("m", 1, seen).status().code(), StatusCode::kAborted);
}

TEST_F(VersionTableTest, ADeclarationReplacesTheOneBefore) {
  VersionTable::Models first = Wanted({{1, "a"}, {2, "b"}, {3, "c"}});
  for (auto& [number, version] : first["m"].versions) version.served = Served(number);
  EXPECT_THAT(NumbersOf(table_.Replace(std::move(first))), ElementsAre());
  absl::StatusOr<VersionTable::Models> planned = table_.Plan(Wanted({{2, "b"}, {3, "changed"}}));
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(NumberOf((*planned)["m"].versions[2].served), 2) << "it goes on";
  EXPECT_TRUE((*planned)["m"].versions[3].served == nullptr) << "it is to be made";
  EXPECT_EQ(Chosen("1"), 1) << "nothing is replaced yet";
  (*planned)["m"].versions[3].served = Served(30);
  EXPECT_THAT(NumbersOf(table_.Replace(*std::move(planned))), ElementsAre(1, 3));
  EXPECT_EQ(Chosen("1"), 0);
  EXPECT_EQ(Chosen("2"), 2);
  EXPECT_EQ(Chosen("3"), 30);
  EXPECT_THAT(Reserve().status().message(), HasSubstr("'m' is declared in the server's file --serve"));
  EXPECT_THAT(NumbersOf(table_.Replace({})), ElementsAre(2, 30));
  EXPECT_FALSE(table_.Has("m"));
}

TEST_F(VersionTableTest, ADeclarationLeavesAloneWhatIsPublished) {
  Publish();
  EXPECT_EQ(table_.Plan(Wanted({{1, "a"}})).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(table_.Replace(Wanted({{1, "a"}})).status().code(), StatusCode::kFailedPrecondition);
  VersionTable::Models many;
  many["n"] = Wanted({{1, ""}, {2, ""}, {3, ""}, {4, ""}, {5, ""}})["m"];
  EXPECT_EQ(table_.Plan(many).status().code(), StatusCode::kResourceExhausted);
  many["n"].versions.erase(5);
  EXPECT_TRUE(table_.Plan(many).ok());
  EXPECT_THAT(NumbersOf(table_.Replace({})), ElementsAre());
  EXPECT_EQ(Chosen(), 1);
}

TEST_F(VersionTableTest, WhatIsUnloadedIsLoadedAgainUnlessItIsRetired) {
  Publish();
  Publish();
  EXPECT_EQ(table_.BeginUnload("m")->size(), 2u);
  table_.EndUnload("m", 1, Served(1).get());
  EXPECT_EQ(Refusal("1").message(), "version 1 of 'm' is UNAVAILABLE: it was unloaded");
  EXPECT_EQ(Refusal("2").message(), "version 2 of 'm' is UNLOADING");
  ASSERT_TRUE(table_.BeginRetire("m", 2, std::nullopt).ok());
  table_.EndUnload("m", 2, Served(2).get());
  EXPECT_EQ(NumberOf(*table_.EndRetire("m", 2, absl::OkStatus())), 2) << "whoever retires it waits for it";
  EXPECT_EQ(table_.BeginLoad("m")->size(), 1u);
  table_.EndUnload("m", 1, nullptr);
  EXPECT_EQ(Refusal("1").message(), "version 1 of 'm' is being loaded; try again in a moment");
  table_.SetLoaded("m", 1, Served(10));
  EXPECT_EQ(Chosen("1"), 10);
  EXPECT_EQ(table_.BeginUnload("m")->size(), 1u);
  table_.EndUnload("m", 1, Served(1).get());
  EXPECT_EQ(Refusal("1").message(), "version 1 of 'm' is UNLOADING") << "another was drained";
}

TEST_F(VersionTableTest, WhatIsPublishedIsWhatTheIndicesHave) {
  Publish();
  Publish("m", {"stable"});
  Publish("gone");
  Retire(1, "gone");
  const auto reserved = Reserve();
  ASSERT_TRUE(reserved.ok());
  VersionTable::Indices published = table_.Published();
  EXPECT_EQ(published.size(), 2u);
  EXPECT_EQ(published["m"].versions.size(), 2u);
  EXPECT_EQ(published["m"].next, 3) << "version 3 is not published yet";
  EXPECT_EQ(published["m"].routes.labels.at("stable"), 2);
  EXPECT_TRUE(published["gone"].versions.empty());
  EXPECT_EQ(published["gone"].next, 2);
  EXPECT_FALSE(table_.EndPublish("m", *reserved, absl::CancelledError()).ok());
  EXPECT_EQ(table_.Published()["m"].next, 3);
  ASSERT_TRUE(table_.BeginRetire("m", 1, std::nullopt).ok());
  EXPECT_FALSE(table_.Published()["m"].versions.contains(1));
  VersionTable::Models declared;
  declared["d"] = Wanted({{1, "a"}})["m"];
  EXPECT_TRUE(table_.Replace(std::move(declared)).ok());
  EXPECT_FALSE(table_.Published().contains("d"));
}

TEST_F(VersionTableTest, ANameWhoseIndexOrRoutesAreLostIsNotAmongThePublished) {
  table_.Add("damaged", {}, absl::DataLossError("damaged"));
  table_.Add("lost", {2, 1, {{1, {}}}, {.labels = {}, .weights = {}, .are_lost = true}}, absl::OkStatus());
  EXPECT_TRUE(table_.Published().empty());
}

TEST_F(VersionTableTest, ALeadersNumberIsTaken) {
  const auto reserve = [this](int64_t number) { return table_.Reserve("m", {}, {}, number); };
  const auto seventh = reserve(7);
  ASSERT_TRUE(seventh.ok());
  EXPECT_TRUE(table_.EndPublish("m", *seventh, absl::OkStatus()).ok());
  EXPECT_EQ(reserve(7).status().code(), StatusCode::kAlreadyExists);
  const auto third = reserve(3);
  ASSERT_TRUE(third.ok());
  EXPECT_FALSE(table_.EndPublish("m", *third, absl::ResourceExhaustedError("the store is full")).ok());
  EXPECT_EQ(table_.Published()["m"].next, 8) << "a lower number that is not kept takes no number back";
  EXPECT_TRUE(table_.RaiseNext("m", 12).ok());
  EXPECT_TRUE(table_.RaiseNext("m", 5).ok());
  EXPECT_EQ(Reserve()->number, 12);
  EXPECT_EQ(table_.RaiseNext("none", 2).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace gluond::server
