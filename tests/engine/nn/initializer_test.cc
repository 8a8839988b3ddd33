#include "engine/nn/initializer.h"

#include <cmath>

#include "engine/nn/orthogonal.h"
#include "engine/runtime/random_stream.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

absl::StatusOr<std::vector<float>> Fill(const Spec& spec, const Shape& shape, const char* name = "w", uint64_t seed = 1) {
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  const InitializerTarget target = {name, shape, RandomStream(seed, RandomDomain::kParameter, NameHash(name)),
                                    absl::MakeSpan(values)};
  RETURN_IF_ERROR(Initializers().Make(spec.type, spec.attrs, target));
  return values;
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};
Moments MomentsOf(const std::vector<float>& values) {
  Moments m;
  for (float v : values) m.mean += v, m.largest = std::max<double>(m.largest, std::abs(v));
  m.mean /= static_cast<double>(values.size());
  for (float v : values) m.deviation += (v - m.mean) * (v - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()));
  return m;
}

// A 200 x 300 matrix; `bound` 0: not bounded.
struct Case {
  const char* name;
  Spec spec;
  double deviation;
  double bound;
};
class InitializerTest : public testing::TestWithParam<Case> {};

TEST_P(InitializerTest, HasMxnetsDistribution) {
  const auto values = Fill(GetParam().spec, {200, 300});
  ASSERT_OK(values.status());
  const Moments m = MomentsOf(*values);
  EXPECT_NEAR(m.mean, 0, 0.02 * GetParam().deviation);
  EXPECT_NEAR(m.deviation, GetParam().deviation, 0.02 * GetParam().deviation);
  if (GetParam().bound > 0) {
    EXPECT_LE(m.largest, GetParam().bound * 1.0001);
    EXPECT_GT(m.largest, GetParam().bound * 0.999);
  }
}

