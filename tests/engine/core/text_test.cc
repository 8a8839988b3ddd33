#include "engine/core/text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Text, FindsTheClosestNames) {
  EXPECT_THAT(ClosestNames("sofmax", {"softmax", "sigmoid", "log_softmax"}), ElementsAre("softmax"));
  EXPECT_THAT(ClosestNames("RELU", {"relu", "Activation"}), ElementsAre("relu"));
  EXPECT_THAT(ClosestNames("abcd", {"abce", "abcd", "abef", "abgh"}, 2), ElementsAre("abcd", "abce"));
  EXPECT_THAT(ClosestNames("convolution", {"dot", "abs"}), IsEmpty());
  EXPECT_THAT(ClosestNames("x", {}), IsEmpty());
}

TEST(Text, SuggestsOnlyWhatIsClose) {
  EXPECT_EQ(DidYouMean("sofmax", {"softmax"}), "; did you mean 'softmax'?");
  EXPECT_EQ(DidYouMean("ab", {"ab1", "ab2"}), "; did you mean 'ab1' or 'ab2'?");
  EXPECT_EQ(DidYouMean("convolution", {"dot"}), "");
}

TEST(Text, ComparesLongNamesInBoundedTime) {
  EXPECT_THAT(ClosestNames(std::string(1 << 20, 'a'), {std::string(1 << 20, 'b')}).size(), 1u);
}

// All of them would be 1e8 comparisons of texts.
TEST(Text, ComparesWithTheFirstOfMany) {
  std::vector<std::string> names(1'000'000, std::string(60, 'x'));
  names[0] = "softmax";
  for (int i = 0; i < 100; ++i) ASSERT_THAT(ClosestNames("sofmax", names), ElementsAre("softmax"));
}

TEST(Text, ShortensAndEscapesWhatComesFromOutside) {
  EXPECT_EQ(Excerpt("weight"), "weight");
  EXPECT_EQ(Excerpt("a\nb\x01"), "a\\nb\\x01");
  EXPECT_EQ(Excerpt("0123456789", 4), "0123...");
}

}  // namespace
}  // namespace gluond
