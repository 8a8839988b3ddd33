// Random numbers of every distribution, by their moments. They depend neither on threads nor on shapes.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/elementwise.h"
#include "engine/passes/gradient.h"
#include "ops/kernel/distributions.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::sample {
namespace {

const Covers kCovered({"_random_uniform_like",
                       "_random_normal_like",
                       "_random_exponential",
                       "_random_exponential_like",
                       "_random_gamma",
                       "_random_gamma_like",
                       "_random_poisson",
                       "_random_poisson_like",
                       "_random_negative_binomial",
                       "_random_negative_binomial_like",
                       "_random_generalized_negative_binomial",
                       "_random_generalized_negative_binomial_like",
                       "_random_randint",
                       "_sample_uniform",
                       "_sample_normal",
                       "_sample_exponential",
                       "_sample_gamma",
                       "_sample_poisson",
                       "_sample_negative_binomial",
                       "_sample_generalized_negative_binomial",
                       "_sample_multinomial",
                       "_shuffle"});

std::vector<HostTensor> Draw(const std::string& op, AttrDict attrs, std::vector<HostTensor> inputs = {}) {
  const std::vector<NodeEntry> xs(inputs.size(), MakeVariable("x"));
  auto ys = OneByOne().Call(**TryMakeNode(op, "y", xs, std::move(attrs)), &inputs);
  EXPECT_TRUE(ys.ok()) << op << ": " << ys.status();
  return ys.ok() ? *std::move(ys) : std::vector<HostTensor>(1);
}

struct Moments {
  double mean = 0, variance = 0;
};
Moments MomentsOf(const std::vector<double>& v) {
  Moments m;
  for (double e : v) m.mean += e / static_cast<double>(v.size());
  for (double e : v) m.variance += (e - m.mean) * (e - m.mean) / static_cast<double>(v.size());
  return m;
}
// Within five standard errors of 40,000 numbers, for distributions with tails as heavy as the exponential's.
void ExpectMoments(const std::vector<double>& v, Moments want, const std::string& what) {
  const Moments got = MomentsOf(v);
  EXPECT_NEAR(got.mean, want.mean, 5 * std::sqrt(want.variance / static_cast<double>(v.size()))) << what;
  EXPECT_NEAR(got.variance, want.variance, 0.1 * want.variance + 1e-9) << what;
}

// A distribution with parameters `a` and `b`, as attributes and as tensors.
struct Distribution {
  std::string name;
  std::vector<std::pair<std::string, double>> parameters;
  Moments moments;
  bool whole = false;  // Whole numbers, 0 or more.
};
const std::vector<Distribution>& Distributions() {
  static const std::vector<Distribution>& all = *new std::vector<Distribution>{
      {"uniform", {{"low", 2}, {"high", 4}}, {3, 4.0 / 12}},
      {"normal", {{"loc", -1}, {"scale", 3}}, {-1, 9}},
      {"exponential", {{"lam", 4}}, {0.25, 1.0 / 16}},
      {"gamma", {{"alpha", 0.5}, {"beta", 2}}, {1, 2}},
      {"gamma", {{"alpha", 9}, {"beta", 0.5}}, {4.5, 2.25}},
      {"poisson", {{"lam", 0}}, {0, 0}, true},
      {"poisson", {{"lam", 4}}, {4, 4}, true},
      {"poisson", {{"lam", 40.5}}, {40.5, 40.5}, true},
      {"negative_binomial", {{"k", 3}, {"p", 0.4}}, {4.5, 11.25}, true},
      {"negative_binomial", {{"k", 3}, {"p", 1}}, {0, 0}, true},
      {"generalized_negative_binomial", {{"mu", 2}, {"alpha", 0.3}}, {2, 3.2}, true},
      {"generalized_negative_binomial", {{"mu", 2}, {"alpha", 0}}, {2, 2}, true},
  };
  return all;
}

AttrDict AttrsOf(const Distribution& d) {
  AttrDict attrs;
  for (const auto& [name, value] : d.parameters) attrs[name] = absl::StrCat(value);
  return attrs;
}
AttrDict With(AttrDict attrs, const std::string& key, const std::string& value) { return attrs[key] = value, attrs; }

TEST(Random, HasTheMomentsOfItsDistribution) {
  for (const Distribution& d : Distributions()) {
    const std::vector<double> v = Draw("_random_" + d.name, With(AttrsOf(d), "shape", "(200, 200)"))[0].values();
    ExpectMoments(v, d.moments, d.name);
    if (!d.whole) continue;
    for (double e : v) ASSERT_TRUE(e >= 0 && e == std::floor(e)) << d.name << " drew " << e;
  }
}

TEST(Uniform, KnowsTheLargestNumberBelow) {
  EXPECT_EQ(ops::LargestBelow(DType::kFloat64, 2), 2 - 0x1p-52);
  EXPECT_EQ(ops::LargestBelow(DType::kFloat32, 2), 2 - 0x1p-23);
  EXPECT_EQ(ops::LargestBelow(DType::kFloat16, 2), 2 - 0x1p-10);
  EXPECT_EQ(ops::LargestBelow(DType::kBfloat16, 2), 2 - 0x1p-7);
  EXPECT_EQ(ops::LargestBelow(DType::kFloat32, 1 + 0x1p-40), 1) << "not a float itself";
  EXPECT_EQ(ops::LargestBelow(DType::kFloat32, 1 - 0x1p-40), 1 - 0x1p-24) << "whose nearest float is above it";
  EXPECT_EQ(ops::LargestBelow(DType::kFloat16, 1e6), 65504) << "beyond the type";
  EXPECT_EQ(ops::LargestBelow(DType::kFloat32, 0), -0x1p-149);
  EXPECT_EQ(ops::LargestBelow(DType::kFloat16, -1), -1 - 0x1p-10);
}

// The largest random words would round to the end, and so would many of 40000 numbers of 16 bits.
TEST(Uniform, LeavesTheRightEndOut) {
  EXPECT_EQ(1.0f + 1.0f * Philox::ToUniform(~0u), 2);
  EXPECT_EQ(ops::UniformTop(DType::kFloat32, 1, 2), 2 - 0x1p-23);
  EXPECT_EQ(ops::UniformTop(DType::kFloat32, 3, 3), std::numeric_limits<double>::infinity());
  EXPECT_EQ(ops::ToUniform53(~0u, ~0u), 1 - 0x1p-53);
  EXPECT_EQ(ops::ToUniform53(0, 1u << 6), 0x1p-53);
  for (const char* dtype : {"float16", "bfloat16", "float32", "float64"}) {
    const AttrDict attrs = {{"low", "1"}, {"high", "2"}, {"shape", "(40000,)"}, {"dtype", dtype}};
    const std::vector<HostTensor> ends = {HostTensor::Of({{1}, {1}}, DType::kFloat32), HostTensor::Of({{1}, {2}}, DType::kFloat32)};
    for (const HostTensor& y :
         {Draw("_random_uniform", attrs)[0], Draw("_sample_uniform", {{"shape", "(40000,)"}, {"dtype", dtype}}, ends)[0]}) {
      const std::vector<double> v = y.values();
      EXPECT_LT(*std::max_element(v.begin(), v.end()), 2) << dtype;
      EXPECT_GE(*std::min_element(v.begin(), v.end()), 1) << dtype;
    }
  }
}

// Pearson's statistic of the digit of v in [0, 1) that begins `bits` bits behind the point, to base 64: about 63, with
// a deviation of 11.2, where all digits are as likely.
double ChiSquareOfDigits(const std::vector<double>& v, int bits) {
  std::vector<double> count(64);
  for (const double e : v) ++count[static_cast<size_t>(std::ldexp(e, bits + 6) - 64 * std::floor(std::ldexp(e, bits)))];
  const double expected = static_cast<double>(v.size()) / 64;
  return std::accumulate(count.begin(), count.end(), 0.0,
                         [&](double sum, double n) { return sum + (n - expected) * (n - expected) / expected; });
}

// A float has 24 random bits, a double 53; and a digit does not depend on the element before it.
TEST(Uniform, FillsEachDigitEvenly) {
  for (const bool wide : {false, true}) {
    const char* const dtype = wide ? "float64" : "float32";
    const DType type = wide ? DType::kFloat64 : DType::kFloat32;
    const std::vector<HostTensor> ends = {HostTensor::Of({{1}, {0}}, type), HostTensor::Of({{1}, {1}}, type)};
    for (const HostTensor& y : {Draw("_random_uniform", {{"shape", "(64000,)"}, {"dtype", dtype}})[0],
                                Draw("_sample_uniform", {{"shape", "(64000,)"}}, ends)[0]}) {
      const std::vector<double> v = y.values();
      for (const int bits : wide ? std::vector{0, 9, 18, 27, 41, 47} : std::vector{0, 9, 18}) {
        EXPECT_NEAR(ChiSquareOfDigits(v, bits), 63, 55) << dtype << ", bit " << bits;
      }
      std::vector<double> pairs;  // The first three bits of an element and of the next.
      for (size_t i = 0; i + 1 < v.size(); ++i) pairs.push_back((std::floor(v[i] * 8) + v[i + 1]) / 8);
      EXPECT_NEAR(ChiSquareOfDigits(pairs, 0), 63, 55) << dtype << ", pairs";
    }
  }
}

TEST(Random, LikeTakesShapeAndTypeAndDrawsTheSame) {
  for (const Distribution& d : Distributions()) {
    for (DType type : {DType::kFloat32, DType::kFloat16, DType::kFloat64, DType::kBfloat16}) {
      const HostTensor like = HostTensor::Of({{2, 3}, std::vector<double>(6)}, type);
      const HostTensor y = Draw("_random_" + d.name + "_like", AttrsOf(d), {like})[0];
      AttrDict attrs = With(AttrsOf(d), "shape", "(2, 3)");
      attrs["dtype"] = std::string(Name(type));
      EXPECT_EQ(y.dtype, type) << d.name;
      EXPECT_EQ(y.shape, Shape({2, 3})) << d.name;
      EXPECT_EQ(y.bytes, Draw("_random_" + d.name, attrs)[0].bytes) << d.name;
    }
  }
}

TEST(Random, TheFirstNumbersOfALongTensorAreThoseOfAShortOne) {
  for (const Distribution& d : Distributions()) {
    const auto draw = [&](const char* shape) { return Draw("_random_" + d.name, With(AttrsOf(d), "shape", shape))[0].values(); };
    const std::vector<double> shorter = draw("(7,)"), longer = draw("(50,)");
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin())) << d.name;
    EXPECT_TRUE(draw("(0, 3)").empty());
  }
}