INSTANTIATE_TEST_SUITE_P(Initializers, InitializerTest,
                         testing::ValuesIn<Case>({
                             {"Uniform", {"Uniform", {}}, 0.07 / std::sqrt(3.0), 0.07},
                             {"Normal", {"Normal", {}}, 0.01, 0},
                             {"Xavier", {"Xavier", {}}, std::sqrt(3.0 / 250) / std::sqrt(3.0), std::sqrt(3.0 / 250)},
                             {"XavierGaussianIn",
                              {"Xavier", {{"rnd_type", "gaussian"}, {"factor_type", "in"}, {"magnitude", "2"}}},
                              std::sqrt(2.0 / 300),
                              0},
                             {"XavierOut", {"Xavier", {{"factor_type", "out"}}}, std::sqrt(1.0 / 200), std::sqrt(3.0 / 200)},
                             {"MSRAPrelu", {"MSRAPrelu", {}}, std::sqrt(2 / (1 + 0.0625) / 250), 0},
                             {"MSRAPreluSlope", {"MSRAPrelu", {{"factor_type", "in"}, {"slope", "0"}}}, std::sqrt(2.0 / 300), 0},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(InitializersTest, ConstantsAreConstant) {
  EXPECT_EQ(*Fill({"Zero", {}}, {3}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(*Fill({"One", {}}, {3}), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(*Fill({"Constant", {{"value", "2.5"}}}, {2}), (std::vector<float>{2.5, 2.5}));
  EXPECT_EQ(*Fill({"Constant", {{"value", "(1, 2, 3, 4)"}}}, {2, 2}), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(Fill({"Constant", {{"value", "(1, 2, 3)"}}}, {2, 2}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(InitializersTest, BilinearEnlarges) {
  const std::vector<float> row = {0.25, 0.75, 0.75, 0.25};
  const auto weight = *Fill({"Bilinear", {}}, {2, 1, 4, 4});
  for (size_t i = 0; i < weight.size(); ++i) EXPECT_EQ(weight[i], row[i / 4 % 4] * row[i % 4]) << i;
  EXPECT_EQ(Fill({"Bilinear", {}}, {4}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(InitializersTest, LSTMBiasOpensTheForgetGates) {
  EXPECT_EQ(*Fill({"LSTMBias", {}}, {8}), (std::vector<float>{0, 0, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(*Fill({"LSTMBias", {{"forget_bias", "2"}}}, {4}), (std::vector<float>{0, 2, 0, 0}));
}

TEST(InitializersTest, FusedRNNFillsEachGatesMatrix) {
  const AttrDict lstm = {
      {"init", "Constant(value=3)"}, {"num_hidden", "2"}, {"num_layers", "2"}, {"mode", "lstm"}, {"bidirectional", "True"}};
  // Weights of 8 rows in both directions for 3 inputs, then for 4; then 8 biases for each matrix.
  const int64_t weights = 2 * 8 * (3 + 2) + 2 * 8 * (4 + 2);
  const auto values = *Fill({"FusedRNN", lstm}, {weights + 8 * 8});
  for (int64_t i = 0; i < weights; ++i) EXPECT_EQ(values[i], 3) << i;
  for (int64_t i = 0; i < 8 * 8; ++i) EXPECT_EQ(values[weights + i], i % 8 == 2 || i % 8 == 3 ? 1 : 0) << i;
  const absl::Status status = Fill({"FusedRNN", lstm}, {weights}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("want (192 + 16 input_size,)"), absl::string_view::npos) << status;
}

TEST(InitializersTest, FusedRNNsGatesDiffer) {
  const auto values = *Fill({"FusedRNN",
                             {{"init", R"(["xavier", {"rnd_type": "gaussian", "magnitude": 2}])"},
                              {"num_hidden", "4"},
                              {"num_layers", "1"},
                              {"mode", "gru"}}},
                            {3 * 4 * (4 + 4 + 2)});
  EXPECT_NE(values[0], values[16]);
  EXPECT_NE(values[16], values[32]);
  EXPECT_EQ(values.back(), 0);
}

TEST(InitializersTest, OrthogonalTakesNoMoreThanItSays) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, (1 << 26) + 1}, {1 << 13, (1 << 12) + 1}, {1 << 13, 1 << 13}}) {
    EXPECT_EQ(Orthogonalize({}, rows, cols, 1).code(), absl::StatusCode::kInvalidArgument) << rows << " by " << cols;
  }
}

TEST(InitializersTest, OrthogonalRowsOrColumns) {
  for (const auto& [rows, cols] : {std::pair(20, 50), std::pair(50, 20)}) {
    for (const char* type : {"uniform", "normal"}) {
      const auto w = *Fill({"Orthogonal", {{"rand_type", type}}}, {rows, cols});
      const bool tall = rows > cols;
      const int count = std::min(rows, cols), length = std::max(rows, cols);
      const auto at = [&](int v, int i) { return w[static_cast<size_t>(tall ? i * cols + v : v * cols + i)]; };
      for (int a = 0; a < count; ++a) {
        for (int b = 0; b <= a; ++b) {
          double dot = 0;
          for (int i = 0; i < length; ++i) dot += static_cast<double>(at(a, i)) * at(b, i);
          EXPECT_NEAR(dot, a == b ? 1.414 * 1.414 : 0, 1e-5);
        }
      }
    }
  }
}

TEST(InitializersTest, ConvolutionsFanCountsTheWindow) {
  const auto values = *Fill({"Xavier", {{"factor_type", "in"}}}, {64, 3, 5, 5});
  EXPECT_NEAR(MomentsOf(values).largest, std::sqrt(3.0 / 75), 0.001);
}

TEST(InitializersTest, XavierRefusesVectorsInMxnetsWords) {
  const absl::Status status = Fill({"Xavier", {}}, {7}, "fc.bias").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("Xavier initializer cannot be applied to vector fc.bias"), absl::string_view::npos);
}

TEST(InitializersTest, ValuesDependOnSeedAndNameAlone) {
  EXPECT_EQ(*Fill({"Normal", {}}, {9}), *Fill({"Normal", {}}, {9}));
  EXPECT_NE(*Fill({"Normal", {}}, {9}), *Fill({"Normal", {}}, {9}, "v"));
  EXPECT_NE(*Fill({"Normal", {}}, {9}), *Fill({"Normal", {}}, {9}, "w", 2));
  // FNV-1a of 32 bits is the same for both.
  EXPECT_NE(*Fill({"Normal", {}}, {9}, "costarring"), *Fill({"Normal", {}}, {9}, "liquid"));
}

TEST(InitializersTest, AreReadFromText) {
  EXPECT_EQ(ParseInitializer("zeros")->type, "Zero");
  EXPECT_EQ(ParseInitializer("ones")->type, "One");
  EXPECT_EQ(ParseInitializer("")->type, "");
  for (const char* text : {"Xavier(rnd_type=gaussian, magnitude=2)", R"(["xavier", {"rnd_type": "gaussian", "magnitude": 2}])"}) {
    const auto spec = ParseInitializer(text);
    ASSERT_OK(spec.status());
    EXPECT_EQ(spec->type, "Xavier");
    EXPECT_EQ(spec->attrs, (AttrDict{{"rnd_type", "gaussian"}, {"magnitude", "2"}})) << text;
  }
  EXPECT_EQ(ParseInitializer(R"(["zero", {}])")->attrs, AttrDict());
  EXPECT_EQ(ParseInitializer("None")->type, "");
  const std::string gates = "Xavier(rnd_type=gaussian, magnitude=2)";
  EXPECT_EQ(ParseInitializer(absl::StrCat("FusedRNN(init=", gates, ", num_hidden=3)"))->attrs,
            (AttrDict{{"init", gates}, {"num_hidden", "3"}}));
  EXPECT_EQ(ParseInitializer(R"(["fusedrnn", {"init": "[\"xavier\", {\"magnitude\": 2}]", "num_hidden": 3}])")->attrs,
            (AttrDict{{"init", R"(["xavier", {"magnitude": 2}])"}, {"num_hidden", "3"}}));
  EXPECT_EQ(ParseInitializer("Xavior").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ParseInitializer("Xavier(magnitude=2").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond
