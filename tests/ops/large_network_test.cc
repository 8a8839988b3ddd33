// Large rows (op_case.h) of layers: products, convolutions, poolings, recurrent networks, images, regions.

#include "tests/ops/op_case.h"

namespace gluond::testing::large_network {
namespace {

const Numbers kImages = Shuffled({2, 3, 29, 31}, 0, 1);

LARGE_OP_CASES(Product,
               {
                   // A gradient by a weight or bias is a sum over all rows.
                   OpCase{"FullyConnectedOfManyRows",
                          "FullyConnected",
                          {Shuffled({2503, 3}, 0, 1), Shuffled({5, 3}, 0.5, 1), Shuffled({5}, 0, 1)},
                          {{"num_hidden", "5"}}}
                       .OnlyFloats(),
                   OpCase{"FullyConnectedOfLongRows",
                          "FullyConnected",
                          {Shuffled({3, 2503}, 0, 1), Shuffled({5, 2503}, 0, 1), Shuffled({5}, 0, 1)},
                          {{"num_hidden", "5"}}}
                       .OnlyFloats(),
                   OpCase{"Dot", "dot", {Shuffled({3, 2503}, 0, 1), Shuffled({2503, 4}, 0, 1)}}.OnlyFloats(),
                   OpCase{"DotOfManyRows", "dot", {Shuffled({2503, 3}, 0, 1), Shuffled({3, 4}, 0, 1)}}.OnlyFloats(),
                   OpCase{"DotOfVectors", "dot", {Shuffled({2503}, 0, 1), Shuffled({2503}, 1, 2)}}.OnlyFloats(),
                   OpCase{"BatchDot", "batch_dot", {Shuffled({2, 2503, 3}, 0, 1), Shuffled({2, 3, 5}, 0, 1)}}.OnlyFloats(),
                   OpCase{"Gemm2", "_linalg_gemm2", {Shuffled({2, 3, 2503}, 0, 1), Shuffled({2, 2503, 2}, 0, 1)}}.OnlyFloats(),
                   OpCase{
                       "AttentionScores", "_contrib_interleaved_matmul_selfatt_qk", {Shuffled({67, 2, 36}, 0, 1)}, {{"heads", "3"}}}
                       .OnlyFloats(),
                   OpCase{"AttentionValues",
                          "_contrib_interleaved_matmul_selfatt_valatt",
                          {Shuffled({67, 2, 36}, 0, 1), Shuffled({6, 67, 67}, 0, 1)},
                          {{"heads", "3"}}}
                       .OnlyFloats(),
               });

LARGE_OP_CASES(
    Convolution,
    {
        OpCase{"OfImages",
               "Convolution",
               {Shuffled({3, 3, 29, 31}, 0, 1), Shuffled({4, 3, 3, 3}, 0, 1), Shuffled({4}, 0, 1)},
               {{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"pad", "(1, 1)"}}}
            .OnlyFloats(),
        OpCase{"OfChannels",
               "Convolution",
               {Shuffled({3, 3, 29, 31}, 0, 1), Shuffled({3, 1, 3, 3}, 0, 1), Shuffled({3}, 0, 1)},
               {{"kernel", "(3, 3)"}, {"num_filter", "3"}, {"num_group", "3"}}}
            .Tolerance(4)
            .OnlyFloats(),
        OpCase{"OfRows",
               "Convolution",
               {Shuffled({2, 3, 1201}, 0, 1), Shuffled({2, 3, 5}, 0, 1), Shuffled({2}, 0, 1)},
               {{"kernel", "(5,)"}, {"num_filter", "2"}, {"stride", "(2,)"}}}
            .OnlyFloats(),
        OpCase{"OfVolumes",
               "Convolution",
               {Shuffled({2, 2, 7, 13, 17}, 0, 1), Shuffled({3, 2, 2, 3, 3}, 0, 1), Shuffled({3}, 0, 1)},
               {{"kernel", "(2, 3, 3)"}, {"num_filter", "3"}}}
            .OnlyFloats(),
        OpCase{"Transposed",
               "Deconvolution",
               {Shuffled({3, 3, 29, 31}, 0, 1), Shuffled({3, 2, 2, 2}, 0, 1), Shuffled({2}, 0, 1)},
               {{"kernel", "(2, 2)"}, {"num_filter", "2"}, {"stride", "(2, 2)"}, {"no_bias", "False"}}}
            .OnlyFloats(),
        OpCase{"UpSampled", "UpSampling", {kImages}, {{"scale", "2"}, {"sample_type", "nearest"}}}.OnlyFloats(),
        OpCase{"IntoBlocks", "_to_blocked", {Shuffled({2, 16, 9, 11}, 0, 1)}, {{"block", "8"}}}.WithoutGradient().OnlyFloats(),
        OpCase{"OutOfBlocks", "_from_blocked", {Shuffled({2, 2, 9, 11, 8}, 0, 1)}}.WithoutGradient().OnlyFloats(),
    });

LARGE_OP_CASES(
    Pooling,
    {
        OpCase{"Maxima", "Pooling", {kImages}, {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}}}.OnlyFloats(),
        OpCase{"Averages", "Pooling", {kImages}, {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pool_type", "avg"}}}.OnlyFloats(),
        OpCase{"Global", "Pooling", {Shuffled({2, 2, 51, 49}, 0, 1)}, {{"global_pool", "True"}, {"pool_type", "avg"}}}.OnlyFloats(),
        OpCase{"GlobalSum", "Pooling", {Shuffled({2, 2, 51, 49}, 0, 1)}, {{"global_pool", "True"}, {"pool_type", "sum"}}}
            .OnlyFloats(),
        OpCase{"LargeWindows", "Pooling", {Shuffled({1, 1, 53, 51}, 0, 1)}, {{"kernel", "(47, 45)"}, {"pool_type", "sum"}}}
            .OnlyFloats(),
        OpCase{"Adaptive", "_contrib_AdaptiveAvgPooling2D", {kImages}, {{"output_size", "(3, 2)"}}}.OnlyFloats(),
        OpCase{"Resized", "_contrib_BilinearResize2D", {kImages}, {{"height", "41"}, {"width", "17"}}}.OnlyFloats(),
        // Each of many regions adds to the same few elements.
        OpCase{"Regions",
               "ROIPooling",
               {kImages, {{2, 5}, {0, 0, 0, 28, 28, 1, 3, 4, 20, 25}}},
               {{"pooled_size", "(3, 3)"}, {"spatial_scale", "1"}}}
            .Indices({1})
            .OnlyFloats(),
        OpCase{"AlignedRegions",
               "_contrib_ROIAlign",
               {kImages, {{2, 5}, {0, 0, 0, 28, 28, 1, 3, 4, 20, 25}}},
               {{"pooled_size", "(3, 3)"}, {"spatial_scale", "1"}}}
            .Indices({1})
            .OnlyFloats(),
    });

std::vector<OpCase> Recurrent() {
  std::vector<OpCase> cases;
  for (const auto& [mode, gates] : {std::pair("rnn_relu", 1), {"rnn_tanh", 1}, {"lstm", 4}, {"gru", 3}}) {
    constexpr int64_t kSteps = 35, kBatch = 12, kInputs = 6, kHidden = 7;
    const Numbers x = Shuffled({kSteps, kBatch, kInputs}, 0, 0.5), state = Shuffled({1, kBatch, kHidden}, -0.5, 0.5);
    std::vector<Numbers> inputs = {x, Shuffled({gates * kHidden * (kInputs + kHidden + 2)}, -0.2, 0.2), state};
    if (gates == 4) inputs.push_back(state);
    cases.push_back(
        OpCase{mode, "RNN", inputs, {{"mode", mode}, {"num_layers", "1"}, {"state_size", "7"}}}.Tolerance(8).OnlyFloats());
  }
  return cases;
}

LARGE_OP_CASES(Rnn, {Recurrent()});

// As triangular as it is well-conditioned.
Numbers Dominant(int64_t n) {
  Numbers x = Shuffled({n, n}, -0.5 / n, 0.5 / n);
  for (int64_t i = 0; i < n; ++i) x.values[i * n + i] += 1.5;
  return x;
}

Numbers Scaled(Numbers x, double factor) {
  for (double& v : x.values) v *= factor;
  return x;
}

LARGE_OP_CASES(Linalg, {
                           // Its gradient is that of a symmetric matrix: linalg_test.cc.
                           OpCase{"Potrf", "_linalg_potrf", {Dominant(47)}}.WithoutGradient().Tolerance(8).OnlyFloats(),
                           OpCase{"Potri", "_linalg_potri", {Dominant(47)}}.Tolerance(8).OnlyFloats(),
                           OpCase{"Trsm", "_linalg_trsm", {Dominant(47), Shuffled({47, 5}, 0, 1)}}.Tolerance(8).OnlyFloats(),
                           OpCase{"Trmm", "_linalg_trmm", {Dominant(47), Shuffled({47, 5}, 0, 1)}}.Tolerance(8).OnlyFloats(),
                           OpCase{"Det", "_linalg_det", {Scaled(Dominant(47), 1 / 1.5)}}.Tolerance(64).OnlyFloats(),
                           OpCase{"Slogdet", "_linalg_slogdet", {Dominant(47)}}.Tolerance(8).OnlyFloats(),
                           OpCase{"Inverse", "_linalg_inverse", {Dominant(47)}}.Tolerance(8).OnlyFloats(),
                           OpCase{"Sumlogdiag", "_linalg_sumlogdiag", {Dominant(47)}}.OnlyFloats(),
                           OpCase{"Extractdiag", "_linalg_extractdiag", {Dominant(47)}}.OnlyFloats(),
                           OpCase{"Makediag", "_linalg_makediag", {Shuffled({53, 40}, 0, 1)}}.OnlyFloats(),
                       });

}  // namespace
}  // namespace gluond::testing::large_network
