#include "engine/core/text.h"

#include "gtest/gtest.h"

namespace gluond {
namespace {

TEST(Text, SuggestsTheClosestNames) {
  EXPECT_EQ(DidYouMean("sofmax", {"softmax", "sigmoid", "log_softmax"}), "; did you mean 'softmax'?");
  EXPECT_EQ(DidYouMean("RELU", {"relu", "Activation"}), "; did you mean 'relu'?");
  EXPECT_EQ(DidYouMean("abcd", {"abce", "abcd", "abef", "abgh"}), "; did you mean 'abcd' or 'abce' or 'abef'?");
  EXPECT_EQ(DidYouMean("ab", {"ab1", "ab2"}), "; did you mean 'ab1' or 'ab2'?");
  EXPECT_EQ(DidYouMean("convolution", {"dot", "abs"}), "");
  EXPECT_EQ(DidYouMean("x", {}), "");
}

TEST(Text, ComparesLongNamesInBoundedTime) { EXPECT_NE(DidYouMean(std::string(1 << 20, 'a'), {std::string(1 << 20, 'b')}), ""); }

// All of them would be 1e8 comparisons of texts.
TEST(Text, ComparesWithTheFirstOfMany) {
  std::vector<std::string> names(1'000'000, std::string(60, 'x'));
  names[0] = "softmax";
  for (int i = 0; i < 100; ++i) ASSERT_EQ(DidYouMean("sofmax", names), "; did you mean 'softmax'?");
}

TEST(Text, ShortensAndEscapesWhatComesFromOutside) {
  EXPECT_EQ(Excerpt("weight"), "weight");
  EXPECT_EQ(Excerpt("a\nb\x01"), "a\\nb\\x01");
  EXPECT_EQ(Excerpt("0123456789", 4), "0123...");
}

}  // namespace
}  // namespace gluond
