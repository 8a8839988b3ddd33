#include "engine/core/shape.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using ::testing::HasSubstr;

TEST(Shape, KnowsItsRankAndDimensionsOrNot) {
  EXPECT_FALSE(Shape().rank_known());
  EXPECT_FALSE(Shape().known());
  EXPECT_TRUE(Shape::OfRank(2).rank_known());
  EXPECT_FALSE(Shape({2, -1}).known());
  EXPECT_TRUE(Shape({2, 0}).known());
  EXPECT_TRUE(Shape::Scalar().known());
  EXPECT_NE(Shape(), Shape::Scalar());
  EXPECT_EQ(Shape::OfRank(2), Shape({-1, -1}));
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape({2, 3, 4}).Size(), 24);
  EXPECT_EQ(Shape({2, 3, 4}).Size(1, 3), 12);
  EXPECT_EQ(Shape({2, 0, 4}).Size(), 0);
  EXPECT_EQ(Shape::Scalar().Size(), 1);
}

TEST(Shape, PrintsWhatIsUnknownAsAQuestionMark) {
  EXPECT_EQ(Shape({2, -1}).ToString(), "[2,?]");
  EXPECT_EQ(Shape().ToString(), "?");
  EXPECT_EQ(Shape::Scalar().ToString(), "[]");
}

TEST(Shape, ChecksDimensionsFromOutside) {
  EXPECT_EQ(*Shape::FromDims({4, -1}), Shape({4, -1}));
  EXPECT_EQ(*Shape::FromDims({}), Shape::Scalar());
  EXPECT_EQ(Shape::FromDims({1, 1, 1, 1, 1, 1, 1, 1})->ndim(), 8);
  const struct {
    std::vector<int64_t> dims;
    const char* message;
  } kWrong[] = {
      {{1, 1, 1, 1, 1, 1, 1, 1, 1}, "rank 9"},
      {{2, -2}, "dimension -2"},
      {{INT64_MIN}, "dimension -9223372036854775808"},
      {{int64_t{1} << 25, int64_t{1} << 25}, "2^48"},
      {{INT64_MAX, 2}, "2^48"},
      {{INT64_MAX, INT64_MAX, 0}, "2^48"},  // Empty, and still a product that overflows.
      {{-1, INT64_MAX}, "2^48"},
      {{(1 << 28) + 1, 0}, "[268435457,0] is empty, and its other dimensions' product is more than 2^28"},
      {{1 << 14, 0, -1, 1 << 15}, "2^28"},
  };
  for (const auto& wrong : kWrong) {
    const absl::Status status = Shape::FromDims(wrong.dims).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.message));
  }
  EXPECT_TRUE(Shape::FromDims({int64_t{1} << 24, int64_t{1} << 24}).ok());
}

TEST(ShapeAssign, MergesWhatEitherSideKnows) {
  Shape shape;
  EXPECT_TRUE(ShapeAssign(&shape, {2, -1}));
  EXPECT_TRUE(ShapeAssign(&shape, Shape()));
  EXPECT_TRUE(ShapeAssign(&shape, {-1, 3}));
  EXPECT_EQ(shape, Shape({2, 3}));
}

TEST(ShapeAssign, RefusesContradictions) {
  Shape shape = {2, -1};
  EXPECT_FALSE(ShapeAssign(&shape, {3, 3}));
  EXPECT_FALSE(ShapeAssign(&shape, {2, 3, 4}));
  EXPECT_FALSE(ShapeAssign(&shape, Shape::Scalar()));
}

TEST(NormalizeAxis, CountsNegativeAxesFromTheEnd) {
  EXPECT_EQ(*NormalizeAxis(1, 3), 1);
  EXPECT_EQ(*NormalizeAxis(-1, 3), 2);
  EXPECT_EQ(*NormalizeAxis(-3, 3), 0);
  for (int64_t axis : {int64_t{3}, int64_t{-4}, INT64_MAX, INT64_MIN}) {
    EXPECT_FALSE(NormalizeAxis(axis, 3).ok()) << axis;
  }
  EXPECT_FALSE(NormalizeAxis(0, 0).ok());
}

TEST(CheckedBytes, RefusesUnknownAndHugeShapes) {
  EXPECT_EQ(*CheckedBytes({2, 3}, 8), 48);
  EXPECT_EQ(*CheckedBytes({2, 0}, 8), 0);
  EXPECT_FALSE(CheckedBytes({2, -1}, 8).ok());
  EXPECT_FALSE(CheckedBytes(Shape(), 8).ok());
  EXPECT_FALSE(CheckedBytes({int64_t{1} << 40, int64_t{1} << 40}, 4).ok());
}

}  // namespace
}  // namespace gluond
