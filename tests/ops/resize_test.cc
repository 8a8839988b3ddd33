// _contrib_BilinearResize2D and _contrib_AdaptiveAvgPooling2D against MXNet 1.9.1, and the gradients of their gradients.

#include "tests/ops/op_case.h"

namespace gluond::testing::resize {
namespace {

const Numbers kX = {{1, 2, 3, 4}, {0,   1.75, 0.25, 2,    0.5, 2.25, 0.75, 2.5,  1,   2.75, 1.25, 3,
                                   1.5, 0,    1.75, 0.25, 2,   0.5,  2.25, 0.75, 2.5, 1,    2.75, 1.25}};

OP_CASES(
    BilinearResize2D,
    {
        OpCase{"ToCorners",
               "_contrib_BilinearResize2D",
               {kX},
               {{"height", "5"}, {"width", "3"}},
               {{{1, 2, 5, 3}, {0,   1,     2,    0.25, 1.25,  2.25, 0.5, 1.5,   2.5,  0.75, 1.75,  2.75, 1,   2,     3,
                                1.5, 0.875, 0.25, 1.75, 1.125, 0.5,  2,   1.375, 0.75, 2.25, 1.625, 1,    2.5, 1.875, 1.25}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{
            "ToEdges",
            "_contrib_BilinearResize2D",
            {kX},
            {{"height", "5"}, {"width", "3"}, {"align_corners", "False"}},
            {{{1, 2, 5, 3}, {0.291666701, 1,           1.70833361, 0.491666719, 1.20000002,  1.90833363, 0.791666701, 1.5,
                             2.20833361,  1.09166677,  1.80000007, 2.50833368,  1.2916667,   2,          2.70833361,  1.24999997,
                             0.875,       0.499999762, 1.44999999, 1.07500002,  0.699999779, 1.74999997, 1.375,       0.999999762,
                             2.05000004,  1.67500007,  1.29999983, 2.24999997,  1.875,       1.49999976}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"ToSmaller",
               "_contrib_BilinearResize2D",
               {kX},
               {{"height", "2"}, {"width", "3"}, {"align_corners", "False"}},
               {{{1, 2, 2, 3},
                 {0.416666701, 1.125, 1.83333361, 1.1666667, 1.875, 2.58333361, 1.37499997, 1, 0.624999762, 2.12499997, 1.75,
                  1.37499976}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"ToOneElement", "_contrib_BilinearResize2D", {kX}, {{"height", "1"}, {"width", "1"}}, {{{1, 2, 1, 1}, {0, 1.5}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"ToOneRow",
               "_contrib_BilinearResize2D",
               {kX},
               {{"height", "1"}, {"width", "2"}, {"align_corners", "False"}},
               {{{1, 2, 1, 2}, {0.875, 1.125, 0.75, 1}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"OfItsOwnSize",
               "_contrib_BilinearResize2D",
               {kX},
               {{"height", "3"}, {"width", "4"}},
               {{{1, 2, 3, 4}, {0,   1.75, 0.25, 2,    0.5, 2.25, 0.75, 2.5,  1,   2.75, 1.25, 3,
                                1.5, 0,    1.75, 0.25, 2,   0.5,  2.25, 0.75, 2.5, 1,    2.75, 1.25}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"Scaled",
               "_contrib_BilinearResize2D",
               {kX},
               {{"scale_height", "1.5"}, {"scale_width", "0.5"}},
               {{{1, 2, 4, 2},
                 {0, 2, 0.333333343, 2.33333334, 0.666666687, 2.66666669, 1, 3, 1.5, 0.25, 1.83333334, 0.583333343, 2.16666669,
                  0.916666687, 2.5, 1.25}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"OddScaleOfOddAndEven",
               "_contrib_BilinearResize2D",
               {kX},
               {{"mode", "odd_scale"}, {"scale_height", "2"}, {"scale_width", "1.5"}},
               {{{1, 2, 5, 6},
                 {0,           1.05000004,  1.44999993,  0.549999893, 0.950000167, 2,           0.25,       1.30000004, 1.69999993,
                  0.799999893, 1.20000017,  2.25,        0.5,         1.55000004,  1.94999993,  1.04999989, 1.45000017, 2.5,
                  0.75,        1.80000004,  2.19999993,  1.29999989,  1.70000017,  2.75,        1,          2.05000004, 2.44999993,
                  1.54999989,  1.95000017,  3,           1.5,         0.599999964, 0.350000083, 1.40000013, 1.14999986, 0.25,
                  1.75,        0.849999964, 0.600000083, 1.65000013,  1.39999986,  0.5,         2,          1.09999996, 0.850000083,
                  1.90000013,  1.64999986,  0.75,        2.25,        1.34999996,  1.10000008,  2.15000013, 1.89999986, 1,
                  2.5,         1.59999996,  1.35000008,  2.40000013,  2.14999986,  1.25}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"OddScaleDownToOne",
               "_contrib_BilinearResize2D",
               {kX},
               {{"mode", "odd_scale"}, {"scale_height", "0.25"}, {"scale_width", "0.25"}},
               {{{1, 2, 1, 1}, {0, 1.5}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"ToEvenDown",
               "_contrib_BilinearResize2D",
               {kX},
               {{"mode", "to_even_down"}},
               {{{1, 2, 2, 4}, {0, 1.75, 0.25, 2, 1, 2.75, 1.25, 3, 1.5, 0, 1.75, 0.25, 2.5, 1, 2.75, 1.25}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{
            "ToEvenUp",
            "_contrib_BilinearResize2D",
            {kX},
            {{"mode", "to_even_up"}},
            {{{1, 2, 4, 4}, {0,           1.75,        0.25,        2,           0.333333343, 2.08333334,  0.583333343, 2.33333334,
                             0.666666687, 2.41666669,  0.916666687, 2.66666669,  1,           2.75,        1.25,        3,
                             1.5,         0,           1.75,        0.25,        1.83333334,  0.333333343, 2.08333334,  0.583333343,
                             2.16666669,  0.666666687, 2.41666669,  0.916666687, 2.5,         1,           2.75,        1.25}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"ToOddDown",
               "_contrib_BilinearResize2D",
               {kX},
               {{"mode", "to_odd_down"}},
               {{{1, 2, 3, 3}, {0, 1, 2, 0.5, 1.5, 2.5, 1, 2, 3, 1.5, 0.875, 0.25, 2, 1.375, 0.75, 2.5, 1.875, 1.25}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"ToOddUp",
               "_contrib_BilinearResize2D",
               {kX},
               {{"mode", "to_odd_up"}},
               {{{1, 2, 3, 5},
                 {0,   1.3125, 1,     0.6875, 2,    0.5, 1.8125, 1.5,   1.1875, 2.5,  1,   2.3125, 2,     1.6875, 3,
                  1.5, 0.375,  0.875, 1.375,  0.25, 2,   0.875,  1.375, 1.875,  0.75, 2.5, 1.375,  1.875, 2.375,  1.25}}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"LikeAnother",
               "_contrib_BilinearResize2D",
               {kX, {{1, 1, 2, 6}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}},
               {{"mode", "like"}},
               {{{1, 2, 2, 6}, {0,          1.05000004, 1.44999993, 0.549999893, 0.950000167, 2,           1,           2.05000004,
                                2.44999993, 1.54999989, 1.95000017, 3,           1.5,         0.599999964, 0.350000083, 1.40000013,
                                1.14999986, 0.25,       2.5,        1.59999996,  1.35000008,  2.40000013,  2.14999986,  1.25}}}}
            .Constant({1})
            .TwiceDifferentiable()
            .Tolerance(4),
        {"OfNoImages", "_contrib_BilinearResize2D", {{{0, 2, 3, 4}, {}}}, {{"height", "2"}, {"width", "2"}}, {{{0, 2, 2, 2}, {}}}},
        {"LikeNothing", "_contrib_BilinearResize2D", {kX, {{1, 0, 0, 2}, {}}}, {{"mode", "like"}}, {{{1, 2, 0, 2}, {}}}},
        OpCase{"OfOneElement",
               "_contrib_BilinearResize2D",
               {{{1, 1, 1, 1}, {3}}},
               {{"height", "2"}, {"width", "2"}},
               {{{1, 1, 2, 2}, {3, 3, 3, 3}}}}
            .TwiceDifferentiable(),
    });

OP_CASES(
    AdaptiveAvgPooling2D,
    {
        OpCase{"ToOneElement", "_contrib_AdaptiveAvgPooling2D", {kX}, {}, {{{1, 2, 1, 1}, {1.5, 1.375}}}}.TwiceDifferentiable(),
        OpCase{"ToASquare",
               "_contrib_AdaptiveAvgPooling2D",
               {kX},
               {{"output_size", "(2,)"}},
               {{{1, 2, 2, 2}, {1.125, 1.375, 1.625, 1.875, 1, 1.25, 1.5, 1.75}}}}
            .TwiceDifferentiable(),
        OpCase{"WithOverlappingWindows",
               "_contrib_AdaptiveAvgPooling2D",
               {kX},
               {{"output_size", "(2, 3)"}},
               {{{1, 2, 2, 3}, {1.125, 1.25, 1.375, 1.625, 1.75, 1.875, 1, 1.125, 1.25, 1.5, 1.625, 1.75}}}}
            .TwiceDifferentiable(),
        OpCase{"ToMoreElements",
               "_contrib_AdaptiveAvgPooling2D",
               {kX},
               {{"output_size", "(5, 6)"}},
               {{{1, 2, 5, 6}, {0,    0.875, 1.75, 0.25, 1.125, 2,    0.25, 1.125, 2,    0.5, 1.375, 2.25, 0.5,  1.375, 2.25,
                                0.75, 1.625, 2.5,  0.75, 1.625, 2.5,  1,    1.875, 2.75, 1,   1.875, 2.75, 1.25, 2.125, 3,
                                1.5,  0.75,  0,    1.75, 1,     0.25, 1.75, 1,     0.25, 2,   1.25,  0.5,  2,    1.25,  0.5,
                                2.25, 1.5,   0.75, 2.25, 1.5,   0.75, 2.5,  1.75,  1,    2.5, 1.75,  1,    2.75, 2,     1.25}}}}
            .TwiceDifferentiable(),
        OpCase{"OfItsOwnSize",
               "_contrib_AdaptiveAvgPooling2D",
               {kX},
               {{"output_size", "(3, 4)"}},
               {{{1, 2, 3, 4}, {0,   1.75, 0.25, 2,    0.5, 2.25, 0.75, 2.5,  1,   2.75, 1.25, 3,
                                1.5, 0,    1.75, 0.25, 2,   0.5,  2.25, 0.75, 2.5, 1,    2.75, 1.25}}}}
            .TwiceDifferentiable(),
        // A warp of a GPU adds up each of these windows, of x in the first two and of dy in the third.
        OpCase{"OfTallWindows", "_contrib_AdaptiveAvgPooling2D", {Shuffled({1, 2, 33, 9}, -1, 1)}, {{"output_size", "(2, 1)"}}}
            .TwiceDifferentiable(),
        OpCase{"OfWideWindows", "_contrib_AdaptiveAvgPooling2D", {Shuffled({2, 1, 5, 70}, -1, 1)}, {{"output_size", "(1, 2)"}}}
            .TwiceDifferentiable(),
        OpCase{
            "ToManyMoreElements", "_contrib_AdaptiveAvgPooling2D", {Shuffled({1, 1, 2, 2}, -1, 1)}, {{"output_size", "(19, 35)"}}}
            .TwiceDifferentiable(),
        {"OfNoImages", "_contrib_AdaptiveAvgPooling2D", {{{0, 2, 3, 4}, {}}}, {{"output_size", "2"}}, {{{0, 2, 2, 2}, {}}}},
        OpCase{"OfOneElement",
               "_contrib_AdaptiveAvgPooling2D",
               {{{1, 1, 1, 1}, {3}}},
               {{"output_size", "(2, 1)"}},
               {{{1, 1, 2, 1}, {3, 3}}}}
            .TwiceDifferentiable(),
    });

// INVALID_ARGUMENT, with a message that has `part`.
void ExpectRefused(const std::string& part, const std::string& op, const std::vector<Numbers>& x, const AttrDict& attrs = {}) {
  const absl::Status status = ErrorOf(op, x, attrs);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << op << ": " << status;
  EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
}

TEST(BilinearResize2D, RefusesSizesThatAreNone) {
  const std::string op = "_contrib_BilinearResize2D";
  ExpectRefused("'height'", op, {kX}, {{"height", "0"}});
  ExpectRefused("'width'", op, {kX}, {{"width", "4294967296"}});
  ExpectRefused("'scale_width' is 1e+12, which makes 4e+12 of 4 elements", op, {kX}, {{"scale_width", "1e12"}});
  ExpectRefused("'scale_height' is 0.25, which makes 0 of 3 elements", op, {kX}, {{"scale_height", "0.25"}});
  ExpectRefused("'scale_height'", op, {kX}, {{"scale_height", "nan"}});
  ExpectRefused("expected numbers for odd_scale", op, {kX}, {{"mode", "odd_scale"}});
  ExpectRefused("more than 2^48 elements", op, {{{1, 1024, 1, 1}, std::vector<double>(1024)}},
                {{"height", "1048576"}, {"width", "1048576"}});
  ExpectRefused("[1,1,0,4], expected at least one element", op, {{{1, 1, 0, 4}, {}}});
  ExpectRefused("[2]", op, {{{2}, {0, 0}}});
}

TEST(AdaptiveAvgPooling2D, RefusesSizesThatAreNone) {
  const std::string op = "_contrib_AdaptiveAvgPooling2D";
  ExpectRefused("want at most two", op, {kX}, {{"output_size", "(1, 2, 3)"}});
  ExpectRefused("output_size", op, {kX}, {{"output_size", "(0, 2)"}});
  ExpectRefused("output_size", op, {kX}, {{"output_size", "4294967296"}});
  ExpectRefused("more than 2^48 elements", op, {{{1, 1024, 1, 1}, std::vector<double>(1024)}}, {{"output_size", "1048576"}});
  ExpectRefused("[1,1,0,4], expected at least one element", op, {{{1, 1, 0, 4}, {}}});
  ExpectRefused("[2]", op, {{{2}, {0, 0}}});
}

}  // namespace
}  // namespace gluond::testing::resize
