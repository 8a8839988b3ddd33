// ROIPooling and _contrib_ROIAlign against MXNet 1.9.1: regions inside of the image, turned around, and outside of it.

#include <limits>

#include "tests/ops/op_case.h"

namespace gluond::testing::roi {
namespace {

const Numbers kImages = {
    {2, 2, 5, 6}, {8.75,   -1.5,  -0.25, 14.25, 4.25,   -3.5,  -7.25,  5.25,  -3,     9.5,    9.25,   9.75,  -14.5, 8,      13.25,
                   -1,     11.5,  10.75, 1.75,  0.5,    13,    -10.75, 5.75,  12,     3.25,   9,      -6.25, -4,    7.75,   13.5,
                   -6.75,  -4.5,  -0.5,  1.5,   -12.5,  -1.75, -7,     5,     -5.5,   -10.25, 14.75,  -8.25, -6,    12.75,  -5.25,
                   2.25,   7.25,  6.25,  -5,    -1.25,  1.25,  7,      -9.25, -6.5,   4.5,    11.25,  -14,   5.5,   -11.25, 10.5,
                   -4.75,  -2.25, -3.75, 12.5,  -2,     -8.5,  -4.25,  -9,    8.5,    3.5,    10,     -2.75, -9.75, 2.5,    -14.25,
                   14.5,   -7.5,  14,    -3.25, 7.5,    -13,   0,      -15,   12.25,  -0.75,  -9.5,   0.25,  0.75,  -13.25, 13.75,
                   -11.75, 6.5,   8.25,  6.75,  2,      11,    -11.5,  -7.75, -8,     -12.25, 6,      -10.5, 10.25, -10,    -2.5,
                   -8.75,  -13.5, 2.75,  4,     -14.75, -11,   1,      4.75,  -13.75, 3.75,   -12.75, 3,     -12,   11.75,  -5.75}};
const Numbers kRois = {{5, 5}, {0, 0, 0, 5, 4, 1, 1.25, 0.625, 3.375, 3.75, 0, 4, 3, 2, 1, 1, -3, -2, 9, 11, 1, 40, 40, 50, 50}};
const Numbers kRegions = {{4, 5}, {0, 0, 0, 5, 4, 1, 1.25, 0.625, 3.375, 3.75, 0, 4, 3, 2, 1, 1, -3, -2, 9, 11}};
const Numbers kAligned = {{4, 5}, {0, 0, 0, 5, 4, 1, 1.25, 0.625, 3.375, 3.75, 1, -3, -2, 9, 11, 1, 2, 1, 2.5, 1.25}};

// So many that the gradient adds them up in pieces.
Numbers ManyRegions() {
  Numbers rois = {{70, 5}, {}};
  for (int i = 0; i < 70; ++i) {
    for (const double number : {i % 2 + 0.0, i % 4 + 0.25, i % 3 + 0.125, i % 4 + 2.25, i % 3 + 2.0}) {
      rois.values.push_back(number);
    }
  }
  return rois;
}

OP_CASES(ROIPooling,
         {
             OpCase{"OfManyRegions", "ROIPooling", {kImages, ManyRegions()}, {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}}}
                 .Indices({1})
                 .Tolerance(4),
             OpCase{"OfWholeElements",
                    "ROIPooling",
                    {kImages, kRois},
                    {{"pooled_size", "(2, 3)"}, {"spatial_scale", "1"}},
                    {{{5, 2, 2, 3},
                      {8.75,  14.25, 11.5,  9,     13.25, 13.5,  12.75,  2.25, 14.75, 12.75, 7,    10.5, 2.5,   8.5,   14.5,
                       7.5,   0.25,  0.75,  -7.75, -2.5,  -8.75, -12.75, 3,    1,     5.75,  5.75, 5.75, 5.75,  5.75,  5.75,
                       -9.25, -9.25, -9.25, -9.25, -9.25, -9.25, 7.5,    14.5, 14,    0,     0,    0,    10.25, 11.75, 11,
                       0,     0,     0,     0,     0,     0,     0,      0,    0,     0,     0,    0,    0,     0,     0}}}}
                 .Indices({1}),
             OpCase{"OfScaledRegions",
                    "ROIPooling",
                    {kImages, kRois},
                    {{"pooled_size", "(2, 2)"}, {"spatial_scale", "0.5"}},
                    {{{5, 2, 2, 2}, {8.75,  14.25, 8,     13.25, 5,     1.5,   12.75, 2.25,  -2.25, 8.5,   2.5, 8.5,  6.5, 8.25,
                                     -7.75, -2.5,  13.25, 13.25, 13.25, 13.25, -5.25, -5.25, -5.25, -5.25, 2.5, 14.5, 7.5, 13.75,
                                     10.25, 11,    4,     11.75, 0,     0,     0,     0,     0,     0,     0,   0}}}}
                 .Indices({1}),
             OpCase{"OfMoreBinsThanElements",
                    "ROIPooling",
                    {kImages, kRois},
                    {{"pooled_size", "(3, 1)"}, {"spatial_scale", "0.25"}},
                    {{{5, 2, 3, 1}, {8.75, 8.75, 5.25, -4.5,  5,   5,   -2.25, -2.25, -4.25, 6.5, 6.5, -7.75, 5.25, 5.25, 5.25,
                                     5,    5,    5,    -2.25, 8.5, 7.5, 8.25,  10.25, 10.25, 0,   0,   0,     0,    0,    0}}}}
                 .Indices({1}),
             OpCase{"OfPadding",
                    "ROIPooling",
                    {kImages, {{1, 5}, {-1, 0, 0, 3, 3}}},
                    {{"pooled_size", "(1, 2)"}, {"spatial_scale", "1"}},
                    {{{1, 2, 1, 2}, {0, 0, 0, 0}}}}
                 .Indices({1}),
             OpCase{"OfNoRegions",
                    "ROIPooling",
                    {kImages, {{0, 5}, {}}},
                    {{"pooled_size", "(1, 2)"}, {"spatial_scale", "1"}},
                    {{{0, 2, 1, 2}, {}}}}
                 .Indices({1}),
         });

OP_CASES(
    ROIAlign,
    {
        OpCase{"OfManyRegions", "_contrib_ROIAlign", {kImages, ManyRegions()}, {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}}}
            .Indices({1})
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"OfSampledBins",
               "_contrib_ROIAlign",
               {kImages, kRegions},
               {{"pooled_size", "(2, 3)"}, {"spatial_scale", "1"}},
               {{{4, 2, 2, 3},
                 {1.22135417,   4.90625,     7.953125,    3.09114583,  0.8125,      7.17447917,    0.1875,       -4.1875,
                  2.13802083,   1.7734375,   0.625,       -2.328125,   -2.16162109, 1.97998047,    7.86295573,   -5.23291016,
                  -6.48400879,  2.85384115,  -6.91292318, -7.34765625, -10.6425781, -9.34240723,   -5.66052246,  -3.27693685,
                  7.27083333,   9.3125,      11.3541667,  8.22916667,  10.1875,     12.1458333,    -8.5,         -6,
                  -3.5,         -7.91666667, -2.25,       3.41666667,  -1.69786352, -0.356186224,  0.933354592,  -0.209821429,
                  -0.361607143, 0.491071429, -1.35538903, -1.43973214, -0.390625,   -0.0267857143, -0.232142857, -0.205357143}}}}
            .Indices({1})
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"OfScaledRegions",
               "_contrib_ROIAlign",
               {kImages, kRegions},
               {{"pooled_size", "(2, 2)"}, {"spatial_scale", "0.5"}, {"sample_ratio", "2"}},
               {{{4, 2, 2, 2},
                 {1.453125,    0.40625,     0.0625,      5.37109375,  -2.421875,   -2.41796875, 3.109375,    -2.12890625,
                  -6.54255676, -1.99291992, -3.84095764, -3.04571533, -4.49087524, -3.37451172, -7.84516907, -7.3616333,
                  7.296875,    3.515625,    9.03125,     0.71875,     -4.203125,   -1.984375,   -1.859375,   1.671875,
                  -4.73046875, 1.69042969,  -1.77539062, -7.41210938, -4.7109375,  -0.09765625, -2.71582031, 0.36328125}}}}
            .Indices({1})
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"OfAlignedRegions",
               "_contrib_ROIAlign",
               {kImages, kAligned},
               {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}, {"aligned", "True"}},
               {{{4, 2, 2, 2},
                 {0.725694444, 7.01388889, 1.54861111,   3.9375,      -3.35069444, -1.98611111,  -0.444444444,  1.01736111,
                  -3.46038818, 3.92871094, -0.361572266, -6.3190918,  -4.24334717, -4.58209229,  -10.6115723,   -5.69213867,
                  -1.93133503, 1.33715986, -0.255952381, 0.357142857, -1.52636054, -0.911989796, -0.0535714286, -0.279761905,
                  -0.3046875,  1.9921875,  0.3359375,    3.2265625,   -1.125,      -0.96875,     -3.0625,       -2.96875}}}}
            .Indices({1})
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"OfAlignedRegionsSampledThrice",
               "_contrib_ROIAlign",
               {kImages, kAligned},
               {{"pooled_size", "(1, 2)"}, {"spatial_scale", "1"}, {"aligned", "True"}, {"sample_ratio", "3"}},
               {{{4, 2, 1, 2},
                 {1.36998457, 5.30979938, -2.07484568, -0.721450617, -2.15138527, -1.02460696, -7.25204958, -5.27914014,
                  -1.45833333, 0.472222222, -0.611111111, 1.05555556, 0.015625, 2.609375, -2.09375, -1.96875}}}}
            .Indices({1})
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"ByPosition",
               "_contrib_ROIAlign",
               {{{1, 6, 3, 4}, {4.25, -8.25, -2.75, -2.25, 2.75,  6.75,  -1.25, 1.75,  0.5,  -6.75, -5,   -7,    2.5, -6.25, 0,
                                -8,   4.75,  -5.5,  -1.75, -4.25, 7.25,  0.25,  -2.5,  -9,   3,     3.5,  -3.75, 5,   1.5,   8.5,
                                7.75, -0.25, 1,     5.75,  -4.75, -7.75, -5.25, 7,     3.25, -7.5,  -3.5, 4,     4.5, 5.5,   6.25,
                                -0.5, 0.75,  6,     2,     -8.5,  -0.75, 3.75,  -4.5,  6.5,  1.25,  -1.5, -8.75, -6,  -1,    -4,
                                -2,   7.5,   -3,    8.25,  8.75,  -3.25, -6.5,  -5.75, 5.25, 8,     2.25, -7.25}},
                {{1, 5}, {0, 0, 0, 5, 4}}},
               {{"pooled_size", "(1, 2)"}, {"spatial_scale", "0.75"}, {"position_sensitive", "True"}},
               {{{1, 3, 1, 2}, {-1.515625, -5.47265625, 3.65625, 3.20052083, -2.70963542, -3.30533854}}}}
            .Indices({1})
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"OfPadding",
               "_contrib_ROIAlign",
               {kImages, {{1, 5}, {-1, 0, 0, 3, 3}}},
               {{"pooled_size", "(1, 2)"}, {"spatial_scale", "1"}},
               {{{1, 2, 1, 2}, {0, 0, 0, 0}}}}
            .Indices({1}),
        OpCase{"OfNoArea",
               "_contrib_ROIAlign",
               {kImages, {{1, 5}, {0, 2, 2, 1, 3}}},
               {{"pooled_size", "(1, 2)"}, {"spatial_scale", "1"}, {"aligned", "True"}, {"sample_ratio", "2"}},
               {{{1, 2, 1, 2}, {0, 0, 0, 0}}}}
            .Indices({1}),
        OpCase{"OfNoRegions",
               "_contrib_ROIAlign",
               {kImages, {{0, 5}, {}}},
               {{"pooled_size", "(1, 2)"}, {"spatial_scale", "1"}},
               {{{0, 2, 1, 2}, {}}}}
            .Indices({1}),
    });