// One block for each element of the parameters.
TEST(Sample, DrawsABlockForEachParameter) {
  for (const Distribution& d : Distributions()) {
    std::vector<HostTensor> parameters;
    for (const auto& [name, value] : d.parameters) {
      const double other = d.name == "uniform" || d.name == "normal" ? value + 10 : value;
      parameters.push_back(HostTensor::Of({{2}, {value, other}}, DType::kFloat32));
    }
    const HostTensor y = Draw("_sample_" + d.name, {{"shape", "(200, 200)"}}, parameters)[0];
    EXPECT_EQ(y.shape, Shape({2, 200, 200})) << d.name;
    EXPECT_EQ(y.dtype, DType::kFloat32) << d.name;
    const std::vector<double> v = y.values();
    ExpectMoments({v.begin(), v.begin() + 40000}, d.moments, "_sample_" + d.name);
    if (d.name == "uniform") ExpectMoments({v.begin() + 40000, v.end()}, {13, 4.0 / 12}, "the second block");
    if (d.name == "normal") ExpectMoments({v.begin() + 40000, v.end()}, {9, 169}, "the second block");
    EXPECT_EQ(Draw("_sample_" + d.name, {{"dtype", "float64"}}, parameters)[0].shape, Shape({2}));
  }
}

TEST(Sample, ParametersOutOfRangeGiveNan) {
  const auto drawn = [](const std::string& op, std::vector<double> parameters) {
    std::vector<HostTensor> inputs;
    for (double p : parameters) inputs.push_back(HostTensor::Of({{1}, {p}}, DType::kFloat64));
    return Draw(op, {}, inputs)[0].values()[0];
  };
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_TRUE(std::isnan(drawn("_sample_normal", {0, -1})));
  for (double bad : {0.0, -1.0, nan}) EXPECT_TRUE(std::isnan(drawn("_sample_exponential", {bad}))) << bad;
  for (double bad : {0.0, -1.0, inf, nan}) EXPECT_TRUE(std::isnan(drawn("_sample_gamma", {bad, 1}))) << bad;
  for (double bad : {-1.0, inf, nan}) EXPECT_TRUE(std::isnan(drawn("_sample_poisson", {bad}))) << bad;
  for (double bad : {0.0, 1.5, nan}) EXPECT_TRUE(std::isnan(drawn("_sample_negative_binomial", {2, bad}))) << bad;
  EXPECT_TRUE(std::isnan(drawn("_sample_generalized_negative_binomial", {2, -1})));
}

