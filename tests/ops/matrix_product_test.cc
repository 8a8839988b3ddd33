// dot, batch_dot, linalg_gemm2 and FullyConnected, which Dense is made of: values by hand, their gradients and the
// gradients of those. Every transposition has a row.

#include "tests/ops/op_case.h"

namespace gluond::testing::matrix_product {
namespace {

const Numbers kA = {{2, 3}, {0, 0.5, 1, 1.5, 2, 2.5}};
const Numbers kATransposed = {{3, 2}, {0, 1.5, 0.5, 2, 1, 2.5}};
const Numbers kB = {{3, 2}, {-2, -1, 0, 1, 2, 3}};
const Numbers kBTransposed = {{2, 3}, {-2, 0, 2, -1, 1, 3}};
const Numbers kAB = {{2, 2}, {2, 3.5, 2, 8}};

Numbers Stack(const Numbers& a, double scale) {  // (1, 2) batches: the matrix, and scale times it.
  Numbers s = {{1, 2, a.shape[0], a.shape[1]}, a.values};
  for (double v : a.values) s.values.push_back(scale * v);
  return s;
}

OP_CASES(
    Dot,
    {
        OpCase{"OfMatrices", "dot", {kA, kB}, {}, {kAB}}.TwiceDifferentiable(),
        OpCase{"WithTheFirstTransposed", "dot", {kATransposed, kB}, {{"transpose_a", "True"}}, {kAB}}.TwiceDifferentiable(),
        OpCase{"WithTheSecondTransposed", "dot", {kA, kBTransposed}, {{"transpose_b", "True"}}, {kAB}}.TwiceDifferentiable(),
        OpCase{"WithBothTransposed", "dot", {kATransposed, kBTransposed}, {{"transpose_a", "True"}, {"transpose_b", "True"}}, {kAB}}
            .TwiceDifferentiable(),
        OpCase{"OfVectorsHasOneElement", "dot", {{{3}, {1, 2, 3}}, {{3}, {4, 5, 6}}}, {}, {{{1}, {32}}}}.TwiceDifferentiable(),
        OpCase{"OfVectorAndMatrix", "dot", {{{2}, {1, -1}}, kA}, {}, {{{3}, {-1.5, -1.5, -1.5}}}}.TwiceDifferentiable(),
        OpCase{"OverTheLastAndFirstAxis",
               "dot",
               {{{1, 2, 2}, {1, 2, 3, 4}}, {{2, 1, 2}, {1, 0, 0, 1}}},
               {},
               {{{1, 2, 1, 2}, {1, 2, 3, 4}}}}
            .TwiceDifferentiable(),
        OpCase{"OverNothingIsZero", "dot", {{{2, 0}, {}}, {{0, 1}, {}}}, {}, {{{2, 1}, {0, 0}}}},
    });

OP_CASES(BatchDot,
         {
             OpCase{"OfEachMatrix", "batch_dot", {Stack(kA, 2), Stack(kB, -1)}, {}, {Stack(kAB, -2)}}.TwiceDifferentiable(),
             OpCase{"WithTheFirstTransposed",
                    "batch_dot",
                    {Stack(kATransposed, 2), Stack(kB, -1)},
                    {{"transpose_a", "True"}},
                    {Stack(kAB, -2)}}
                 .TwiceDifferentiable(),
             OpCase{"WithTheSecondTransposed",
                    "batch_dot",
                    {Stack(kA, 2), Stack(kBTransposed, -1)},
                    {{"transpose_b", "True"}},
                    {Stack(kAB, -2)}}
                 .TwiceDifferentiable(),
         });

OP_CASES(Gemm2,
         {
             OpCase{"IsScaled", "_linalg_gemm2", {kA, kB}, {{"alpha", "-2"}}, {{{2, 2}, {-4, -7, -4, -16}}}}.TwiceDifferentiable(),
             OpCase{"WithBothTransposed",
                    "_linalg_gemm2",
                    {Stack(kATransposed, 2), Stack(kBTransposed, -1)},
                    {{"transpose_a", "1"}, {"transpose_b", "1"}},
                    {Stack(kAB, -2)}}
                 .TwiceDifferentiable(),
         });

OP_CASES(
    FullyConnected,
    {
        OpCase{"IsXWTransposedPlusB",
               "FullyConnected",
               {kA, kBTransposed, {{2}, {0.5, -1}}},
               {{"num_hidden", "2"}},
               {{{2, 2}, {2.5, 2.5, 2.5, 7}}}}
            .TwiceDifferentiable(),
        OpCase{"WithoutBias", "FullyConnected", {kA, kBTransposed}, {{"num_hidden", "2"}, {"no_bias", "True"}}, {kAB}}
            .TwiceDifferentiable(),
        OpCase{"FlattensAllButTheBatch",
               "FullyConnected",
               {{{2, 3, 1}, kA.values}, kBTransposed, {{2}, {0, 0}}},
               {{"num_hidden", "2"}},
               {kAB}}
            .TwiceDifferentiable(),
        OpCase{"OfTheLastAxis",
               "FullyConnected",
               {{{1, 2, 3}, kA.values}, kBTransposed, {{2}, {0, 0}}},
               {{"num_hidden", "2"}, {"flatten", "False"}},
               {{{1, 2, 2}, kAB.values}}}
            .TwiceDifferentiable(),
        OpCase{
            "OfAnEmptyBatch", "FullyConnected", {{{0, 3}, {}}, kBTransposed, {{2}, {0, 0}}}, {{"num_hidden", "2"}}, {{{0, 2}, {}}}},
    });

TEST(MatrixProduct, SaysWhichSizesDoNotFit) {
  const absl::Status status = ErrorOf("dot", {kA, kA});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("[2,3] and [2,3]"), absl::string_view::npos) << status;
  EXPECT_EQ(ErrorOf("batch_dot", {kA, kB}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("FullyConnected", {kA, kA, {{3}, {0, 0, 0}}}, {{"num_hidden", "3"}}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("FullyConnected", {kA, kA}, {{"num_hidden", "0"}}).code(), absl::StatusCode::kInvalidArgument);
}

// The weight's shape follows from the data's, and the other way round.
TEST(FullyConnected, InfersTheWeightFromTheData) {
  const auto infer = *Op::Find("FullyConnected")->GetAttr<FInferShape>("FInferShape");
  NodeAttrs attrs;
  attrs.dict = {{"num_hidden", "4"}};
  ASSERT_TRUE(Op::Find("FullyConnected")->ParseAttrs(&attrs).ok());
  ShapeVector in = {{2, 3, 5}, {}, {}}, out = {{}};
  EXPECT_TRUE(infer(attrs, &in, &out).value());
  EXPECT_EQ(in[1], Shape({4, 15}));
  EXPECT_EQ(in[2], Shape({4}));
  EXPECT_EQ(out[0], Shape({2, 4}));
  in = {Shape::OfRank(2), {4, 7}, {}};
  out = {{2, -1}};
  EXPECT_TRUE(infer(attrs, &in, &out).value());
  EXPECT_EQ(in[0], Shape({2, 7}));
}

// Sums of any number of rows are right to the last bit, in float32 and in the types of 16 bits.
TEST(FullyConnected, TheBiasGradientIsExact) {
  const int64_t rows = 1 << 16, cols = 3;
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    Numbers dy = {{rows, cols}, {}};
    for (int64_t i = 0; i < rows * cols; ++i) dy.values.push_back(0.1 + 1e-3 * static_cast<double>(i % 7));
    std::vector<HostTensor> inputs = {HostTensor::Of(dy, type), HostTensor::Of({{rows, 1}, std::vector<double>(rows)}, type),
                                      HostTensor::Of({{cols, 1}, {0, 0, 0}}, type)};
    const std::vector<double> given = inputs[0].values();
    const auto ys =
        OneByOne().Call(**TryMakeNode("_backward_FullyConnected", "y", {MakeVariable("dy"), MakeVariable("x"), MakeVariable("w")},
                                      {{"num_hidden", "3"}}),
                        &inputs);
    ASSERT_TRUE(ys.ok()) << ys.status();
    for (int64_t c = 0; c < cols; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += given[static_cast<size_t>(r * cols + c)];
      EXPECT_EQ((*ys)[2].values()[c], HostTensor::Of({{1}, {sum}}, type).values()[0]) << Name(type);
    }
  }
}

// 683 * 3 - 2048, where 2049 is no number of 16 bits.
TEST(Dot, AddsUpSixteenBitsInFloat32) {
  for (const DType type : {DType::kFloat16, DType::kBfloat16}) {
    std::vector<HostTensor> inputs = {HostTensor::Of({{1, 2}, {683, -2048}}, type), HostTensor::Of({{2, 1}, {3, 1}}, type)};
    const double factor = inputs[0].values()[0];  // 684 in bfloat16.
    const auto ys = OneByOne().Call(**TryMakeNode("dot", "y", {MakeVariable("a"), MakeVariable("b")}, {}), &inputs);
    ASSERT_TRUE(ys.ok()) << ys.status();
    EXPECT_EQ((*ys)[0].values()[0], 3 * factor - 2048) << Name(type);
  }
}

}  // namespace
}  // namespace gluond::testing::matrix_product