// INVALID_ARGUMENT, with a message that has `part`.
void ExpectRefused(const std::string& part, const std::string& op, const std::vector<Numbers>& x, const AttrDict& attrs = {}) {
  const absl::Status status = ErrorOf(op, x, attrs);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << op << ": " << status;
  EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
}

TEST(Rois, RefuseWhatDoesNotFit) {
  for (const std::string op : {"ROIPooling", "_contrib_ROIAlign"}) {
    const AttrDict attrs = {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}};
    const absl::Status outside = ErrorOf(op, {kImages, {{1, 5}, {2, 0, 0, 1, 1}}}, attrs);
    EXPECT_EQ(outside.code(), absl::StatusCode::kOutOfRange) << op;
    EXPECT_NE(outside.message().find("row 0 of input 1 'rois' is of image 2, expected less than the 2"), absl::string_view::npos)
        << outside;
    ExpectRefused("[1,4]", op, {kImages, {{1, 4}, {0, 0, 0, 1}}}, attrs);
    ExpectRefused("[5]", op, {{{5}, {0, 0, 0, 1, 1}}, kRois}, attrs);
    ExpectRefused("pooled_size", op, {kImages, kRois}, {{"pooled_size", "(2,)"}, {"spatial_scale", "1"}});
    ExpectRefused("pooled_size", op, {kImages, kRois}, {{"pooled_size", "(0, 2)"}, {"spatial_scale", "1"}});
    ExpectRefused("more than 2^48", op, {kImages, {{200, 5}, std::vector<double>(1000)}},
                  {{"pooled_size", "(1048576, 1048576)"}, {"spatial_scale", "1"}});
    ExpectRefused("spatial_scale", op, {kImages, kRois}, {{"pooled_size", "(2, 2)"}, {"spatial_scale", "inf"}});
  }
  ExpectRefused("has 2 channels, expected a multiple of the 6 bins", "_contrib_ROIAlign", {kImages, kRois},
                {{"pooled_size", "(2, 3)"}, {"spatial_scale", "1"}, {"position_sensitive", "True"}});
  ExpectRefused("sample_ratio", "_contrib_ROIAlign", {kImages, kRois},
                {{"pooled_size", "(2, 3)"}, {"spatial_scale", "1"}, {"sample_ratio", "100000"}});
}

// Coordinates come from data, whatever they are: a call ends soon, and writes nowhere else.
TEST(Rois, TakeCoordinatesThatAreNone) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::string op : {"ROIPooling", "_contrib_ROIAlign"}) {
    for (const double far : {1e9, 1e30, inf, -inf, nan}) {
      const AttrDict attrs = {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}};
      const Numbers rois = {{3, 5}, {0, 0, 0, far, far, 1, -far, -far, far, far, nan, far, 0, -far, 3}};
      const absl::Status status = ErrorOf(op, {kImages, rois}, attrs);
      EXPECT_TRUE(status.ok()) << op << " " << far << ": " << status;
    }
  }
}

}  // namespace
}  // namespace gluond::testing::roi
