#include "tests/ops/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/elementwise.h"
#include "engine/passes/gradient.h"
#include "ops/kernel/convert.h"

namespace gluond::testing {
namespace {

// The error that a result may have, relative to its size or to 1. Literals in tables have some 7 digits.
double ToleranceOf(DType type) {
  switch (type) {
    case DType::kFloat64: return 2e-7;
    case DType::kFloat32: return 2e-6;
    case DType::kFloat16: return 4e-3;
    case DType::kBfloat16: return 3e-2;
    default: return 0;
  }
}

bool Holds(DType type, const Numbers& numbers) {
  if (IsFloating(type)) return true;
  for (double v : numbers.values) {
    HostTensor one = HostTensor::Of({{1}, {v}}, type);
    if (one.values()[0] != v) return false;
  }
  return true;
}

bool Near(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want));
}

void ExpectNear(const HostTensor& got, const Numbers& want, double tolerance, const std::string& where) {
  EXPECT_EQ(got.shape, want.shape) << where;
  const std::vector<double> values = got.values();
  ASSERT_EQ(values.size(), want.values.size()) << where;
  const double allowed = tolerance * ToleranceOf(got.dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(Near(values[i], want.values[i], allowed))
        << where << ", element " << i << ": got " << values[i] << ", want " << want.values[i];
  }
}

std::string InputName(size_t i) { return absl::StrCat("x", i); }

struct Call {
  NodePtr node;
  std::vector<NodeEntry> xs;
};

absl::StatusOr<Call> MakeCall(const OpCase& c) {
  Call call;
  for (size_t i = 0; i < c.inputs.size(); ++i) call.xs.push_back(MakeVariable(InputName(i)));
  ASSIGN_OR_RETURN(call.node, TryMakeNode(c.op, "y", call.xs, c.attrs));
  return call;
}

std::vector<HostTensor> InputsOf(const OpCase& c, DType type) {
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool fixed = c.float32_inputs.count(static_cast<int>(i)) > 0;
    inputs.push_back(HostTensor::Of(c.inputs[i], fixed ? DType::kFloat32 : type));
  }
  return inputs;
}

// Calls check(type) for every type that the case is for; `first` says how the operator answers to the type.
template <class Check>
void ForEachType(const OpCase& c, const Node& node, const Check& check) {
  int checked = 0;
  for (DType type : kAllDTypes) {
    if (!IsFloating(type) && !c.integers) continue;
    const auto holds = [&](const Numbers& n) { return Holds(type, n); };
    if (!std::all_of(c.inputs.begin(), c.inputs.end(), holds)) continue;
    if (!std::all_of(c.outputs.begin(), c.outputs.end(), holds)) continue;
    std::vector<HostTensor> inputs = InputsOf(c, type);
    const absl::StatusOr<std::vector<HostTensor>> ys = OneByOne(c.is_train).Call(node, &inputs);
    if (!ys.ok() && !IsFloating(type) && absl::IsInvalidArgument(ys.status())) continue;  // It refuses the type.
    ASSERT_TRUE(ys.ok()) << type << ": " << ys.status();
    check(type, *ys);
    ++checked;
  }
  EXPECT_GT(checked, 0) << "no type was checked";
}

// A program may have tests of another kind only.
}  // namespace
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpTest);
namespace {

TEST_P(OpTest, Forward) {
  const OpCase& c = GetParam();
  const absl::StatusOr<Call> call = MakeCall(c);
  ASSERT_TRUE(call.ok()) << call.status();
  ForEachType(c, *call->node, [&](DType type, const std::vector<HostTensor>& ys) {
    ASSERT_LE(c.outputs.size(), ys.size());
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      ExpectNear(ys[i], c.outputs[i], c.tolerance, absl::StrCat(Name(type), ", output ", i));
    }
  });
}

