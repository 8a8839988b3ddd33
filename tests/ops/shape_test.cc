// Operators that move elements, and change none.

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::shape {
namespace {

const std::vector<double> kSix = {1, 2, 3, 4, 5, 6}, kEight = {1, 2, 3, 4, 5, 6, 7, 8};
const Numbers kX = {{2, 3}, kSix}, kCube = {{2, 2, 2}, kEight};

AttrDict ShapeAttr(const std::string& codes) { return {{"shape", codes}}; }

OP_CASES(Reshape,
         {
             OpCase{"Sizes", "Reshape", {kX}, ShapeAttr("(3, 2)"), {{{3, 2}, kSix}}}.TwiceDifferentiable(),
             {"ZeroKeeps", "Reshape", {kX}, ShapeAttr("(0, 1, 3)"), {{{2, 1, 3}, kSix}}},
             {"MinusOneIsTheRest", "Reshape", {kX}, ShapeAttr("(-1,)"), {{{6}, kSix}}},
             {"MinusTwoKeepsTheRest", "Reshape", {kCube}, ShapeAttr("(0, -2, 1)"), {{{2, 2, 2, 1}, kEight}}},
             {"MinusThreeJoins", "Reshape", {kCube}, ShapeAttr("(-3, 0)"), {{{4, 2}, kEight}}},
             {"MinusFourSplits", "Reshape", {{{4, 2}, kEight}}, ShapeAttr("(-4, -1, 2, -2)"), {{{2, 2, 2}, kEight}}},
             {"FromTheRight", "Reshape", {{{2, 1, 3}, kSix}}, {{"shape", "(-1, 0)"}, {"reverse", "True"}}, {{{2, 3}, kSix}}},
             {"SplitsFromTheRight",
              "Reshape",
              {{{1, 6}, kSix}},
              {{"shape", "(0, 2, -1, -4)"}, {"reverse", "True"}},
              {{{1, 2, 3}, kSix}}},
             {"OfAnOldModel", "Reshape", {kCube}, {{"target_shape", "(2, 0)"}}, {{{2, 4}, kEight}}},
             {"OfAnOldModelThatKeepsTheBatch",
              "Reshape",
              {kX},
              {{"target_shape", "(0, 0, 1)"}, {"keep_highest", "True"}},
              {{{2, 3, 1}, kSix}}},
             {"ShapeGoesBeforeTargetShape", "Reshape", {kX}, {{"shape", "(3, 2)"}, {"target_shape", "(0, 0)"}}, {{{3, 2}, kSix}}},
             {"NoElements", "Reshape", {{{0, 3}, {}}}, ShapeAttr("(0, -2)"), {{{0, 3}, {}}}},
             {"Like", "reshape_like", {kX, {{6}, kSix}}, {}, {{{6}, kSix}}},
             {"LikeInPart",
              "reshape_like",
              {{{6, 1}, kSix}, {{2, 3, 1}, kSix}},
              {{"lhs_begin", "0"}, {"lhs_end", "1"}, {"rhs_begin", "0"}, {"rhs_end", "2"}},
              {{{2, 3, 1}, kSix}}},
             {"Flatten", "Flatten", {kCube}, {}, {{{2, 4}, kEight}}},
             {"FlattenAVector", "Flatten", {{{2}, {1, 2}}}, {}, {{{2, 1}, {1, 2}}}},
             {"ExpandDims", "expand_dims", {kX}, {{"axis", "1"}}, {{{2, 1, 3}, kSix}}},
             {"ExpandDimsAtTheEnd", "expand_dims", {kX}, {{"axis", "-1"}}, {{{2, 3, 1}, kSix}}},
             {"Squeeze", "squeeze", {{{1, 2, 1, 3}, kSix}}, {}, {{{2, 3}, kSix}}},
             {"SqueezeOneAxis", "squeeze", {{{1, 2, 1, 3}, kSix}}, {{"axis", "2"}}, {{{1, 2, 3}, kSix}}},
         });

OP_CASES(Transpose, {
                        OpCase{"Matrix", "transpose", {kX}, {}, {{{3, 2}, {1, 4, 2, 5, 3, 6}}}}.TwiceDifferentiable(),
                        {"ByAxes", "transpose", {kCube}, {{"axes", "(2, 0, 1)"}}, {{{2, 2, 2}, {1, 3, 5, 7, 2, 4, 6, 8}}}},
                        {"InnerAxes", "transpose", {kCube}, {{"axes", "(0, 2, 1)"}}, {{{2, 2, 2}, {1, 3, 2, 4, 5, 7, 6, 8}}}},
                        {"SwapAxis", "SwapAxis", {kX}, {{"dim1", "0"}, {"dim2", "1"}}, {{{3, 2}, {1, 4, 2, 5, 3, 6}}}},
                        {"NoElements", "transpose", {{{0, 3}, {}}}, {}, {{{3, 0}, {}}}},
                    });

AttrDict Slice(const std::string& begin, const std::string& end, const std::string& step = "()") {
  return {{"begin", begin}, {"end", end}, {"step", step}};
}

OP_CASES(Slice,
         {
             OpCase{"Part", "slice", {kX}, Slice("(0, 1)", "(2, 3)"), {{{2, 2}, {2, 3, 5, 6}}}}.TwiceDifferentiable(),
             {"FewerAxes", "slice", {kX}, Slice("(1,)", "(2,)"), {{{1, 3}, {4, 5, 6}}}},
             {"FromTheEnd", "slice", {kX}, Slice("(None, -2)", "(None, None)"), {{{2, 2}, {2, 3, 5, 6}}}},
             {"Steps", "slice", {{{6}, kSix}}, Slice("(1,)", "(6,)", "(2,)"), {{{3}, {2, 4, 6}}}},
             {"Backwards", "slice", {{{6}, kSix}}, Slice("(None,)", "(None,)", "(-2,)"), {{{3}, {6, 4, 2}}}},
             {"BeyondTheEndIsCut", "slice", {{{6}, kSix}}, Slice("(-9,)", "(99,)"), {{{6}, kSix}}},
             {"Nothing", "slice", {{{6}, kSix}}, Slice("(4,)", "(2,)"), {{{0}, {}}}},
             {"HugeStep", "slice", {{{6}, kSix}}, Slice("(0,)", "(6,)", "(9223372036854775807,)"), {{{1}, {1}}}},
             OpCase{"Axis", "slice_axis", {kX}, {{"axis", "1"}, {"begin", "1"}, {"end", "None"}}, {{{2, 2}, {2, 3, 5, 6}}}}
                 .TwiceDifferentiable(),
             {"AxisFromTheEnd", "slice_axis", {kX}, {{"axis", "-1"}, {"begin", "-3"}, {"end", "-1"}}, {{{2, 2}, {1, 2, 4, 5}}}},
         });

OP_CASES(Join,
         {
             OpCase{"Rows", "Concat", {{{1, 2}, {1, 2}}, {{2, 2}, {3, 4, 5, 6}}}, {{"dim", "0"}}, {{{3, 2}, kSix}}}
                 .TwiceDifferentiable(),
             {"Columns", "Concat", {{{2, 1}, {1, 4}}, {{2, 2}, {2, 3, 5, 6}}}, {}, {kX}},
             {"One", "Concat", {kX}, {}, {kX}},
             {"WithNothing", "Concat", {kX, {{2, 0}, {}}}, {}, {kX}},
             OpCase{"Stack", "stack", {{{2}, {1, 2}}, {{2}, {3, 4}}}, {}, {{{2, 2}, {1, 2, 3, 4}}}}.TwiceDifferentiable(),
             {"StackColumns", "stack", {{{2}, {1, 3}}, {{2}, {2, 4}}}, {{"axis", "-1"}}, {{{2, 2}, {1, 2, 3, 4}}}},
             OpCase{"Split", "SliceChannel", {kX}, {{"num_outputs", "3"}}, {{{2, 1}, {1, 4}}, {{2, 1}, {2, 5}}, {{2, 1}, {3, 6}}}}
                 .TwiceDifferentiable(),
             {"SplitAndSqueeze",
              "SliceChannel",
              {kX},
              {{"num_outputs", "2"}, {"axis", "0"}, {"squeeze_axis", "True"}},
              {{{3}, {1, 2, 3}}, {{3}, {4, 5, 6}}}},
         });

OP_CASES(BroadcastTo, {
                          OpCase{"Shape", "broadcast_to", {{{2, 1}, {1, 2}}}, ShapeAttr("(0, 3)"), {{{2, 3}, {1, 1, 1, 2, 2, 2}}}}
                              .TwiceDifferentiable(),
                          {"MoreAxes", "broadcast_to", {{{2}, {1, 2}}}, ShapeAttr("(2, 2)"), {{{2, 2}, {1, 2, 1, 2}}}},
                          {"Like", "broadcast_like", {{{1, 2}, {1, 2}}, {{2, 2}, {0, 0, 0, 0}}}, {}, {{{2, 2}, {1, 2, 1, 2}}}},
                          {"LikeSomeAxes",
                           "broadcast_like",
                           {{{1, 2}, {1, 2}}, {{3}, {0, 0, 0}}},
                           {{"lhs_axes", "(0,)"}, {"rhs_axes", "(0,)"}},
                           {{{3, 2}, {1, 2, 1, 2, 1, 2}}}},
                          {"Axis",
                           "broadcast_axis",
                           {{{1, 2, 1}, {1, 2}}},
                           {{"axis", "(0, 2)"}, {"size", "(2, 2)"}},
                           {{{2, 2, 2}, {1, 1, 2, 2, 1, 1, 2, 2}}}},
                      });

TEST(Reshape, NeedsAShape) {
  EXPECT_NE(ErrorOf("Reshape", {kX}, {}).message().find("Required parameter shape"), absl::string_view::npos);
}

TEST(Reshape, RefusesOtherSizes) {
  const absl::Status status = ErrorOf("Reshape", {kX}, ShapeAttr("(4, 2)"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("cannot reshape [2,3] to (4, 2)"), absl::string_view::npos) << status;
  for (const char* codes : {"(-1, -1)", "(-5,)", "(0, 0, 0)", "(-4, 2)", "(-3, -3)", "(-1, 4)", "(-4, 5, 2, -2)",
                            "(4611686018427387904, 4)", "(-1, 4611686018427387904, 4)"}) {
    EXPECT_EQ(ErrorOf("Reshape", {kX}, ShapeAttr(codes)).code(), absl::StatusCode::kInvalidArgument) << codes;
  }
}

TEST(Shape, AttributesOutOfRangeAreRefused) {
  const auto refused = [](const std::string& op, const AttrDict& attrs) {
    EXPECT_EQ(ErrorOf(op, {kX}, attrs).code(), absl::StatusCode::kInvalidArgument) << op;
  };
  refused("transpose", {{"axes", "(0, 0)"}});
  refused("transpose", {{"axes", "(0,)"}});
  refused("SwapAxis", {{"dim1", "2"}});
  refused("expand_dims", {{"axis", "3"}});
  refused("squeeze", {{"axis", "0"}});
  refused("slice", Slice("(0,)", "(1, 1)"));
  refused("slice", Slice("(0,)", "(1,)", "(0,)"));
  refused("slice", Slice("(0, 0, 0)", "(1, 1, 1)"));
  refused("slice_axis", {{"axis", "5"}, {"begin", "0"}, {"end", "1"}});
  refused("Concat", {{"dim", "2"}});
  refused("SliceChannel", {{"num_outputs", "2"}});
  refused("SliceChannel", {{"num_outputs", "0"}});
  refused("broadcast_to", ShapeAttr("(4, 3)"));
  refused("broadcast_to", ShapeAttr("(3,)"));
  refused("broadcast_axis", {{"axis", "0"}, {"size", "5"}});
}

// Inference from the output back, for parameters whose shapes come last.
TEST(Shape, InfersItsInputFromItsOutput) {
  const auto backwards = [](const std::string& op, AttrDict dict, Shape out) {
    NodeAttrs attrs;
    attrs.dict = std::move(dict);
    EXPECT_TRUE(Op::Find(op)->ParseAttrs(&attrs).ok());
    ShapeVector in(1), y = {out};
    EXPECT_TRUE((*Op::Find(op)->GetAttr<FInferShape>("FInferShape"))(attrs, &in, &y).ok());
    return in[0];
  };
  EXPECT_EQ(backwards("transpose", {{"axes", "(1, 2, 0)"}}, {2, 3, 4}), Shape({4, 2, 3}));
  EXPECT_EQ(backwards("expand_dims", {{"axis", "1"}}, {2, 1, 4}), Shape({2, 4}));
  EXPECT_EQ(backwards("exp", {}, {2, 3}), Shape({2, 3}));
  EXPECT_EQ(backwards("SliceChannel", {{"num_outputs", "1"}, {"axis", "0"}}, {2, 3}), Shape({2, 3}));
}

// Larger than a tile or a square of the copying loops.
TEST(Transpose, LargeMatrices) {
  const int64_t batch = 3, rows = 70, columns = 45;
  Numbers x = {{batch, rows, columns}, {}}, y = {{batch, columns, rows}, {}};
  for (int64_t i = 0; i < batch * rows * columns; ++i) x.values.push_back(static_cast<double>(i));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = 0; r < rows; ++r) y.values.push_back(x.values[(b * rows + r) * columns + c]);
    }
  }
  std::vector<HostTensor> inputs = {HostTensor::Of(x, DType::kFloat32)};
  const NodePtr node = *TryMakeNode("transpose", "y", {MakeVariable("x")}, {{"axes", "(0, 2, 1)"}});
  EXPECT_EQ((*OneByOne().Call(*node, &inputs))[0].values(), y.values);
}

// Rows below and above a vector, and long ones; the second thread's piece begins in the middle of a run of rows.
TEST(Transpose, HeadsOfAnyWidth) {
  const int64_t batch = 3, steps = 7, heads = 5;
  const NodePtr node = *TryMakeNode("transpose", "y", {MakeVariable("x")}, {{"axes", "(0, 2, 1, 3)"}});
  for (const DType type : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const int64_t width : {2, 3, 8, 37, 600}) {
      Numbers x = {{batch, steps, heads, width}, {}};
      for (int64_t i = 0; i < x.shape.Size(); ++i) x.values.push_back(static_cast<double>(i % 101));
      std::vector<double> y;
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t s = 0; s < steps; ++s) {
            for (int64_t w = 0; w < width; ++w) y.push_back(x.values[((b * steps + s) * heads + h) * width + w]);
          }
        }
      }
      std::vector<HostTensor> inputs = {HostTensor::Of(x, type)};
      EXPECT_EQ((*OneByOne().Call(*node, &inputs))[0].values(), y) << type << " " << width;
    }
  }
}

}  // namespace
}  // namespace gluond::testing::shape
