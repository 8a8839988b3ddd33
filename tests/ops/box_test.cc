// _contrib_box_iou and _contrib_box_nms against MXNet 1.9.1. Where box_nms changes the format of coordinates, the gradient is
// the derivative of that, too. Differences would change the class, so that rows with classes leave the gradient out.

#include <limits>

#include "engine/core/interruption.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::box {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const Numbers kFour = {{4, 4}, {0, 0, 2, 2, 1, 1, 3, 4, 3, 3, 1, 1, 0, 0, 0, 0}};
const Numbers kPairs = {{2, 2, 4}, {0, 0, 2, 2, 1, 0, 3, 1, 0.5, 0.5, 1.5, 1.5, 5, 5, 6, 6}};
const Numbers kBoxes = {{2, 6, 6},
                        {0, 0.5,   0.75, 1,    3.25, 2,    1, 0.25,  0.5,  0,    2.75, 2,   1, 0.375, 2.75, 0.75, 5.5,  2.25,
                         1, 0.625, 1.25, 0.25, 4,    2.25, 1, 0.125, 0.5,  1,    3,    2.5, 0, 0.75,  0.75, 0,    1.75, 2.25,
                         0, 0.375, 2.5,  1,    5.25, 3.5,  0, 0.25,  2.75, 0.75, 4.75, 2.5, 0, 0.75,  0.75, 2.75, 2.25, 4.75,
                         1, 0.5,   2.5,  2.75, 4.5,  3.75, 2, 0.625, 1.5,  1.75, 3.25, 3.5, 1, 0.125, 0.75, 1.25, 1.75, 3}};