TEST(Random, ParametersOutOfRangeAreRefused) {
  const auto code = [](const std::string& op, const AttrDict& attrs) { return ErrorOf(op, {}, attrs).code(); };
  constexpr auto kRefused = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code("_random_exponential", {{"lam", "0"}, {"shape", "(1,)"}}), kRefused);
  EXPECT_EQ(code("_random_gamma", {{"alpha", "-1"}, {"shape", "(1,)"}}), kRefused);
  EXPECT_EQ(code("_random_poisson", {{"lam", "-1"}, {"shape", "(1,)"}}), kRefused);
  EXPECT_EQ(code("_random_poisson", {{"lam", "1"}, {"shape", "(1,)"}, {"dtype", "int32"}}), kRefused);
  EXPECT_EQ(code("_random_negative_binomial", {{"p", "2"}, {"shape", "(1,)"}}), kRefused);
  EXPECT_EQ(code("_random_randint", {{"low", "3"}, {"high", "3"}, {"shape", "(1,)"}}), kRefused);
  EXPECT_EQ(code("_random_randint", {{"low", "0"}, {"high", "4294967296"}, {"shape", "(1,)"}}), kRefused);
  EXPECT_EQ(ErrorOf("_sample_normal", {{{2}, {1, 2}}, {{3}, {1, 2, 3}}}).code(), kRefused);
}

