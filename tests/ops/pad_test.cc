// Operators that put elements around others, on diagonals, and into blocks. Numbers are NumPy's.

#include "tests/ops/op_case.h"

namespace gluond::testing::pad {
namespace {

const Numbers kX = {{2, 3}, {1, 2, 3, 4, 5, 6}}, kCube = {{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};

AttrDict Padding(const std::string& mode, const std::string& width, AttrDict more = {}) {
  AttrDict attrs = {{"mode", mode}, {"pad_width", width}};
  attrs.merge(more);
  return attrs;
}

OP_CASES(
    Pad,
    {
        OpCase{"Constant",
               "Pad",
               {kX},
               Padding("constant", "(1, 0, 0, 2)", {{"constant_value", "9"}}),
               {{{3, 5}, {9, 9, 9, 9, 9, 1, 2, 3, 9, 9, 4, 5, 6, 9, 9}}}}
            .TwiceDifferentiable(),
        OpCase{"Edge", "Pad", {kX}, Padding("edge", "(1, 1, 2, 1)"), {{{4, 6}, {1, 1, 1, 2, 3, 3, 1, 1, 1, 2, 3, 3,
                                                                                4, 4, 4, 5, 6, 6, 4, 4, 4, 5, 6, 6}}}}
            .TwiceDifferentiable(),
        OpCase{
            "EdgeOfOneElement", "Pad", {{{2, 1}, {5, 7}}}, Padding("edge", "(0, 0, 1, 2)"), {{{2, 4}, {5, 5, 5, 5, 7, 7, 7, 7}}}},
        OpCase{"Reflect", "Pad", {kX}, Padding("reflect", "(1, 1, 2, 2)"), {{{4, 7}, {6, 5, 4, 5, 6, 5, 4, 3, 2, 1, 2, 3, 2, 1,
                                                                                      6, 5, 4, 5, 6, 5, 4, 3, 2, 1, 2, 3, 2, 1}}}}
            .TwiceDifferentiable(),
        {"ReflectAtOneEnd", "Pad", {{{3}, {1, 2, 3}}}, Padding("reflect", "(0, 2)"), {{{5}, {1, 2, 3, 2, 1}}}},
        // Each outermost element goes to 11 x 11 places and more.
        OpCase{"EdgeByMuch", "Pad", {kX}, Padding("edge", "(10, 11, 10, 12)")}.TwiceDifferentiable(),
        {"ByNothing", "Pad", {kX}, Padding("reflect", "(0, 0, 0, 0)"), {kX}},
        {"Nothing", "Pad", {{{0, 1}, {}}}, Padding("constant", "(1, 1, 0, 0)"), {{{2, 1}, {0, 0}}}},
    });

OP_CASES(
    Diag,
    {
        OpCase{"OfAMatrix", "diag", {kX}, {}, {{{2}, {1, 5}}}}.TwiceDifferentiable(),
        {"Above", "diag", {kX}, {{"k", "2"}}, {{{1}, {3}}}},
        {"Below", "diag", {kX}, {{"k", "-1"}}, {{{1}, {4}}}},
        OpCase{"OfAVector", "diag", {{{2}, {1, 2}}}, {{"k", "1"}}, {{{3, 3}, {0, 1, 0, 0, 0, 2, 0, 0, 0}}}}.TwiceDifferentiable(),
        {"VectorBelow", "diag", {{{1}, {3}}}, {{"k", "-1"}}, {{{2, 2}, {0, 0, 3, 0}}}},
        OpCase{"OfMatrices", "diag", {kCube}, {{"axis1", "0"}, {"axis2", "2"}}, {{{2, 2}, {1, 6, 3, 8}}}}.TwiceDifferentiable(),
        {"OfTransposedMatrices",
         "diag",
         {{{2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}},
         {{"k", "1"}, {"axis1", "-1"}, {"axis2", "-2"}},
         {{{2, 2}, {3, 6, 9, 12}}}},
        {"OfNoMatrices", "diag", {{{0, 2, 2}, {}}}, {{"axis1", "1"}, {"axis2", "2"}}, {{{0, 2}, {}}}},
    });

const Numbers kDeep = {{1, 8, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
const Numbers kWide = {{1, 2, 2, 4}, {1, 5, 2, 6, 9, 13, 10, 14, 3, 7, 4, 8, 11, 15, 12, 16}};

OP_CASES(Blocks, {
                     OpCase{"DepthToSpace", "depth_to_space", {kDeep}, {{"block_size", "2"}}, {kWide}}.TwiceDifferentiable(),
                     OpCase{"SpaceToDepth", "space_to_depth", {kWide}, {{"block_size", "2"}}, {kDeep}}.TwiceDifferentiable(),
                     {"OfOnePixel", "depth_to_space", {kDeep}, {{"block_size", "1"}}, {kDeep}},
                     {"OfNothing", "space_to_depth", {{{0, 1, 2, 2}, {}}}, {{"block_size", "2"}}, {{{0, 4, 1, 1}, {}}}},
                 });

TEST(Pad, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& op, const AttrDict& attrs, const Numbers& x = kX) {
    EXPECT_EQ(ErrorOf(op, {x}, attrs).code(), absl::StatusCode::kInvalidArgument) << op;
  };
  refused("Pad", Padding("edge", "(0, 0)"));
  refused("Pad", Padding("edge", "(0, 0, -1, 0)"));
  refused("Pad", Padding("reflect", "(2, 0, 0, 0)"));
  refused("Pad", Padding("edge", "(1, 0)"), {{0}, {}});
  refused("Pad", Padding("wrap", "(0, 0, 0, 0)"));
  refused("diag", {{"k", "3"}});
  refused("diag", {{"axis1", "1"}});
  refused("depth_to_space", {{"block_size", "3"}}, kDeep);
  refused("space_to_depth", {{"block_size", "2"}}, kDeep);
  refused("space_to_depth", {{"block_size", "1"}});
}

}  // namespace
}  // namespace gluond::testing::pad
