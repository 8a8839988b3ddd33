// Operators on square matrices against MXNet 1.9.1, their gradients, and the gradients of those.

#include <cmath>
#include <limits>

#include "engine/core/elementwise.h"
#include "engine/core/interruption.h"
#include "engine/passes/gradient.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::linalg {
namespace {

const Numbers kT = {{3, 3}, {2, 7, -3, 0.5, 3, 7, -1, 0.25, 1.5}};
const Numbers kTUpper = {{3, 3}, {2, 0.5, -1, 7, 3, 0.25, -3, 7, 1.5}};
const Numbers kTwo = {{2, 3, 3}, {2, 7, -3, 0.5, 3, 7, -1, 0.25, 1.5, -1, 2, 0, 4, 0.5, 1, 2, -2, 4}};
const Numbers kB = {{3, 2}, {1, -2, 0.5, 3, 2, 0.25}};
const Numbers kBTransposed = {{2, 3}, {1, 0.5, 2, -2, 3, 0.25}};
const Numbers kSingular = {{2, 2}, {1, 2, 2, 4}};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

OP_CASES(Cholesky, {
                       OpCase{"OfTheLowerTriangle",
                              "_linalg_potrf",
                              {{{3, 3}, {4, 9, 9, 2, 5, 9, 0.5, 1, 3}}},
                              {},
                              {{{3, 3}, {2, 0, 0, 1, 2, 0, 0.25, 0.375, 1.67238602}}}}
                           .WithoutGradient(),
                       OpCase{"OfMatrices",
                              "_linalg_potrf",
                              {{{2, 3, 3}, {4, 2, 0.5, 2, 5, 1, 0.5, 1, 3, 8, 4, 1, 4, 10, 2, 1, 2, 6}}},
                              {},
                              {{{2, 3, 3},
                                {2, 0, 0, 1, 2, 0, 0.25, 0.375, 1.67238602, 2.82842712, 0, 0, 1.41421356, 2.82842712, 0,
                                 0.353553391, 0.530330086, 2.36511099}}}}
                           .WithoutGradient(),
                       OpCase{"InverseOfTheSquare",
                              "_linalg_potri",
                              {kT},
                              {},
                              {{{3, 3},
                                {0.377507716, -0.0470679012, 0.231481481, -0.0470679012, 0.114197531, -0.037037037, 0.231481481,
                                 -0.037037037, 0.444444444}}}}
                           .TwiceDifferentiable()
                           .Tolerance(8),
                       OpCase{"OfTheUpperTriangle",
                              "_linalg_potrf",
                              {{{3, 3}, {4, 2, 0.5, 9, 5, 1, 9, 9, 3}}},
                              {{"lower", "False"}},
                              {{{3, 3}, {2, 1, 0.25, 0, 2, 0.375, 0, 0, 1.67238602}}}}
                           .WithoutGradient(),
                       OpCase{"InverseOfTheSquareOfAnUpperTriangle",
                              "_linalg_potri",
                              {kTUpper},
                              {{"lower", "False"}},
                              {{{3, 3},
                                {0.377507716, -0.0470679012, 0.231481481, -0.0470679012, 0.114197531, -0.037037037, 0.231481481,
                                 -0.037037037, 0.444444444}}}}
                           .TwiceDifferentiable()
                           .Tolerance(8),
                       {"OfNoMatrices", "_linalg_potrf", {{{0, 2, 2}, {}}}, {}, {{{0, 2, 2}, {}}}},
                       {"OfNothing", "_linalg_potri", {{{2, 0, 0}, {}}}, {}, {{{2, 0, 0}, {}}}},
                       OpCase{"OfOneElement", "_linalg_potrf", {{{1, 1}, {4}}}, {}, {{{1, 1}, {2}}}}.TwiceDifferentiable(),
                   });

OP_CASES(
    Triangular,
    {
        OpCase{"TrsmLeft", "_linalg_trsm", {kT, kB}, {}, {{{3, 2}, {0.5, -1, 0.0833333333, 1.16666667, 1.65277778, -0.694444444}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrsmLeftTransposed",
               "_linalg_trsm",
               {kT, kB},
               {{"transpose", "True"}, {"alpha", "-2"}},
               {{{3, 2}, {-2.30555556, 2.32638889, -0.111111111, -1.97222222, -2.66666667, -0.333333333}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrsmLeftUpper",
               "_linalg_trsm",
               {kT, kB},
               {{"lower", "False"}},
               {{{3, 2}, {12.8055556, -2.88888889, -2.94444444, 0.611111111, 1.33333333, 0.166666667}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrsmRight",
               "_linalg_trsm",
               {kT, kBTransposed},
               {{"rightside", "True"}, {"alpha", "0.5"}},
               {{{2, 3}, {0.576388889, 0.0277777778, 0.666666667, -0.581597222, 0.493055556, 0.0833333333}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrsmRightTransposed",
               "_linalg_trsm",
               {kT, kBTransposed},
               {{"rightside", "True"}, {"transpose", "True"}},
               {{{2, 3}, {0.5, 0.0833333333, 1.65277778, -1, 1.16666667, -0.694444444}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrsmRightTransposedUpper",
               "_linalg_trsm",
               {kT, kBTransposed},
               {{"rightside", "True"}, {"transpose", "True"}, {"lower", "False"}},
               {{{2, 3}, {12.8055556, -2.94444444, 1.33333333, -2.88888889, 0.611111111, 0.166666667}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrsmBatch",
               "_linalg_trsm",
               {kTwo, {{2, 3, 2}, {1, -2, 0.5, 3, 2, 0.25, -2, 4, -1, -6, -4, -0.5}}},
               {},
               {{{2, 3, 2}, {0.5, -1, 0.0833333333, 1.16666667, 1.65277778, -0.694444444, 2, -4, -18, 20, -11, 11.875}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        {"TrsmOfNoColumns", "_linalg_trsm", {kT, {{3, 0}, {}}}, {}, {{{3, 0}, {}}}},
        OpCase{"TrmmLeft", "_linalg_trmm", {kT, kB}, {}, {{{3, 2}, {2, -4, 2, 8, 2.125, 3.125}}}}.TwiceDifferentiable().Tolerance(
            8),
        OpCase{"TrmmLeftTransposed",
               "_linalg_trmm",
               {kT, kB},
               {{"transpose", "True"}, {"alpha", "-2"}},
               {{{3, 2}, {-0.5, 5.5, -4, -18.125, -6, -0.75}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrmmLeftUpper", "_linalg_trmm", {kT, kB}, {{"lower", "False"}}, {{{3, 2}, {-0.5, 16.25, 15.5, 10.75, 3, 0.375}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrmmRight",
               "_linalg_trmm",
               {kT, kBTransposed},
               {{"rightside", "True"}, {"alpha", "0.5"}},
               {{{2, 3}, {0.125, 1, 1.5, -1.375, 4.53125, 0.1875}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrmmRightTransposed",
               "_linalg_trmm",
               {kT, kBTransposed},
               {{"rightside", "True"}, {"transpose", "True"}},
               {{{2, 3}, {2, 2, 2.125, -4, 8, 3.125}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrmmRightTransposedUpper",
               "_linalg_trmm",
               {kT, kBTransposed},
               {{"rightside", "True"}, {"transpose", "True"}, {"lower", "False"}},
               {{{2, 3}, {-0.5, 15.5, 3, 16.25, 10.75, 0.375}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"TrmmBatch",
               "_linalg_trmm",
               {kTwo, {{2, 3, 2}, {1, -2, 0.5, 3, 2, 0.25, -2, 4, -1, -6, -4, -0.5}}},
               {},
               {{{2, 3, 2}, {2, -4, 2, 8, 2.125, 3.125, 2, -4, -8.5, 13, -18, 18}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        {"TrmmOfNoColumns", "_linalg_trmm", {kT, {{3, 0}, {}}}, {}, {{{3, 0}, {}}}},
    });

OP_CASES(Determinant,
         {
             OpCase{"Determinant", "_linalg_det", {kT}, {}, {{{1}, {-58.125}}}}.TwiceDifferentiable().Tolerance(64),
             OpCase{"DeterminantOfEach", "_linalg_det", {kTwo}, {}, {{{2}, {-58.125, -32}}}}.TwiceDifferentiable().Tolerance(64),
             OpCase{"SignAndLogarithm", "_linalg_slogdet", {kTwo}, {}, {{{2}, {-1, -1}}, {{2}, {4.06259586, 3.4657359}}}}
                 .TwiceDifferentiable()
                 .Tolerance(8),
             OpCase{"Inverse",
                    "_linalg_inverse",
                    {kTwo},
                    {},
                    {{{2, 3, 3},
                      {-0.047311828, 0.193548387, -0.997849462, 0.133333333, 6.9388939e-18, 0.266666667, -0.0537634409, 0.129032258,
                       -0.0430107527, -0.125, 0.25, -0.0625, 0.4375, 0.125, -0.03125, 0.28125, -0.0625, 0.265625}}}}
                 .TwiceDifferentiable()
                 .Tolerance(8),
             OpCase{"DeterminantOfASingularMatrix", "_linalg_det", {kSingular}, {}, {{{1}, {0}}}}.WithoutGradient(),
             OpCase{"LogarithmOfASingularMatrix", "_linalg_slogdet", {kSingular}, {}, {{{1}, {0}}, {{1}, {-kInfinity}}}}
                 .WithoutGradient(),
             {"DeterminantOfNothing", "_linalg_det", {{{2, 0, 0}, {}}}, {}, {{{2}, {1, 1}}}},
             {"InverseOfNothing", "_linalg_inverse", {{{2, 0, 0}, {}}}, {}, {{{2, 0, 0}, {}}}},
             OpCase{"InverseOfOneElement", "_linalg_inverse", {{{1, 1}, {4}}}, {}, {{{1, 1}, {0.25}}}}.TwiceDifferentiable(),
         });

OP_CASES(
    LinalgDiag,
    {
        OpCase{"SumOfLogarithms",
               "_linalg_sumlogdiag",
               {{{2, 3, 3}, {2, 7, -3, 0.5, 3, 7, -1, 0.25, 1.5, 4, 14, -6, 1, 6, 14, -2, 0.5, 3}}},
               {},
               {{{2}, {2.19722458, 4.27666612}}}}
            .TwiceDifferentiable()
            .Tolerance(8),
        OpCase{"SumOfOneMatrix", "_linalg_sumlogdiag", {kT}, {}, {{{1}, {2.19722458}}}}.TwiceDifferentiable().Tolerance(8),
        {"SumOfNothing", "_linalg_sumlogdiag", {{{2, 0, 0}, {}}}, {}, {{{2}, {0, 0}}}},
        OpCase{"ExtractMain", "_linalg_extractdiag", {kTwo}, {}, {{{2, 3}, {2, 3, 1.5, -1, 0.5, 4}}}}.TwiceDifferentiable(),
        OpCase{"ExtractAbove", "_linalg_extractdiag", {kTwo}, {{"offset", "1"}}, {{{2, 2}, {7, 7, 2, 1}}}}.TwiceDifferentiable(),
        OpCase{"ExtractBelow", "_linalg_extractdiag", {kTwo}, {{"offset", "-2"}}, {{{2, 1}, {-1, 2}}}}.TwiceDifferentiable(),
        OpCase{"MakeMain", "_linalg_makediag", {{{2, 2}, {1, 2, 3, 4}}}, {}, {{{2, 2, 2}, {1, 0, 0, 2, 3, 0, 0, 4}}}}
            .TwiceDifferentiable(),
        OpCase{"MakeAbove",
               "_linalg_makediag",
               {{{2, 2}, {1, 2, 3, 4}}},
               {{"offset", "1"}},
               {{{2, 3, 3}, {0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0}}}}
            .TwiceDifferentiable(),
        OpCase{"MakeBelow",
               "_linalg_makediag",
               {{{2, 2}, {1, 2, 3, 4}}},
               {{"offset", "-2"}},
               {{{2, 4, 4}, {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4, 0, 0}}}}
            .TwiceDifferentiable(),
        {"ExtractOfNothing", "_linalg_extractdiag", {{{2, 0, 0}, {}}}, {}, {{{2, 0}, {}}}},
        {"MakeOfNothing", "_linalg_makediag", {{{2, 0}, {}}}, {}, {{{2, 0, 0}, {}}}},
    });

// INVALID_ARGUMENT, with a message that has `part`.
void ExpectRefused(const std::string& part, const std::string& op, const std::vector<Numbers>& x, const AttrDict& attrs = {}) {
  const absl::Status status = ErrorOf(op, x, attrs);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << op << ": " << status;
  EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
}

// The gradient of potrf is that of a symmetric matrix, here B B^T + C, and is symmetric itself.
void ExpectGradientOfCholesky(const std::string& lower) {
  const NodeEntry b = MakeVariable("b"), c = MakeVariable("c"), dy = MakeVariable("dy");
  const NodeEntry square = {*TryMakeNode("_linalg_gemm2", "square", {b, b}, {{"transpose_b", "True"}}), 0};
  const NodeEntry y = {*TryMakeNode("_linalg_potrf", "y", {square + c}, {{"lower", lower}}), 0};
  const absl::StatusOr<Gradients> gradient = BuildGradient({y}, {b, c}, {dy});
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  Numbers weights = {{2, 3, 3}, {}}, constant = {{2, 3, 3}, {}};
  for (int i = 0; i < 18; ++i) weights.values.push_back(std::cos(i)), constant.values.push_back(i % 9 % 4 == 0 ? 3 : 0);
  const auto at = [&](const Numbers& x) {
    return std::map<std::string, HostTensor>{{"b", HostTensor::Of(x, DType::kFloat64)},
                                             {"c", HostTensor::Of(constant, DType::kFloat64)},
                                             {"dy", HostTensor::Of(weights, DType::kFloat64)}};
  };
  const auto loss = [&](const Numbers& x) {
    const std::vector<double> v = (*OneByOne().Evaluate({y}, at(x)))[0].values();
    double sum = 0;
    for (size_t i = 0; i < v.size(); ++i) sum += v[i] * weights.values[i];
    return sum;
  };
  const std::vector<HostTensor> gradients = *OneByOne().Evaluate(*gradient, at(kTwo));
  const std::vector<double> got = gradients[0].values(), of_c = gradients[1].values();
  for (size_t i = 0; i < got.size(); ++i) {
    Numbers left = kTwo, right = kTwo;
    left.values[i] -= 1e-5;
    right.values[i] += 1e-5;
    EXPECT_NEAR(got[i], (loss(right) - loss(left)) / 2e-5, 1e-7) << i;
    EXPECT_NEAR(of_c[i], of_c[i / 9 * 9 + i % 3 * 3 + i / 3 % 3], 1e-12) << i;
  }
}

TEST(Cholesky, GradientMatchesDifferences) {
  ExpectGradientOfCholesky("True");
  ExpectGradientOfCholesky("False");
}

// The result of an operator on matrices.
std::vector<double> ValueOf(const std::string& op, const std::vector<Numbers>& xs, const AttrDict& attrs = {}) {
  std::vector<HostTensor> inputs;
  std::vector<NodeEntry> entries;
  for (const Numbers& x : xs) {
    inputs.push_back(HostTensor::Of(x, DType::kFloat64));
    entries.push_back(MakeVariable(absl::StrCat("x", entries.size())));
  }
  const NodePtr node = *TryMakeNode(op, "y", entries, attrs);
  const auto ys = OneByOne().Call(*node, &inputs);
  EXPECT_TRUE(ys.ok()) << op << ": " << ys.status();
  return ys.ok() ? (*ys)[0].values() : std::vector<double>();
}

// The gradient of det is the matrix of cofactors, which a singular matrix has, too: see these by hand.
TEST(Determinant, OfASingularMatrixHasItsCofactorsAsGradient) {
  const std::pair<Numbers, std::vector<double>> cases[] = {
      {{{1, 1}, {0}}, {1}},
      {{{2, 2}, {1, 0, 0, 0}}, {0, 0, 0, 1}},
      {{{2, 2}, {0, 0, 0, 1}}, {1, 0, 0, 0}},
      {{{2, 2}, {0, 1, 0, 0}}, {0, 0, -1, 0}},
      {{{2, 2}, {0, 0, 3, 0}}, {0, -3, 0, 0}},
      {kSingular, {4, -2, -2, 1}},
      {{{3, 3}, {1, 2, 3, 4, 5, 6, 5, 7, 9}}, {3, -6, 3, 3, -6, 3, -3, 6, -3}},
      {{{3, 3}, {0, 2, 3, 0, 5, 6, 0, 7, 8}}, {-2, 0, 0, 5, 0, 0, -3, 0, 0}},
      {{{3, 3}, {1, 0, 0, 0, 0, 2, 0, 0, 4}}, {0, 0, 0, 0, 4, 0, 0, -2, 0}},
      {{{3, 3}, {1, 2, 3, 2, 4, 6, 3, 6, 9}}, std::vector<double>(9)},
      {{{3, 3}, std::vector<double>(9)}, std::vector<double>(9)},
  };
  for (const auto& [a, cofactors] : cases) {
    const std::vector<double> got = ValueOf("_backward_linalg_det", {{{1}, {2}}, a});
    ASSERT_EQ(got.size(), cofactors.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], 2 * cofactors[i], 1e-12) << a.shape << ", element " << i;
    EXPECT_EQ(ValueOf("_backward_linalg_slogdet", {{{1}, {2}}, a}), std::vector<double>(got.size()));
  }
}

// A symmetric positive definite matrix of several panels, and one that exchanges rows in each.
Numbers Large(int64_t n, bool symmetric) {
  Numbers a = {{n, n}, {}};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const double off = std::cos(static_cast<double>(symmetric ? i * j : i * (j + 1)));
      a.values.push_back((i == (symmetric ? j : n - 1 - j) ? 2.0 * static_cast<double>(n) : 0) + off);
    }
  }
  return a;
}
void ExpectProduct(const std::vector<double>& a, const std::vector<double>& b, int64_t n, const Numbers& want, bool transpose) {
  const Numbers product = {{n, n},
                           ValueOf("_linalg_gemm2", {{{n, n}, a}, {{n, n}, b}}, {{"transpose_b", transpose ? "True" : "False"}})};
  for (int64_t i = 0; i < n * n; ++i) ASSERT_NEAR(product.values[i], want.values[i], 1e-9) << i / n << ", " << i % n;
}

TEST(Linalg, MatricesOfSeveralPanels) {
  for (const int64_t n : {127, 128, 300}) {
    Numbers identity = {{n, n}, std::vector<double>(n * n)};
    for (int64_t i = 0; i < n; ++i) identity.values[i * n + i] = 1;
    const Numbers a = Large(n, true), b = Large(n, false);
    const std::vector<double> l = ValueOf("_linalg_potrf", {a});
    ExpectProduct(l, l, n, a, true);
    for (int64_t i = 0; i < n * n; ++i) EXPECT_TRUE(i % n <= i / n || l[i] == 0) << i;
    ExpectProduct(ValueOf("_linalg_potri", {{{n, n}, l}}), a.values, n, identity, false);
    ExpectProduct(ValueOf("_linalg_inverse", {b}), b.values, n, identity, false);
    ExpectProduct(b.values, ValueOf("_linalg_inverse", {b}), n, identity, false);
    ExpectProduct(l, ValueOf("_linalg_trsm", {{{n, n}, l}, identity}), n, identity, false);
    ExpectProduct(l, ValueOf("_linalg_trmm", {{{n, n}, l}, identity}, {{"transpose", "True"}}), n, a, false);
  }
}

// A determinant of several panels is that of its blocks.
TEST(Determinant, OfSeveralPanelsIsThatOfItsBlocks) {
  const int64_t n = 260;
  Numbers a = {{n, n}, std::vector<double>(n * n)};
  for (int64_t i = 0; i < n; ++i) a.values[i * n + (i ^ 1)] = i % 2 == 0 ? 2 : 0.5;  // Each block has determinant -1.
  EXPECT_NEAR(ValueOf("_linalg_det", {a})[0], 1, 1e-9);
  a.values[n * n - 2] = 0;
  const std::vector<double> cofactors = ValueOf("_backward_linalg_det", {{{1}, {1}}, a});
  for (int64_t i = 0; i < n * n; ++i) ASSERT_NEAR(cofactors[i], i == n * n - 2 ? 2 : 0, 1e-9) << i / n << ", " << i % n;
}

// Long factorizations end soon after nobody waits for them any more.
TEST(Linalg, OperatorsEndWhenTheyAreInterrupted) {
  const int64_t n = 300;
  const Numbers a = Large(n, true);
  for (const std::string op : {"_linalg_potrf", "_linalg_potri", "_linalg_det", "_linalg_inverse"}) {
    const auto check = [] { return absl::CancelledError("enough"); };
    const InterruptionScope scope(check);
    EXPECT_EQ(ErrorOf(op, {a}).code(), absl::StatusCode::kCancelled) << op;
  }
}

TEST(Linalg, RefusesWhatDoesNotFit) {
  const Numbers wide = {{2, 3}, std::vector<double>(6)}, vector = {{3}, {1, 2, 3}};
  for (const std::string op : {"potrf", "potri", "sumlogdiag", "det", "slogdet", "inverse", "extractdiag"}) {
    ExpectRefused("[2,3], expected square matrices", "_linalg_" + op, {wide});
    ExpectRefused("[3], expected square matrices", "_linalg_" + op, {vector});
  }
  ExpectRefused("[3,3] and [2,3], expected square matrices A that fit the rows", "_linalg_trsm", {kT, kBTransposed});
  ExpectRefused("fit the columns", "_linalg_trmm", {kT, kB}, {{"rightside", "True"}});
  ExpectRefused("[2,3,3] and [3,2]", "_linalg_trsm", {kTwo, kB});
  ExpectRefused("matrix 1 of input 0 'A', [2,2,2], is not positive definite: its first 2 rows", "_linalg_potrf",
                {{{2, 2, 2}, {1, 0, 0, 1, 1, 2, 2, 1}}});
  ExpectRefused("matrix 0 of input 0 'A', [2,2], is singular", "_linalg_inverse", {kSingular});
  ExpectRefused("has no diagonal 3", "_linalg_extractdiag", {kT}, {{"offset", "3"}});
  ExpectRefused("offset", "_linalg_makediag", {vector}, {{"offset", "4294967296"}});
  ExpectRefused("2^48", "_linalg_makediag", {{{3, 1}, {1, 2, 3}}}, {{"offset", "16777216"}});
  ExpectRefused("2^48", "_linalg_makediag", {{{0, 1}, {}}}, {{"offset", "16777216"}});
}

}  // namespace
}  // namespace gluond::testing::linalg