TEST(Randint, FillsItsRangeEvenly) {
  const HostTensor y = Draw("_random_randint", {{"low", "-2"}, {"high", "3"}, {"shape", "(40000,)"}})[0];
  EXPECT_EQ(y.dtype, DType::kInt32);
  std::map<double, int> count;
  for (double v : y.values()) ++count[v];
  ASSERT_EQ(count.size(), 5u);
  EXPECT_EQ(count.begin()->first, -2);
  for (const auto& [value, times] : count) EXPECT_NEAR(times, 8000, 400) << value;
}

TEST(Randint, OfTheWidestRange) {
  const HostTensor y =
      Draw("_random_randint",
           {{"low", "-9223372036854775808"}, {"high", "9223372036854775807"}, {"shape", "(10000,)"}, {"dtype", "int64"}})[0];
  const std::vector<double> v = y.values();
  EXPECT_NEAR(static_cast<double>(std::count_if(v.begin(), v.end(), [](double e) { return e < 0; })), 5000, 250);
  EXPECT_LT(*std::min_element(v.begin(), v.end()), -0x1.fp62);
  EXPECT_GT(*std::max_element(v.begin(), v.end()), 0x1.fp62);
}

TEST(Multinomial, DrawsByTheProbabilities) {
  const HostTensor p = HostTensor::Of({{2, 3}, {0.2, 0.5, 0.3, 0, 1, 0}}, DType::kFloat32);
  const auto ys = Draw("_sample_multinomial", {{"shape", "(20000,)"}, {"get_prob", "True"}}, {p});
  ASSERT_EQ(ys.size(), 2u);
  EXPECT_EQ(ys[0].shape, Shape({2, 20000}));
  EXPECT_EQ(ys[0].dtype, DType::kInt32);
  const std::vector<double> classes = ys[0].values(), logs = ys[1].values(), probabilities = p.values();
  for (int k = 0; k < 3; ++k) {
    const auto times = std::count(classes.begin(), classes.begin() + 20000, k);
    EXPECT_NEAR(static_cast<double>(times), 20000 * probabilities[k], 350) << k;
    EXPECT_EQ(std::count(classes.begin() + 20000, classes.end(), k), k == 1 ? 20000 : 0);
  }
  for (int i = 0; i < 20000; ++i) ASSERT_NEAR(logs[i], std::log(probabilities[static_cast<size_t>(classes[i])]), 1e-6);
}

