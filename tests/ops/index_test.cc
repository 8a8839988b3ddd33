#include <limits>

#include "tests/ops/op_case.h"

namespace gluond::testing::index {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const Numbers kX = {{3, 2}, {1, 2, 3, 4, 5, 6}};

OP_CASES(
    Index,
    {
        OpCase{"TakeRows", "take", {kX, {{2, 2}, {0, 2, 2, 1}}}, {}, {{{2, 2, 2}, {1, 2, 5, 6, 5, 6, 3, 4}}}}
            .Indices({1})
            .TwiceDifferentiable(),
        OpCase{"TakeColumns", "take", {kX, {{1}, {1}}}, {{"axis", "1"}}, {{{3, 1}, {2, 4, 6}}}}.Indices({1}),
        OpCase{"TakeClips", "take", {kX, {{3}, {-5, 9, kNan}}}, {}, {{{3, 2}, {1, 2, 5, 6, 1, 2}}}}.Indices({1}),
        OpCase{"TakeWraps", "take", {kX, {{2}, {-1, 4}}}, {{"mode", "wrap"}}, {{{2, 2}, {5, 6, 3, 4}}}}.Indices({1}),
        OpCase{"TakeRaisesNothing", "take", {kX, {{2}, {-1, 2}}}, {{"mode", "raise"}}, {{{2, 2}, {5, 6, 5, 6}}}}.Indices({1}),
        OpCase{"TakeNothing", "take", {kX, {{0}, {}}}, {}, {{{0, 2}, {}}}}.Indices({1}),
        OpCase{"PickOfRows", "pick", {kX, {{3}, {0, 1, 1}}}, {}, {{{3}, {1, 4, 6}}}}.Indices({1}).TwiceDifferentiable(),
        OpCase{"PickKeepsTheAxis", "pick", {kX, {{3, 1}, {0, 1, 1}}}, {{"keepdims", "True"}}, {{{3, 1}, {1, 4, 6}}}}.Indices({1}),
        OpCase{"PickOfColumns", "pick", {kX, {{2}, {2, 0}}}, {{"axis", "0"}}, {{{2}, {5, 2}}}}.Indices({1}),
        OpCase{"PickClips", "pick", {kX, {{3}, {-7, 9, kNan}}}, {}, {{{3}, {1, 4, 5}}}}.Indices({1}),
        OpCase{"PickWraps", "pick", {kX, {{3}, {-1, 2, 3}}}, {{"mode", "wrap"}}, {{{3}, {2, 3, 6}}}}.Indices({1}),
        {"OneHot", "one_hot", {{{2}, {1, 0}}}, {{"depth", "3"}}, {{{2, 3}, {0, 1, 0, 1, 0, 0}}}},
        {"OneHotOutside",
         "one_hot",
         {{{2}, {3, 1.75}}},
         {{"depth", "2"}, {"on_value", "5"}, {"off_value", "2"}},
         {{{2, 2}, {2, 2, 2, 5}}}},
        OpCase{"Where", "where", {{{4}, {1, 0, -2, 0}}, {{4}, {1, 2, 3, 4}}, {{4}, {5, 6, 7, 8}}}, {}, {{{4}, {1, 6, 3, 8}}}}
            .Constant({0})
            .TwiceDifferentiable(),
        OpCase{
            "WhereByRows", "where", {{{2}, {0, 1}}, {{2, 2}, {1, 2, 3, 4}}, {{2, 2}, {5, 6, 7, 8}}}, {}, {{{2, 2}, {5, 6, 3, 4}}}}
            .Constant({0}),
        OpCase{"WhereNothing", "where", {{{0}, {}}, {{0}, {}}, {{0}, {}}}, {}, {{{0}, {}}}},
    });

TEST(Take, RaiseNamesTheIndex) {
  const absl::Status status = ErrorOf("take", {kX, {{2}, {1, 7}}}, {{"mode", "raise"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(status.message().find("position 1 is out of range; want -3 to 2"), absl::string_view::npos) << status;
}

TEST(Index, RefusesToTakeFromNothing) {
  EXPECT_EQ(ErrorOf("take", {{{0, 2}, {}}, {{1}, {0}}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("pick", {{{2, 0}, {}}, {{2}, {0, 0}}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("take", {kX, {{1}, {0}}}, {{"axis", "2"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("one_hot", {{{2}, {1, 0}}}, {{"depth", "-1"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("one_hot", {{{2}, {1, 0}}}, {{"depth", "281474976710656"}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::testing::index