OP_CASES(BoxIou,
         {
             OpCase{"OfCorners",
                    "_contrib_box_iou",
                    {kFour, kPairs},
                    {},
                    {{{4, 2, 2}, {1, 0.2, 0.25, 0, 0.111111111, 0, 0.037037037, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}},
             OpCase{
                 "OfCentres",
                 "_contrib_box_iou",
                 {kFour, kPairs},
                 {{"format", "center"}},
                 {{{4, 2, 2},
                   {1, 0.272727273, 0.333333333, 0, 0.230769231, 0.25, 0.1875, 0.0105263158, 0, 0, 0, 0.0277777778, 0, 0, 0, 0}}}},
             {"OfNoBoxes", "_contrib_box_iou", {{{0, 4}, {}}, kFour}, {}, {{{0, 4}, {}}}},
         });

OP_CASES(
    BoxNms,
    {
        OpCase{"Corners",
               "_contrib_box_nms",
               {kBoxes},
               {},
               {{{2, 6, 6}, {0, 0.75,  0.75, 0,    1.75, 2.25, 1, 0.625, 1.25, 0.25, 4,    2.25, 0,  0.5,   0.75, 1,    3.25, 2,
                             1, 0.375, 2.75, 0.75, 5.5,  2.25, 1, 0.25,  0.5,  0,    2.75, 2,    -1, -1,    -1,   -1,   -1,   -1,
                             0, 0.75,  0.75, 2.75, 2.25, 4.75, 2, 0.625, 1.5,  1.75, 3.25, 3.5,  1,  0.5,   2.5,  2.75, 4.5,  3.75,
                             0, 0.375, 2.5,  1,    5.25, 3.5,  0, 0.25,  2.75, 0.75, 4.75, 2.5,  1,  0.125, 0.75, 1.25, 1.75, 3}}}},
        OpCase{"ByClass",
               "_contrib_box_nms",
               {kBoxes},
               {{"id_index", "0"}},
               {{{2, 6, 6}, {0, 0.75,  0.75, 0,    1.75, 2.25, 1, 0.625, 1.25, 0.25, 4,    2.25, 0, 0.5,   0.75, 1,    3.25, 2,
                             1, 0.375, 2.75, 0.75, 5.5,  2.25, 1, 0.25,  0.5,  0,    2.75, 2,    1, 0.125, 0.5,  1,    3,    2.5,
                             0, 0.75,  0.75, 2.75, 2.25, 4.75, 2, 0.625, 1.5,  1.75, 3.25, 3.5,  1, 0.5,   2.5,  2.75, 4.5,  3.75,
                             0, 0.375, 2.5,  1,    5.25, 3.5,  0, 0.25,  2.75, 0.75, 4.75, 2.5,  1, 0.125, 0.75, 1.25, 1.75, 3}}}}
            .WithoutGradient(),
        OpCase{
            "WithoutBackground",
            "_contrib_box_nms",
            {kBoxes},
            {{"id_index", "0"}, {"background_id", "0"}},
            {{{2, 6, 6}, {1,  0.625, 1.25, 0.25, 4,    2.25, 1,  0.375, 2.75, 0.75, 5.5, 2.25, 1,  0.25,  0.5,  0,    2.75, 2,
                          1,  0.125, 0.5,  1,    3,    2.5,  -1, -1,    -1,   -1,   -1,  -1,   -1, -1,    -1,   -1,   -1,   -1,
                          2,  0.625, 1.5,  1.75, 3.25, 3.5,  1,  0.5,   2.5,  2.75, 4.5, 3.75, 1,  0.125, 0.75, 1.25, 1.75, 3,
                          -1, -1,    -1,   -1,   -1,   -1,   -1, -1,    -1,   -1,   -1,  -1,   -1, -1,    -1,   -1,   -1,   -1}}}}
            .WithoutGradient(),
        OpCase{"AcrossClasses",
               "_contrib_box_nms",
               {kBoxes},
               {{"id_index", "0"}, {"force_suppress", "True"}},
               {{{2, 6, 6}, {0, 0.75,  0.75, 0,    1.75, 2.25, 1, 0.625, 1.25, 0.25, 4,    2.25, 0,  0.5,   0.75, 1,    3.25, 2,
                             1, 0.375, 2.75, 0.75, 5.5,  2.25, 1, 0.25,  0.5,  0,    2.75, 2,    -1, -1,    -1,   -1,   -1,   -1,
                             0, 0.75,  0.75, 2.75, 2.25, 4.75, 2, 0.625, 1.5,  1.75, 3.25, 3.5,  1,  0.5,   2.5,  2.75, 4.5,  3.75,
                             0, 0.375, 2.5,  1,    5.25, 3.5,  0, 0.25,  2.75, 0.75, 4.75, 2.5,  1,  0.125, 0.75, 1.25, 1.75, 3}}}}
            .WithoutGradient(),
        OpCase{"OfTheBest",
               "_contrib_box_nms",
               {kBoxes},
               {{"topk", "3"}},
               {{{2, 6, 6}, {0,  0.75, 0.75, 0,    1.75, 2.25, 1,  0.625, 1.25, 0.25, 4,    2.25, 0,  0.5, 0.75, 1,    3.25, 2,
                             -1, -1,   -1,   -1,   -1,   -1,   -1, -1,    -1,   -1,   -1,   -1,   -1, -1,  -1,   -1,   -1,   -1,
                             0,  0.75, 0.75, 2.75, 2.25, 4.75, 2,  0.625, 1.5,  1.75, 3.25, 3.5,  1,  0.5, 2.5,  2.75, 4.5,  3.75,
                             -1, -1,   -1,   -1,   -1,   -1,   -1, -1,    -1,   -1,   -1,   -1,   -1, -1,  -1,   -1,   -1,   -1}}}},
        OpCase{"OfNothingLookedAt",
               "_contrib_box_nms",
               {kBoxes},
               {{"topk", "0"}},
               {{{2, 6, 6}, {0, 0.5,   0.75, 1,    3.25, 2,    1, 0.25,  0.5,  0,    2.75, 2,   1, 0.375, 2.75, 0.75, 5.5,  2.25,
                             1, 0.625, 1.25, 0.25, 4,    2.25, 1, 0.125, 0.5,  1,    3,    2.5, 0, 0.75,  0.75, 0,    1.75, 2.25,
                             0, 0.375, 2.5,  1,    5.25, 3.5,  0, 0.25,  2.75, 0.75, 4.75, 2.5, 0, 0.75,  0.75, 2.75, 2.25, 4.75,
                             1, 0.5,   2.5,  2.75, 4.5,  3.75, 2, 0.625, 1.5,  1.75, 3.25, 3.5, 1, 0.125, 0.75, 1.25, 1.75, 3}}}},
        OpCase{"OfHighScores",
               "_contrib_box_nms",
               {kBoxes},
               {{"valid_thresh", "0.4375"}},
               {{{2, 6, 6}, {0,  0.75, 0.75, 0,    1.75, 2.25, 1,  0.625, 1.25, 0.25, 4,    2.25, 0,  0.5, 0.75, 1,    3.25, 2,
                             -1, -1,   -1,   -1,   -1,   -1,   -1, -1,    -1,   -1,   -1,   -1,   -1, -1,  -1,   -1,   -1,   -1,
                             0,  0.75, 0.75, 2.75, 2.25, 4.75, 2,  0.625, 1.5,  1.75, 3.25, 3.5,  1,  0.5, 2.5,  2.75, 4.5,  3.75,
                             -1, -1,   -1,   -1,   -1,   -1,   -1, -1,    -1,   -1,   -1,   -1,   -1, -1,  -1,   -1,   -1,   -1}}}},
        OpCase{"OfALowOverlap",
               "_contrib_box_nms",
               {kBoxes},
               {{"overlap_thresh", "0.1875"}, {"id_index", "0"}},
               {{{2, 6, 6}, {0,  0.75,  0.75, 0,    1.75, 2.25, 1,  0.625, 1.25, 0.25, 4,    2.25, -1, -1,  -1,  -1,   -1,  -1,
                             -1, -1,    -1,   -1,   -1,   -1,   -1, -1,    -1,   -1,   -1,   -1,   -1, -1,  -1,  -1,   -1,  -1,
                             0,  0.75,  0.75, 2.75, 2.25, 4.75, 2,  0.625, 1.5,  1.75, 3.25, 3.5,  1,  0.5, 2.5, 2.75, 4.5, 3.75,
                             0,  0.375, 2.5,  1,    5.25, 3.5,  1,  0.125, 0.75, 1.25, 1.75, 3,    -1, -1,  -1,  -1,   -1,  -1}}}}
            .WithoutGradient(),
        OpCase{"ToCentres",
               "_contrib_box_nms",
               {kBoxes},
               {{"out_format", "center"}},
               {{{2, 6, 6},
                 {0, 0.75,  1.25,  1.125, 1,    2.25, 1, 0.625, 2.625, 1.25,  2.75, 2,    0,  0.5,   2,    1.5,   2.5, 1,
                  1, 0.375, 4.125, 1.5,   2.75, 1.5,  1, 0.25,  1.625, 1,     2.25, 2,    -1, -1,    -1,   -1,    -1,  -1,
                  0, 0.75,  1.5,   3.75,  1.5,  2,    2, 0.625, 2.375, 2.625, 1.75, 1.75, 1,  0.5,   3.5,  3.25,  2,   1,
                  0, 0.375, 3.875, 2.25,  2.75, 2.5,  0, 0.25,  3.75,  1.625, 2,    1.75, 1,  0.125, 1.25, 2.125, 1,   1.75}}}},
        OpCase{"FromCentres",
               "_contrib_box_nms",
               {kBoxes},
               {{"in_format", "center"}},
               {{{2, 6, 6},
                 {0,  0.75,  -0.125, -1.125, 1.625, 1.125, 1,      0.625, -0.75,  -0.875, 3.25,  1.375,  0,     0.5,   -0.875,
                  0,  2.375, 2,      1,      0.375, 0,     -0.375, 5.5,   1.875,  -1,     -1,    -1,     -1,    -1,    -1,
                  -1, -1,    -1,     -1,     -1,    -1,    0,      0.75,  -0.375, 0.375,  1.875, 5.125,  2,     0.625, -0.125,
                  0,  3.125, 3.5,    1,      0.5,   0.25,  0.875,  4.75,  4.625,  0,      0.375, -0.125, -0.75, 5.125, 2.75,
                  1,  0.125, -0.125, -0.25,  1.625, 2.75,  -1,     -1,    -1,     -1,     -1,    -1}}}},
        OpCase{"OfCentres",
               "_contrib_box_nms",
               {kBoxes},
               {{"in_format", "center"}, {"out_format", "center"}},
               {{{2, 6, 6}, {0, 0.75,  0.75, 0,    1.75, 2.25, 1,  0.625, 1.25, 0.25, 4,    2.25, 0,  0.5, 0.75, 1,    3.25, 2,
                             1, 0.375, 2.75, 0.75, 5.5,  2.25, -1, -1,    -1,   -1,   -1,   -1,   -1, -1,  -1,   -1,   -1,   -1,
                             0, 0.75,  0.75, 2.75, 2.25, 4.75, 2,  0.625, 1.5,  1.75, 3.25, 3.5,  1,  0.5, 2.5,  2.75, 4.5,  3.75,
                             0, 0.375, 2.5,  1,    5.25, 3.5,  1,  0.125, 0.75, 1.25, 1.75, 3,    -1, -1,  -1,   -1,   -1,   -1}}}},
        OpCase{"OfEqualScoresAndNan",
               "_contrib_box_nms",
               {{{5, 6},
                 {0, 0.5, 0, 0, 1, 1, 0, 0.5, 4, 4, 5, 5, 0, 0.75, 8, 8, 9, 9, 0, kNan, 20, 20, 21, 21, 0, 0, 30, 30, 31, 31}}},
               {},
               {{{5, 6},
                 {0, 0.75, 8, 8, 9, 9, 0, 0.5, 0, 0, 1, 1, 0, 0.5, 4, 4, 5, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}}}}
            .WithoutGradient(),
        {"OfNoBoxes", "_contrib_box_nms", {{{2, 0, 6}, {}}}, {}, {{{2, 0, 6}, {}}}},
        {"OfOneBox", "_contrib_box_nms", {{{1, 6}, {2, 0.5, 0, 0, 1, 1}}}, {}, {{{1, 6}, {2, 0.5, 0, 0, 1, 1}}}},
    });

// INVALID_ARGUMENT, with a message that has `part`.
void ExpectRefused(const std::string& part, const std::string& op, const std::vector<Numbers>& x, const AttrDict& attrs = {}) {
  const absl::Status status = ErrorOf(op, x, attrs);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << op << ": " << status;
  EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
}

// Boxes in a row, each of which overlaps its neighbours by a third. Many blocks of them are looked at.
TEST(BoxNms, ManyBoxes) {
  for (const double most : {0.25, 0.5}) {
    const int64_t n = 1500;
    Numbers x = {{n, 6}, {}};
    for (int64_t i = 0; i < n; ++i) {
      const double left = static_cast<double>(i);
      x.values.insert(x.values.end(), {0, 2 - left / 1000, left, 0, left + 2, 1});
    }
    std::vector<HostTensor> inputs = {HostTensor::Of(x, DType::kFloat32)};
    const NodePtr node =
        *TryMakeNode("_contrib_box_nms", "y", {MakeVariable("x")}, {{"overlap_thresh", absl::StrCat(most)}, {"id_index", "0"}});
    const std::vector<double> kept = (*OneByOne().Call(*node, &inputs))[1].values();
    const int64_t step = most < 1.0 / 3 ? 2 : 1;
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(kept[i], i * step < n ? i * step : -1) << most << ", place " << i;
  }
}

TEST(BoxNms, EndsWhenItIsInterrupted) {
  const auto check = [] { return absl::CancelledError("enough"); };
  const InterruptionScope scope(check);
  EXPECT_EQ(ErrorOf("_contrib_box_nms", {kBoxes}).code(), absl::StatusCode::kCancelled);
}

TEST(Boxes, RefuseWhatDoesNotFit) {
  ExpectRefused("input 1 'rhs' has shape [1,3], expected boxes", "_contrib_box_iou", {kFour, {{1, 3}, {0, 0, 1}}});
  ExpectRefused("format", "_contrib_box_iou", {kFour, kFour}, {{"format", "corners"}});
  ExpectRefused("[2,6], expected 8 or more columns", "_contrib_box_nms", {{{2, 6}, std::vector<double>(12)}},
                {{"coord_start", "4"}});
  ExpectRefused("score_index (6)", "_contrib_box_nms", {kBoxes}, {{"score_index", "6"}});
  ExpectRefused("id_index (2147483648)", "_contrib_box_nms", {kBoxes}, {{"id_index", "2147483648"}});
  ExpectRefused("coord_start", "_contrib_box_nms", {kBoxes}, {{"coord_start", "-1"}});
  const Numbers many = {{200'000, 6}, std::vector<double>(1'200'000)};
  ExpectRefused("200000 boxes of a sample are to be compared, expected 131072 or fewer; set parameter topk", "_contrib_box_nms",
                {many});
  EXPECT_EQ(ErrorOf("_contrib_box_nms", {many}, {{"topk", "400"}}), absl::OkStatus());
  ExpectRefused("rank 2 or more", "_contrib_box_nms", {{{6}, std::vector<double>(6)}});
}

}  // namespace
}  // namespace gluond::testing::box
