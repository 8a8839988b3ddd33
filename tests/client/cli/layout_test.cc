#include "client/cli/layout.h"

#include "gtest/gtest.h"

namespace gluond::cli {
namespace {

// Images of 2 rows and 3 columns.
client::Shape ShapeFor(const client::Shape& input) { return ShapeOfImages(input, 5, 2, 3).value_or(client::Shape()); }

TEST(LayoutTest, TheChannelStandsWhereTheModelTakesIt) {
  EXPECT_EQ(ShapeFor({-1, 1, 2, 3}), (client::Shape{5, 1, 2, 3}));
  EXPECT_EQ(ShapeFor({-1, 2, 3, 1}), (client::Shape{5, 2, 3, 1}));
  EXPECT_EQ(ShapeFor({-1, -1, -1, 1}), (client::Shape{5, 2, 3, 1}));
}

TEST(LayoutTest, ItIsFirstWhereBothFitOrNothingIsKnown) {
  EXPECT_EQ(ShapeFor({-1, -1, -1, -1}), (client::Shape{5, 1, 2, 3}));
  EXPECT_EQ(ShapeFor({}), (client::Shape{5, 1, 2, 3}));
  EXPECT_EQ(ShapeOfImages({-1, 1, 1, 1}, 5, 1, 1).value(), (client::Shape{5, 1, 1, 1}));
}

TEST(LayoutTest, TheBatchIsTheServersToCheck) { EXPECT_EQ(ShapeFor({32, 2, 3, 1}), (client::Shape{5, 2, 3, 1})); }

TEST(LayoutTest, AModelOfOtherImagesIsRefused) {
  for (const client::Shape& input : {client::Shape{-1, 6}, {-1, 3, 2, 3}, {-1, 3, 2, 1}, {-1, 2, 3, 3}, {-1, 1, 2, 1}}) {
    const absl::Status refused = ShapeOfImages(input, 5, 2, 3).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << client::ToString(input);
    EXPECT_EQ(refused.message(),
              "the model takes " + client::ToString(input) + ", and the images are (5, 1, 2, 3) or (5, 2, 3, 1).");
  }
}

}  // namespace
}  // namespace gluond::cli