// Compares with the results of kWriteTo, which Forward has checked.
TEST_P(OpTest, HonoursEveryRequest) {
  const OpCase& c = GetParam();
  const absl::StatusOr<Call> call = MakeCall(c);
  ASSERT_TRUE(call.ok()) << call.status();
  const Node& node = *call->node;
  ForEachType(c, node, [&](DType type, const std::vector<HostTensor>& written) {
    const auto run = [&](const CallOptions& options) {
      std::vector<HostTensor> inputs = InputsOf(c, type);
      const auto ys = OneByOne(c.is_train).Call(node, &inputs, options);
      EXPECT_TRUE(ys.ok()) << type << ": " << ys.status();
      return ys.value_or(written);
    };
    const std::vector<HostTensor> kept = run({.req = kNullOp, .fill = 1});
    const std::vector<HostTensor> added = run({.req = kAddTo, .fill = 1});
    for (size_t i = 0; i < written.size(); ++i) {
      const Numbers ones = {written[i].shape, std::vector<double>(written[i].shape.Size(), 1)};
      EXPECT_EQ(kept[i].bytes, HostTensor::Of(ones, written[i].dtype).bytes) << type << ": kNullOp wrote output " << i;
      Numbers sums = {written[i].shape, written[i].values()};
      for (double& v : sums.values) v += 1;
      if (Holds(written[i].dtype, sums)) {
        ExpectNear(added[i], sums, c.tolerance, absl::StrCat(Name(type), ", kAddTo, output ", i));
      }
    }
    const uint32_t visible = node.op()->num_visible_outputs(node.attrs);
    for (const OpReqType req : {kWriteTo, kAddTo}) {
      if (visible == written.size()) break;
      const std::vector<HostTensor>& want = req == kAddTo ? added : written;
      const std::vector<HostTensor> alone = run({.req = req, .fill = 1, .hidden = false});
      for (uint32_t i = 0; i < visible; ++i) {
        ExpectNear(alone[i], {want[i].shape, want[i].values()}, c.tolerance,
                   absl::StrCat(Name(type), ", without the hidden outputs, request ", req, ", output ", i));
      }
    }
    const auto* options = node.op()->GetAttr<FInplaceOption>("FInplaceOption");
    if (options == nullptr) return;
    for (const auto& [input, output] : (*options)(node.attrs)) {
      const std::vector<HostTensor> inputs = InputsOf(c, type);
      if (inputs[input].bytes.size() != written[output].bytes.size() || inputs[input].dtype != written[output].dtype) continue;
      const std::vector<HostTensor> ys =
          run({.req = kWriteInplace, .inplace_input = input, .inplace_output = output});
      EXPECT_EQ(ys[output].values().size(), written[output].values().size());
      ExpectNear(ys[output], {written[output].shape, written[output].values()}, c.tolerance,
                 absl::StrCat(Name(type), ", in place of input ", input));
    }
  });
}

// sum_i dy[i] y[i] of all visible outputs, and its gradient by central differences.
class Loss {
 public:
  Loss(const OpCase& c, std::vector<NodeEntry> ys, std::map<std::string, HostTensor> variables)
      : is_train_(c.is_train), ys_(std::move(ys)), variables_(std::move(variables)) {}

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
  const bool is_train_;
  const std::vector<NodeEntry> ys_;
  const std::map<std::string, HostTensor> variables_;
};

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
  const auto* fgradient = call->node->op()->GetAttr<FGradient>("FGradient");
  if (fgradient == nullptr) return;
  std::vector<NodeEntry> ys, heads;
  for (uint32_t i = 0; i < call->node->op()->num_visible_outputs(call->node->attrs); ++i) {
    ys.push_back(Output(call->node, i));
  }
  for (uint32_t i = 0; i < call->node->num_outputs(); ++i) heads.push_back(MakeVariable(absl::StrCat("head", i)));
  const absl::StatusOr<Gradients> entries = (*fgradient)(call->node, heads);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), c.inputs.size()) << "FGradient wants one entry for each input";
  std::map<std::string, HostTensor> variables;
  const std::vector<HostTensor> inputs = InputsOf(c, DType::kFloat64);
  std::vector<NodeEntry> xs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    variables[InputName(i)] = inputs[i];
    const bool constant = c.constants.count(static_cast<int>(i)) > 0;
    if (!constant && (*entries)[i]) xs.push_back(call->xs[i]);
  }
  if (xs.empty()) return;
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

std::set<std::string>& CoveredOps() {
  static std::set<std::string>& ops = *new std::set<std::string>;
  return ops;
}

std::string CaseName(const ::testing::TestParamInfo<OpCase>& info) { return info.param.name; }

absl::Status ErrorOf(const std::string& op, const std::vector<Numbers>& inputs, const AttrDict& attrs) {
  const OpCase c = {"", op, inputs, attrs};
  const absl::StatusOr<Call> call = MakeCall(c);
  if (!call.ok()) return call.status();
  std::vector<HostTensor> tensors = InputsOf(c, DType::kFloat32);
  return OneByOne().Call(*call->node, &tensors).status();
}

}  // namespace gluond::testing