TEST(Multinomial, OneClassForEachRow) {
  const HostTensor vector = HostTensor::Of({{2}, {0, 1}}, DType::kFloat64),
                   matrix = HostTensor::Of({{2, 1}, {1, 1}}, DType::kFloat16);
  EXPECT_EQ(Draw("_sample_multinomial", {}, {vector})[0].shape, Shape({1}));
  EXPECT_EQ(Draw("_sample_multinomial", {}, {vector})[0].values(), std::vector<double>{1});
  EXPECT_EQ(Draw("_sample_multinomial", {{"dtype", "uint8"}}, {matrix})[0].values(), (std::vector<double>{0, 0}));
  EXPECT_EQ(ErrorOf("_sample_multinomial", {{{2, 0}, {}}}).code(), absl::StatusCode::kInvalidArgument);
}

// d log p[k] = dp[k] / p[k], for each time that k was drawn.
TEST(Multinomial, GradientOfTheLogProbability) {
  const NodeEntry p = MakeVariable("p");
  const NodePtr y = *TryMakeNode("_sample_multinomial", "y", {p}, {{"shape", "(50,)"}, {"get_prob", "True"}});
  const HostTensor probabilities = HostTensor::Of({{2}, {0.25, 0.75}}, DType::kFloat32);
  const std::map<std::string, HostTensor> at = {{"p", probabilities},
                                                {"dy", HostTensor::Of({{50}, std::vector<double>(50, 1)}, DType::kFloat32)}};
  const Gradients dp = *BuildGradient({Output(y, 1)}, {p}, {MakeVariable("dy")});
  const auto values = OneByOne().Evaluate({Output(y), dp[0]}, at);
  ASSERT_TRUE(values.ok()) << values.status();
  const std::vector<double> classes = (*values)[0].values();
  const auto ones = static_cast<double>(std::count(classes.begin(), classes.end(), 1));
  EXPECT_NEAR((*values)[1].values()[0], (50 - ones) / 0.25, 1e-3);
  EXPECT_NEAR((*values)[1].values()[1], ones / 0.75, 1e-3);
}

TEST(Shuffle, IsAPermutationOfTheSlices) {
  Numbers x = {{100, 2}, {}};
  for (int i = 0; i < 200; ++i) x.values.push_back(i);
  for (DType type : {DType::kFloat32, DType::kInt64, DType::kFloat64}) {
    const std::vector<double> y = Draw("_shuffle", {}, {HostTensor::Of(x, type)})[0].values();
    EXPECT_NE(y, x.values);
    std::vector<double> first;
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(y[2 * i] + 1, y[2 * i + 1]);
      first.push_back(y[2 * i]);
    }
    std::sort(first.begin(), first.end());
    for (int i = 0; i < 100; ++i) EXPECT_EQ(first[i], 2 * i);
  }
  EXPECT_TRUE(Draw("_shuffle", {}, {HostTensor::Of({{0}, {}}, DType::kFloat32)})[0].values().empty());
}

TEST(Shuffle, TheGradientGoesBackToWhereTheSliceCameFrom) {
  const NodeEntry x = MakeVariable("x");
  const NodePtr y = *TryMakeNode("_shuffle", "y", {x}, {});
  const HostTensor places = HostTensor::Of({{5}, {0, 1, 2, 3, 4}}, DType::kFloat64);
  const Gradients dx = *BuildGradient({Output(y)}, {x}, {Output(y)});  // With dy = y, dx is x again.
  const auto values = OneByOne().Evaluate(dx, {{"x", places}});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].values(), places.values());
}

}  // namespace
}  // namespace gluond::testing::sample
