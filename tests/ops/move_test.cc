// Operators that repeat, turn around, cut, replace and rearrange elements. Numbers are NumPy's.

#include <numeric>

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::move {
namespace {

const std::vector<double> kSix = {1, 2, 3, 4, 5, 6}, kEight = {1, 2, 3, 4, 5, 6, 7, 8};
const Numbers kX = {{2, 3}, kSix}, kCube = {{2, 2, 2}, kEight};

OP_CASES(
    Repeat,
    {
        OpCase{"TileRows", "tile", {kX}, {{"reps", "(2, 1)"}}, {{{4, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}}}}
            .TwiceDifferentiable(),
        {"TileColumns", "tile", {kX}, {{"reps", "(2,)"}}, {{{2, 6}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}}}},
        {"TileBoth",
         "tile",
         {{{2, 2}, {1, 2, 3, 4}}},
         {{"reps", "(2, 2)"}},
         {{{4, 4}, {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4}}}},
        {"TileMoreAxes", "tile", {{{2}, {1, 2}}}, {{"reps", "(2, 1, 2)"}}, {{{2, 1, 4}, {1, 2, 1, 2, 1, 2, 1, 2}}}},
        {"TileOneElement", "tile", {{{1}, {3}}}, {{"reps", "(2, 3)"}}, {{{2, 3}, {3, 3, 3, 3, 3, 3}}}},
        {"TileOnce", "tile", {kX}, {{"reps", "()"}}, {kX}},
        {"TileNever", "tile", {{{2}, {1, 2}}}, {{"reps", "(2, 0)"}}, {{{2, 0}, {}}}},
        {"TileNothing", "tile", {{{0, 2}, {}}}, {{"reps", "(2, 2)"}}, {{{0, 4}, {}}}},
        OpCase{"RepeatAll", "repeat", {{{2, 2}, {1, 2, 3, 4}}}, {{"repeats", "2"}}, {{{8}, {1, 1, 2, 2, 3, 3, 4, 4}}}}
            .TwiceDifferentiable(),
        {"RepeatRows", "repeat", {{{2, 2}, {1, 2, 3, 4}}}, {{"repeats", "2"}, {"axis", "0"}}, {{{4, 2}, {1, 2, 1, 2, 3, 4, 3, 4}}}},
        {"RepeatColumns",
         "repeat",
         {{{2, 2}, {1, 2, 3, 4}}},
         {{"repeats", "3"}, {"axis", "-1"}},
         {{{2, 6}, {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}}}},
        {"RepeatNever", "repeat", {kX}, {{"repeats", "0"}}, {{{0}, {}}}},
        {"RepeatNothing", "repeat", {{{2, 0}, {}}}, {{"repeats", "2"}, {"axis", "0"}}, {{{4, 0}, {}}}},
    });

OP_CASES(Reverse, {
                      OpCase{"Rows", "reverse", {kX}, {{"axis", "(0,)"}}, {{{2, 3}, {4, 5, 6, 1, 2, 3}}}}.TwiceDifferentiable(),
                      {"Columns", "reverse", {kX}, {{"axis", "-1"}}, {{{2, 3}, {3, 2, 1, 6, 5, 4}}}},
                      {"Both", "reverse", {kX}, {{"axis", "(0, 1)"}}, {{{2, 3}, {6, 5, 4, 3, 2, 1}}}},
                      {"None", "reverse", {kX}, {{"axis", "()"}}, {kX}},
                      {"OneElement", "reverse", {{{1, 1}, {2}}}, {{"axis", "0"}}, {{{1, 1}, {2}}}},
                      {"NoElements", "reverse", {{{0, 2}, {}}}, {{"axis", "0"}}, {{{0, 2}, {}}}},
                  });

OP_CASES(SliceLike, {
                        OpCase{"AllAxes", "slice_like", {kX, {{1, 2}, {0, 0}}}, {}, {{{1, 2}, {1, 2}}}}.TwiceDifferentiable(),
                        {"SomeAxes", "slice_like", {kX, {{1, 2}, {0, 0}}}, {{"axes", "(-1,)"}}, {{{2, 2}, {1, 2, 4, 5}}}},
                        {"AnotherRank", "slice_like", {kX, {{1, 2, 1}, {0, 0}}}, {{"axes", "(1,)"}}, {{{2, 2}, {1, 2, 4, 5}}}},
                        {"Nothing", "slice_like", {kX, {{0, 3}, {}}}, {}, {{{0, 3}, {}}}},
                    });

AttrDict Range(const std::string& begin, const std::string& end, AttrDict more = {}) {
  AttrDict attrs = {{"begin", begin}, {"end", end}};
  attrs.merge(more);
  return attrs;
}

OP_CASES(SliceAssign,
         {
             OpCase{
                 "Part", "_slice_assign", {kX, {{2, 2}, {7, 8, 9, 10}}}, Range("(0, 1)", "(2, 3)"), {{{2, 3}, {1, 7, 8, 4, 9, 10}}}}
                 .TwiceDifferentiable(),
             {"Backwards",
              "_slice_assign",
              {{{5}, {1, 2, 3, 4, 5}}, {{2}, {7, 8}}},
              Range("(3,)", "(0,)", {{"step", "(-2,)"}}),
              {{{5}, {1, 8, 3, 7, 5}}}},
             {"OneElement", "_slice_assign", {kX, {{1, 1}, {9}}}, Range("(1, 2)", "(2, 3)"), {{{2, 3}, {1, 2, 3, 4, 5, 9}}}},
             {"Nothing", "_slice_assign", {kX, {{0, 3}, {}}}, Range("(1,)", "(1,)"), {kX}},
             OpCase{"Scalar",
                    "_slice_assign_scalar",
                    {kX},
                    Range("(None, 1)", "(None, None)", {{"scalar", "9"}}),
                    {{{2, 3}, {1, 9, 9, 4, 9, 9}}}}
                 .TwiceDifferentiable(),
             {"ScalarSteps",
              "_slice_assign_scalar",
              {{{5}, {1, 2, 3, 4, 5}}},
              Range("(0,)", "(5,)", {{"step", "(2,)"}}),
              {{{5}, {0, 2, 0, 4, 0}}}},
             {"ScalarInNothing", "_slice_assign_scalar", {{{0}, {}}}, Range("(0,)", "(1,)"), {{{0}, {}}}},
         });

OP_CASES(
    SplitV2,
    {
        OpCase{"AtIndices", "_split_v2", {kX}, {{"indices", "(0, 1)"}}, {{{2, 1}, {1, 4}}, {{2, 2}, {2, 3, 5, 6}}}}
            .TwiceDifferentiable(),
        {"AnEmptyPart", "_split_v2", {kX}, {{"indices", "(0, 2, 2)"}, {"axis", "0"}}, {{{2, 3}, kSix}, {{0, 3}, {}}, {{0, 3}, {}}}},
        {"UnequalSections",
         "_split_v2",
         {{{5}, {1, 2, 3, 4, 5}}},
         {{"indices", "()"}, {"sections", "3"}, {"axis", "0"}},
         {{{2}, {1, 2}}, {{2}, {3, 4}}, {{1}, {5}}}},
        {"Squeezed",
         "_split_v2",
         {kX},
         {{"indices", "()"}, {"sections", "2"}, {"axis", "0"}, {"squeeze_axis", "True"}},
         {{{3}, {1, 2, 3}}, {{3}, {4, 5, 6}}}},
    });

absl::StatusCode CodeOf(const std::string& op, const AttrDict& attrs, const std::vector<Numbers>& inputs = {kX}) {
  return ErrorOf(op, inputs, attrs).code();
}

TEST(Move, AttributesOutOfRangeAreRefused) {
  constexpr auto kRefused = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(CodeOf("tile", {{"reps", "(-1,)"}}), kRefused);
  EXPECT_EQ(CodeOf("tile", {{"reps", "(281474976710656,)"}}), kRefused);
  EXPECT_EQ(CodeOf("tile", {{"reps", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"}}), kRefused);
  EXPECT_EQ(CodeOf("repeat", {{"repeats", "2"}, {"axis", "2"}}), kRefused);
  EXPECT_EQ(CodeOf("reverse", {{"axis", "(0, 0)"}}), kRefused);
  EXPECT_EQ(CodeOf("reverse", {{"axis", "2"}}), kRefused);
  EXPECT_EQ(CodeOf("slice_like", {}, {kX, {{2, 4}, kEight}}), kRefused);
  EXPECT_EQ(CodeOf("slice_like", {}, {kX, {{2}, {0, 0}}}), kRefused);
  EXPECT_EQ(CodeOf("_slice_assign", Range("(0,)", "(1,)"), {kX, {{1, 2}, {0, 0}}}), kRefused);
  EXPECT_EQ(CodeOf("_slice_assign_scalar", Range("(0,)", "(1, 2)")), kRefused);
  EXPECT_EQ(CodeOf("_split_v2", {{"indices", "(0, 4)"}}), kRefused);
  EXPECT_EQ(CodeOf("_split_v2", {{"indices", "(0, 2, 1)"}}), kRefused);
  EXPECT_EQ(CodeOf("_split_v2", {{"indices", "(1, 2)"}}), kRefused);
  EXPECT_EQ(CodeOf("_split_v2", {{"indices", "()"}}), kRefused);
  EXPECT_EQ(CodeOf("_split_v2", {{"indices", "(0, 1)"}, {"squeeze_axis", "1"}}), kRefused);
}

// More axes than one copy has: each axis of the highest rank is one of x and one of repetitions.
TEST(Tile, OfTheHighestRank) {
  Numbers x = {{2, 2, 2, 2, 2, 2, 2, 2}, std::vector<double>(256)};
  std::iota(x.values.begin(), x.values.end(), 0);
  std::vector<HostTensor> inputs = {HostTensor::Of(x, DType::kFloat32)};
  const NodePtr node = *TryMakeNode("tile", "y", {MakeVariable("x")}, {{"reps", "(1, 2, 2, 2, 2, 2, 2, 2)"}});
  const auto ys = OneByOne().Call(*node, &inputs);
  ASSERT_TRUE(ys.ok()) << ys.status();
  const std::vector<double> y = (*ys)[0].values();
  for (int64_t i = 0; i < (*ys)[0].shape.Size(); ++i) {
    double want = 0;
    for (int axis = 0, bit = 0; axis < 8; ++axis) {  // From the last axis on, all but the first of size 4 in y.
      want += static_cast<double>((i >> bit) & 1) * (1 << axis);
      bit += 2;
    }
    ASSERT_EQ(y[i], want) << i;
  }
}

}  // namespace
}  // namespace gluond::testing::move
