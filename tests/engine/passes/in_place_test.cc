#include "engine/passes/in_place.h"

#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace gluond {
namespace {

// The call z, w = f(a, b, c): z may lie where a or b does, w where c does.
OpFacts FactsOfACall() {
  OpFacts facts;
  facts.num_outputs = 2;
  facts.in_place = {{0, 0, false}, {1, 0, true}, {2, 1, false}};
  return facts;
}

// The places that the output may have, where input i lies at places[i] (below 0: the output does not fit there).
std::vector<uint32_t> PlacesFor(uint32_t output, const std::vector<int>& places, const std::map<uint32_t, uint32_t>& reads_left,
                                const OpFacts& facts = FactsOfACall()) {
  std::vector<uint32_t> found;
  ForEachPlaceToTakeOver(
      facts, output,
      [&](uint32_t input) { return places[input] < 0 ? std::nullopt : std::optional(static_cast<uint32_t>(places[input])); },
      [&](uint32_t place) { return reads_left.at(place); }, [&](uint32_t place) { found.push_back(place); });
  return found;
}

using Places = std::vector<uint32_t>;

TEST(InPlace, AnOutputTakesOverWhatOnlyItsCallStillReads) {
  EXPECT_EQ(PlacesFor(0, {7, 5, 6}, {{7, 1}, {5, 1}}), (Places{5, 7}));
  EXPECT_EQ(PlacesFor(0, {7, 5, 6}, {{7, 2}, {5, 1}}), Places{5}) << "another call reads 7 later";
  EXPECT_EQ(PlacesFor(0, {-1, 5, 6}, {{5, 1}}), Places{5});
  EXPECT_EQ(PlacesFor(1, {7, 5, 6}, {{6, 1}}), Places{6});
  EXPECT_EQ(PlacesFor(1, {7, 5, 6}, {{6, 0}}), Places{}) << "another output of the call has it";
}

TEST(InPlace, EachReadOfThePlaceIsThroughAnInputThatMayBeTheOutput) {
  EXPECT_EQ(PlacesFor(0, {7, 7, 6}, {{7, 2}}), Places{7});
  EXPECT_EQ(PlacesFor(0, {7, 5, 7}, {{7, 2}, {5, 1}}), Places{5}) << "c lies at 7, too";
  EXPECT_EQ(PlacesFor(1, {7, 5, 7}, {{7, 2}}), Places{});
}

TEST(InPlace, AnIgnoredInputLiesNowhere) {
  OpFacts facts = FactsOfACall();
  facts.ignored = {0};
  EXPECT_EQ(PlacesFor(0, {7, 5, 6}, {{7, 1}, {5, 1}}, facts), Places{5});
}

TEST(InPlace, AnIdentityIsTheInputThatFits) {
  OpFacts facts = FactsOfACall();
  const auto any = [](uint32_t) { return true; };
  EXPECT_EQ(InputOfIdentity(facts, any), std::nullopt) << "it has two outputs";
  facts.num_outputs = 1;
  EXPECT_EQ(InputOfIdentity(facts, any), 1u);
  EXPECT_EQ(InputOfIdentity(facts, [](uint32_t input) { return input != 1; }), std::nullopt);
  facts.ignored = {1};
  EXPECT_EQ(InputOfIdentity(facts, any), std::nullopt);
  facts.ignored = {};
  facts.mutated = {2};
  EXPECT_EQ(InputOfIdentity(facts, any), std::nullopt) << "it has something to do";
}

TEST(InPlace, ValuesFitTogetherWhereTypeAndSizeAreEqual) {
  EXPECT_TRUE(FitTogether({2, 3}, DType::kFloat32, {6}, DType::kFloat32));
  EXPECT_FALSE(FitTogether({2, 3}, DType::kFloat32, {6}, DType::kInt32));
  EXPECT_FALSE(FitTogether({2, 3}, DType::kFloat32, {2, 4}, DType::kFloat32));
}

}  // namespace
}  // namespace gluond
