// How far float32 kernels are from double, in units in the last place, over their whole range: as they run, vectorized.

#include <cmath>
#include <cstring>

#include "tests/ops/op_case.h"

namespace gluond::testing::math {
namespace {

// The distance of neighbouring float32 numbers at `v`.
double Ulp(double v) {
  const double magnitude = std::max(std::abs(v), 0x1p-126);
  return std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

double WorstUlps(const std::string& op, double (*f)(double), double low, double high) {
  const int64_t n = 200001;
  Numbers x = {{n}, {}};
  for (int64_t i = 0; i < n; ++i) x.values.push_back(static_cast<float>(low + (high - low) * i / (n - 1)));
  std::vector<HostTensor> inputs = {HostTensor::Of(x, DType::kFloat32)};
  const std::vector<double> y = (*OneByOne().Call(**TryMakeNode(op, "y", {MakeVariable("x")}), &inputs))[0].values();
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double want = f(x.values[i]);
    if (std::abs(want) > 3.4028234e38) continue;
    worst = std::max(worst, std::abs(y[i] - want) / Ulp(want));
  }
  return worst;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Exp(double x) { return std::exp(x); }
double Log(double x) { return std::log(x); }
double Tanh(double x) { return std::tanh(x); }
double Erf(double x) { return std::erf(x); }

TEST(Math, Exp) {
  const double most = TestDevice().type == DeviceType::kGpu ? 2 : 1.5;  // CUDA's was 1.77 away on an H100.
  EXPECT_LE(WorstUlps("exp", Exp, -104, 89), most);
  EXPECT_LE(WorstUlps("exp", Exp, -1, 1), most);
}
TEST(Math, Log) {
  EXPECT_LE(WorstUlps("log", Log, 1e-38, 1e-30), 1.5);
  EXPECT_LE(WorstUlps("log", Log, 1e-45, 1e-38), 1.5);
  EXPECT_LE(WorstUlps("log", Log, 0.5, 2), 1.5);
  EXPECT_LE(WorstUlps("log", Log, 1, 3e38), 1.5);
}
TEST(Math, Tanh) {
  EXPECT_LE(WorstUlps("tanh", Tanh, -1, 1), 2.5);  // A GPU may have the C library's.
  EXPECT_LE(WorstUlps("tanh", Tanh, -20, 20), 2);
}
TEST(Math, Sigmoid) { EXPECT_LE(WorstUlps("sigmoid", Sigmoid, -80, 80), 3); }
TEST(Math, Erf) {
  EXPECT_LE(WorstUlps("erf", Erf, -1, 1), 2);
  EXPECT_LE(WorstUlps("erf", Erf, -5, 5), 2);
}

}  // namespace
}  // namespace gluond::testing::math
