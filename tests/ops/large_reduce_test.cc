// Large rows (op_case.h) of operators that combine the elements of an axis: sums, norms, softmax, losses, sorts.

#include "tests/ops/op_case.h"

namespace gluond::testing::large_reduce {
namespace {

const Numbers kRows = Shuffled({2, 2503}, 0.25, 2), kColumns = Shuffled({2503, 2}, 0.25, 2);
const Numbers kImages = Shuffled({3, 2, 31, 41}, -1, 3);  // 3,813 elements of each channel.
// Products of many of these stay near 1.
const Numbers kFactors = Shuffled({2, 2503}, 0.9995, 1.0005);

Numbers Repeated(const Shape& shape, std::vector<double> values) {
  Numbers x = {shape, {}};
  for (int64_t i = 0; i < shape.Size(); ++i) x.values.push_back(values[static_cast<size_t>(i) % values.size()]);
  return x;
}

std::vector<OpCase> Along(const std::vector<std::string>& ops) {
  std::vector<OpCase> cases;
  for (const std::string& op : ops) {
    cases.push_back(OpCase{absl::StrCat("Rows", op), op, {kRows}, {{"axis", "1"}}}.OnlyFloats());
    cases.push_back(OpCase{absl::StrCat("Columns", op), op, {kColumns}, {{"axis", "0"}}}.OnlyFloats());
  }
  return cases;
}

LARGE_OP_CASES(Reduce, {Along({"sum", "_square_sum", "mean", "nansum", "max", "min", "norm", "argmax", "argmin"})});
LARGE_OP_CASES(ReduceAll, {
                              OpCase{"Sum", "sum", {kRows}}.OnlyFloats(),
                              OpCase{"SumOfTheMiddle", "sum", {kImages}, {{"axis", "(0, 2, 3)"}}}.OnlyFloats(),
                              OpCase{"Norm", "norm", {kRows}}.OnlyFloats(),
                              OpCase{"NormOfOrderOne", "norm", {kRows}, {{"ord", "1"}, {"axis", "1"}}}.OnlyFloats(),
                              OpCase{"Moments", "moments", {kRows}, {{"axes", "1"}}}.OnlyFloats(),
                              OpCase{"Prod", "prod", {kFactors}, {{"axis", "1"}}}.Tolerance(16).OnlyFloats(),
                              OpCase{"Nanprod", "nanprod", {kFactors}, {{"axis", "1"}}}.Tolerance(16).OnlyFloats(),
                              OpCase{"ArgmaxChannel", "argmax_channel", {kRows}}.OnlyFloats(),
                              OpCase{"SumOfSquares", "multi_sum_sq", {kRows}, {{"num_arrays", "1"}}}.Tolerance(4).OnlyFloats(),
                              OpCase{"CumsumOfRows", "_np_cumsum", {kRows}, {{"axis", "1"}}}.OnlyFloats(),
                              OpCase{"CumsumOfColumns", "_np_cumsum", {kColumns}, {{"axis", "0"}}}.OnlyFloats(),
                          });

LARGE_OP_CASES(Softmax, {Along({"softmax", "log_softmax", "softmin"})});
LARGE_OP_CASES(
    SoftmaxOfLengths,
    {
        OpCase{"Rows", "softmax", {kRows, {{2}, {2100, 2503}}}, {{"use_length", "True"}, {"axis", "1"}}}.Indices({1}).OnlyFloats(),
        OpCase{"OfSamples", "SoftmaxActivation", {kRows}}.OnlyFloats(),
        OpCase{"OfChannels", "SoftmaxActivation", {Shuffled({2, 1301, 2}, -2, 2)}, {{"mode", "channel"}}}.OnlyFloats(),
    });

LARGE_OP_CASES(
    Loss,
    {
        OpCase{"CrossEntropyOfManyClasses", "softmax_cross_entropy", {kRows, {{2}, {2, 2502}}}}.Indices({1}).OnlyFloats(),
        OpCase{"CrossEntropyOfManyRows", "softmax_cross_entropy", {kColumns, Repeated({2503}, {0, 1, 1})}}
            .Indices({1})
            .OnlyFloats(),
        OpCase{"SoftmaxOutput", "SoftmaxOutput", {kRows, {{2}, {2, 2502}}}}.Indices({1}).WithoutGradient().OnlyFloats(),
        OpCase{"Linear", "LinearRegressionOutput", {kRows, Shuffled({2, 2503}, -1, 1)}}.Indices({1}).WithoutGradient().OnlyFloats(),
        OpCase{"Mae", "MAERegressionOutput", {kRows, Shuffled({2, 2503}, -1, 4)}}.Indices({1}).WithoutGradient().OnlyFloats(),
        OpCase{"Logistic", "LogisticRegressionOutput", {kRows, Shuffled({2, 2503}, 0, 1)}}
            .Indices({1})
            .WithoutGradient()
            .OnlyFloats(),
        OpCase{"Svm", "SVMOutput", {kRows, {{2}, {2, 2502}}}}.Indices({1}).WithoutGradient().OnlyFloats(),
        OpCase{"Ctc", "CTCLoss", {Shuffled({30, 3, 37}, -2, 2), Repeated({3, 7}, {1, 36, 2, 2, 5})}}
            .Indices({1})
            .Tolerance(32)
            .OnlyFloats(),
    });

LARGE_OP_CASES(
    Norm,
    {
        OpCase{"BatchNorm",
               "BatchNorm",
               {kImages, {{2}, {1, 2}}, {{2}, {0.5, 0}}, {{2}, {0, 0}}, {{2}, {1, 1}}},
               {{"fix_gamma", "False"}}}
            .Constant({3, 4})
            .Tolerance(4)
            .OnlyFloats(),
        OpCase{"BatchNormOfTheLastAxis",
               "BatchNorm",
               {Shuffled({2503, 2}, -1, 3), {{2}, {1, 2}}, {{2}, {0.5, 0}}, {{2}, {0, 0}}, {{2}, {1, 1}}},
               {{"fix_gamma", "False"}, {"axis", "-1"}}}
            .Constant({3, 4})
            .Tolerance(4)
            .OnlyFloats(),
        OpCase{"BatchNormOfFloat32Statistics",
               "BatchNorm",
               {kImages, {{2}, {1, 2}}, {{2}, {0.5, 0}}, {{2}, {0, 0}}, {{2}, {1, 1}}},
               {{"fix_gamma", "False"}}}
            .Indices({1, 2, 3, 4})
            .Tolerance(4)
            .OnlyFloats(),
        OpCase{"BatchNormByRunningStatistics",
               "BatchNorm",
               {kImages, {{2}, {1, 2}}, {{2}, {0.5, 0}}, {{2}, {0.25, 1}}, {{2}, {1, 2}}},
               {{"fix_gamma", "False"}, {"use_global_stats", "True"}}}
            .Constant({3, 4})
            .Tolerance(4)
            .OnlyFloats(),
        OpCase{"LayerNormOfLongRows", "LayerNorm", {Shuffled({2, 2503}, -1, 3), Shuffled({2503}, 0.5, 2), Shuffled({2503}, -1, 1)}}
            .Tolerance(4)
            .OnlyFloats(),
        OpCase{"LayerNormOfManyRows", "LayerNorm", {Shuffled({2503, 3}, -1, 3), {{3}, {1, 2, 0.5}}, {{3}, {0, 1, 2}}}}
            .Tolerance(4)
            .OnlyFloats(),
        OpCase{"InstanceNorm", "InstanceNorm", {Shuffled({2, 2, 51, 49}, -1, 3), {{2}, {1, 2}}, {{2}, {0.5, 0}}}}
            .Tolerance(4)
            .OnlyFloats(),
        OpCase{"GroupNorm", "GroupNorm", {Shuffled({2, 4, 31, 41}, -1, 3), {{2}, {1, 2}}, {{2}, {0.5, 0}}}, {{"num_groups", "2"}}}
            .Tolerance(4)
            .OnlyFloats(),
        OpCase{"L2OfSamples", "L2Normalization", {kRows}}.OnlyFloats(),
        OpCase{"L2OfChannels", "L2Normalization", {Shuffled({2, 2503, 2}, 0.25, 2)}, {{"mode", "channel"}}}.OnlyFloats(),
        OpCase{"L2OfPositions", "L2Normalization", {kImages}, {{"mode", "spatial"}}}.OnlyFloats(),
        OpCase{"Lrn", "LRN", {Shuffled({1, 67, 7, 5}, -1, 3)}, {{"nsize", "5"}}}.OnlyFloats(),
    });

LARGE_OP_CASES(Sort, {
                         OpCase{"Sort", "sort", {kRows}}.OnlyFloats(),
                         OpCase{"SortOfColumns", "sort", {kColumns}, {{"axis", "0"}}}.OnlyFloats(),
                         OpCase{"Argsort", "argsort", {kRows}}.OnlyFloats(),
                         OpCase{"Topk", "topk", {kRows}, {{"k", "2100"}, {"ret_typ", "value"}}}.OnlyFloats(),
                         OpCase{"TopkBoth", "topk", {kRows}, {{"k", "5"}, {"ret_typ", "both"}}}.OnlyFloats(),
                     });

}  // namespace
}  // namespace gluond::testing::large_reduce
