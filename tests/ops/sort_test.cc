// topk, sort and argsort. Equal elements keep their order, NaN is the largest.

#include <limits>

#include "tests/ops/op_case.h"

namespace gluond::testing::sort {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const Numbers kX = {{2, 3}, {3, 1, 2, 5, 7, 4}}, kTies = {{5}, {2, 1, 2, 3, 1}};

AttrDict Top(const std::string& k, const std::string& ret_typ, AttrDict more = {}) {
  AttrDict attrs = {{"k", k}, {"ret_typ", ret_typ}};
  attrs.merge(more);
  return attrs;
}

OP_CASES(
    Topk,
    {
        {"IndicesOfTheLargest", "topk", {kX}, {}, {{{2, 1}, {0, 1}}}},
        OpCase{"Values", "topk", {kX}, Top("2", "value"), {{{2, 2}, {3, 2, 7, 5}}}}.TwiceDifferentiable(),
        OpCase{"Both", "topk", {kX}, Top("2", "both"), {{{2, 2}, {3, 2, 7, 5}}, {{2, 2}, {0, 2, 1, 0}}}}.TwiceDifferentiable(),
        {"Mask", "topk", {kX}, Top("2", "mask"), {{{2, 3}, {1, 0, 1, 1, 1, 0}}}},
        {"TheSmallest", "topk", {kX}, Top("2", "both", {{"is_ascend", "True"}}), {{{2, 2}, {1, 2, 4, 5}}, {{2, 2}, {1, 2, 2, 0}}}},
        {"OfColumns", "topk", {kX}, Top("1", "both", {{"axis", "0"}}), {{{1, 3}, {5, 7, 4}}, {{1, 3}, {1, 1, 1}}}},
        {"OfAll", "topk", {kX}, Top("3", "both", {{"axis", "None"}}), {{{3}, {7, 5, 4}}, {{3}, {4, 3, 5}}}},
        {"MaskOfAll", "topk", {kX}, Top("3", "mask", {{"axis", "None"}}), {{{2, 3}, {0, 0, 0, 1, 1, 1}}}},
        {"ZeroIsAll", "topk", {kX}, Top("0", "value"), {{{2, 3}, {3, 2, 1, 7, 5, 4}}}},
        {"IndicesAsIntegers", "topk", {kX}, Top("1", "indices", {{"dtype", "int64"}}), {{{2, 1}, {0, 1}}}},
        {"EqualElements", "topk", {kTies}, Top("3", "indices"), {{{3}, {3, 0, 2}}}},
        OpCase{"NanIsTheLargest", "topk", {{{3}, {1, kNan, 7}}}, Top("2", "indices"), {{{2}, {1, 2}}}}.OnlyFloats(),
        {"NoRows", "topk", {{{0, 3}, {}}}, Top("2", "value"), {{{0, 2}, {}}}},
        {"OneElement", "topk", {{{1}, {4}}}, Top("1", "both"), {{{1}, {4}}, {{1}, {0}}}},
    });

OP_CASES(Sort,
         {
             OpCase{"Rows", "sort", {kX}, {}, {{{2, 3}, {1, 2, 3, 4, 5, 7}}}}.TwiceDifferentiable(),
             OpCase{"Columns", "sort", {kX}, {{"axis", "0"}, {"is_ascend", "False"}}, {{{2, 3}, {5, 7, 4, 3, 1, 2}}}}
                 .TwiceDifferentiable(),
             OpCase{"All", "sort", {kX}, {{"axis", "None"}}, {{{6}, {1, 2, 3, 4, 5, 7}}}}.TwiceDifferentiable(),
             {"Negative", "sort", {{{4}, {0.5, -2, 0, -0.25}}}, {}, {{{4}, {-2, -0.25, 0, 0.5}}}},
             OpCase{"NanIsLast", "sort", {{{3}, {kNan, 3, 1}}}, {}, {{{3}, {1, 3, kNan}}}}.WithoutGradient(),
             OpCase{"NanIsFirst", "sort", {{{3}, {1, kNan, 3}}}, {{"is_ascend", "0"}}, {{{3}, {kNan, 3, 1}}}}.WithoutGradient(),
             {"NoElements", "sort", {{{2, 0}, {}}}, {}, {{{2, 0}, {}}}},
             {"Places", "argsort", {kX}, {}, {{{2, 3}, {1, 2, 0, 2, 0, 1}}}},
             {"PlacesDown", "argsort", {kX}, {{"is_ascend", "False"}, {"axis", "0"}}, {{{2, 3}, {1, 1, 1, 0, 0, 0}}}},
             {"PlacesInAll", "argsort", {kX}, {{"axis", "None"}, {"dtype", "int32"}}, {{{6}, {1, 2, 0, 5, 3, 4}}}},
             {"PlacesOfEqualElements", "argsort", {kTies}, {}, {{{5}, {1, 4, 0, 2, 3}}}},
             {"PlacesOfEqualElementsDown", "argsort", {kTies}, {{"is_ascend", "False"}}, {{{5}, {3, 0, 2, 1, 4}}}},
         });

TEST(Topk, RefusesWhatItCannotReturn) {
  const absl::Status status = ErrorOf("topk", {kX}, {{"k", "4"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'k' is 4; input 0, [2,3], has 3 elements"), absl::string_view::npos) << status;
  EXPECT_EQ(ErrorOf("topk", {kX}, {{"axis", "2"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("topk", {kX}, {{"ret_typ", "values"}}).code(), absl::StatusCode::kInvalidArgument);
  const Numbers many = {{300}, std::vector<double>(300)};
  EXPECT_EQ(ErrorOf("argsort", {many}, {{"dtype", "uint8"}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::testing::sort
