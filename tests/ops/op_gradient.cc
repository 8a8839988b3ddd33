// Backward: FGradient in float64 against central differences of sum_i dy[i] y[i], with unequal dy, since a plain sum passes
// wrong gradients (that of softmax is 0 whatever x is).

#include <cmath>

#include "engine/passes/gradient.h"
#include "tests/ops/op_call.h"

namespace gluond::testing {
namespace {

bool Near(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want));
}

// How far element i of a large input goes along the direction of a slope.
double WayOf(int64_t i) { return std::cos(1.5 * static_cast<double>(i) + 1); }

// sum_i dy[i] y[i] of all visible outputs, and its gradient by central differences.
class Loss {
 public:
  Loss(const OpCase& c, std::vector<NodeEntry> ys, std::map<std::string, HostTensor> variables)
      : is_train_(c.is_train), ys_(std::move(ys)), variables_(std::move(variables)) {}

  // The derivative along x + t v, with v of WayOf, of all x of `xs` at once.
  double Slope(const std::vector<NodeEntry>& xs) const {
    const double h = 1e-5;
    return (AtShifted(xs, h) - AtShifted(xs, -h)) / (2 * h);
  }

  double At(const std::map<std::string, HostTensor>& variables) const {
    const auto ys = OneByOne(is_train_).Evaluate(ys_, variables);
    if (!ys.ok()) {
      ADD_FAILURE() << ys.status();
      return 0;
    }
    double loss = 0;
    for (size_t k = 0; k < ys->size(); ++k) {
      const std::vector<double> y = (*ys)[k].values(), dy = variables.at(absl::StrCat("dy", k)).values();
      for (size_t i = 0; i < y.size(); ++i) loss += dy[i] * y[i];
    }
    return loss;
  }

  std::vector<double> NumericGradient(const std::string& name) const {
    std::map<std::string, HostTensor> at = variables_;
    double* const x = reinterpret_cast<double*>(at.at(name).bytes.data());
    std::vector<double> gradient;
    for (int64_t i = 0; i < at.at(name).shape.Size(); ++i) {
      const double old = x[i], h = 1e-5 * std::max(1.0, std::abs(old));
      x[i] = old + h;
      const double right = At(at);
      x[i] = old - h;
      const double left = At(at);
      x[i] = old;
      gradient.push_back((right - left) / (2 * h));
    }
    return gradient;
  }

 private:
  double AtShifted(const std::vector<NodeEntry>& xs, double h) const {
    std::map<std::string, HostTensor> at = variables_;
    for (const NodeEntry& x : xs) {
      HostTensor& values = at.at(x.node->name());
      for (int64_t i = 0; i < values.shape.Size(); ++i) reinterpret_cast<double*>(values.bytes.data())[i] += h * WayOf(i);
    }
    return At(at);
  }

  const bool is_train_;
  const std::vector<NodeEntry> ys_;
  const std::map<std::string, HostTensor> variables_;
};

// Differences by each of many elements would take long, and one direction that no element is still in finds as much.
void ExpectSlope(const Loss& loss, const std::vector<NodeEntry>& xs, const std::vector<HostTensor>& gradients, double tolerance,
                 const std::string& what) {
  double slope = 0, size = 1;
  for (size_t i = 0; i < xs.size(); ++i) {
    const std::vector<double> gradient = gradients[i].values();
    for (size_t k = 0; k < gradient.size(); ++k) {
      slope += gradient[k] * WayOf(static_cast<int64_t>(k));
      size = std::max(size, std::abs(gradient[k]));
    }
  }
  EXPECT_NEAR(slope, loss.Slope(xs), 1e-5 * tolerance * size * std::sqrt(kLeastOfLarge)) << what << "along one direction";
}

// Weights that differ by element.
HostTensor HeadGradient(const HostTensor& y, double phase) {
  Numbers dy = {y.shape, {}};
  for (int64_t i = 0; i < y.shape.Size(); ++i) dy.values.push_back(std::cos(phase + static_cast<double>(i)));
  return HostTensor::Of(dy, DType::kFloat64);
}

// Compares dL/dx for every x of `xs` that is differentiated, and returns the entries of those gradients.
void CheckGradient(const OpCase& c, const std::vector<NodeEntry>& ys, const std::vector<NodeEntry>& xs,
                   const std::map<std::string, HostTensor>& variables, const std::string& what) {
  std::map<std::string, HostTensor> at = variables;
  const auto values = OneByOne(c.is_train).Evaluate(ys, at);
  ASSERT_TRUE(values.ok()) << what << values.status();
  std::vector<NodeEntry> dys;
  for (size_t k = 0; k < ys.size(); ++k) {
    dys.push_back(MakeVariable(absl::StrCat("dy", k)));
    at[absl::StrCat("dy", k)] = HeadGradient((*values)[k], static_cast<double>(ys.size() + k));
  }
  const absl::StatusOr<Gradients> dxs = BuildGradient(ys, xs, dys);
  ASSERT_TRUE(dxs.ok()) << what << dxs.status();
  const auto got = OneByOne(c.is_train).Evaluate(*dxs, at);
  ASSERT_TRUE(got.ok()) << what << got.status();
  const Loss loss(c, ys, at);
  if (IsLarge(c)) return ExpectSlope(loss, xs, *got, c.tolerance, what);
  for (size_t i = 0; i < xs.size(); ++i) {
    const std::string& name = xs[i].node->name();
    const std::vector<double> want = loss.NumericGradient(name), gradient = (*got)[i].values();
    ASSERT_EQ((*got)[i].shape, at.at(name).shape) << what << name;
    for (size_t k = 0; k < want.size(); ++k) {
      EXPECT_TRUE(Near(gradient[k], want[k], 1e-5 * c.tolerance))
          << what << "dL/d" << name << "[" << k << "] is " << gradient[k] << ", by differences " << want[k];
    }
  }
}

TEST_P(OpTest, GradientMatchesDifferences) {
  const OpCase& c = GetParam();
  if (!c.gradient) return;
  const absl::StatusOr<Call> call = MakeCall(c);
  ASSERT_TRUE(call.ok()) << call.status();
  const absl::StatusOr<std::vector<NodeEntry>> differentiated = Differentiated(c, *call);
  ASSERT_TRUE(differentiated.ok()) << differentiated.status();
  const std::vector<NodeEntry>& xs = *differentiated;
  if (xs.empty()) return;
  const std::vector<NodeEntry> ys = VisibleOutputs(*call);
  std::map<std::string, HostTensor> variables;
  const std::vector<HostTensor> inputs = InputsOf(c, DType::kFloat64);
  for (size_t i = 0; i < inputs.size(); ++i) variables[InputName(i)] = inputs[i];
  CheckGradient(c, ys, xs, variables, "");
  if (!c.second_order) return;
  // The gradient is a function of x and of the head gradients, to be differentiated by both.
  std::vector<NodeEntry> dys;
  const auto values = OneByOne(c.is_train).Evaluate(ys, variables);
  ASSERT_TRUE(values.ok()) << values.status();
  for (size_t k = 0; k < ys.size(); ++k) {
    dys.push_back(MakeVariable(absl::StrCat("head", k)));
    variables[absl::StrCat("head", k)] = HeadGradient((*values)[k], 0.5);
  }
  const absl::StatusOr<Gradients> dxs = BuildGradient(ys, xs, dys);
  ASSERT_TRUE(dxs.ok()) << dxs.status();
  std::vector<NodeEntry> second = xs;
  second.insert(second.end(), dys.begin(), dys.end());
  CheckGradient(c, *dxs, second, variables, "second order: ");
}

}  // namespace
}  // namespace gluond::testing
