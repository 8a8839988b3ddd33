#include <limits>

#include "client/cli/curve.h"
#include "client/cli/picture.h"
#include "client/cli/recipe.h"
#include "gtest/gtest.h"

namespace gluond::cli {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PictureTest, TwoRowsOfPixelsShareALine) {
  const std::vector<uint8_t> pixels = {0, 255, 128,  //
                                       0, 255, 128,  //
                                       0, 255, 0};
  EXPECT_EQ(Draw(pixels, 3, 3, /*color=*/false), (std::vector<std::string>{" @+", " = "}));
}

TEST(PictureTest, ColorsAreOfTheGreyRampAndEndWithTheLine) {
  const auto lines = Draw(std::vector<uint8_t>{0, 255}, 2, 1, /*color=*/true);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "\x1b[38;5;232;48;5;255m\u2580\x1b[0m");
}

TEST(CurveTest, ShowsLossAndBothAccuracies) {
  const std::string svg = ToSvg({"LeNet <1>", 3, {2, 1, 0.5f}, {0.8, 0.9}, {0.7, 0.85}});
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_NE(svg.find("LeNet &lt;1&gt;"), std::string::npos);
  EXPECT_NE(svg.find("3 steps"), std::string::npos);
  EXPECT_EQ(Count(svg, "fill='none' stroke="), 3u);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(CurveTest, ALossThatIsNoNumberLeavesAGap) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string svg = ToSvg({"", 4, {2, nan, 1, 1}, {}, {}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(Count(svg.substr(svg.find("<path d='M50.0 ")), "M183"), 0u);
  EXPECT_NE(svg.find("M316.7 "), std::string::npos) << svg;
}

TEST(CurveTest, ManyStepsMakeASmallPicture) {
  EXPECT_LT(ToSvg({"", 1000000, std::vector<float>(1000000, 1.f), {0.5}, {0.5}}).size(), 20000u);
}

TEST(CurveTest, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(WriteSvg({}, "/nowhere/curve.svg").code(), absl::StatusCode::kPermissionDenied);
}

TEST(RecipeTest, LeNetHasTwoConvolutionsAndTwoLayers) {
  const auto recipe = FindRecipe("lenet", 10);
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  const auto tree = recipe->network.Tree();
  ASSERT_TRUE(tree.ok()) << tree.status();
  ASSERT_EQ(tree->children.size(), 6u);
  EXPECT_EQ(*client::Find(tree->children[5].attributes, "units"), client::Value("10"));
  EXPECT_EQ(FindRecipe("vgg", 10).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RecipeTest, LabelsAreClothesOrDigits) {
  EXPECT_EQ(LabelNames("/usr/share/datasets/fashion-mnist")[9], "boot");
  EXPECT_EQ(LabelNames("/data/mnist")[9], "9");
}

}  // namespace
}  // namespace gluond::cli
