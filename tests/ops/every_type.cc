// Forward and backward in every floating-point type against float64 on a CPU, from the same numbers. float64's gradients
// are those of central differences (op_gradient.cc). Kernels of other types, and those of a GPU, have code of their own: it
// adds up in another type, cuts rows in other ways, and rounds in between.

#include <cmath>

#include "engine/passes/gradient.h"
#include "tests/ops/op_call.h"

namespace gluond::testing {
namespace {

// Below this, an error is of rounding, whatever the result: the numbers of large rows are smaller.
double LeastScale(const OpCase& c) { return IsLarge(c) ? 1e-2 : 1; }

constexpr DType kFloats[] = {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBfloat16};

// The same numbers in float64, but for the inputs that are float32 in any case.
std::vector<HostTensor> Widened(const OpCase& c, std::vector<HostTensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (c.float32_inputs.count(static_cast<int>(i)) > 0) continue;
    inputs[i] = HostTensor::Of({inputs[i].shape, inputs[i].values()}, DType::kFloat64);
  }
  return inputs;
}

// Unequal head gradients of one sign, and larger where the output is: so sums of them, and of their products with outputs, grow
// with their number, as sums that stall or lose a part do not, and are no differences that hide rounding.
HostTensor Heads(const HostTensor& y) {
  const std::vector<double> values = y.values();
  double largest = 1e-2;
  for (const double v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  Numbers dy = {y.shape, {}};
  for (size_t i = 0; i < values.size(); ++i) {
    const double part = std::isfinite(values[i]) ? values[i] / largest : 0;
    dy.values.push_back((1 + std::cos(static_cast<double>(i)) / 2) * (1 + part / 2));
  }
  return HostTensor::Of(dy, y.dtype);
}

class TypedCall {
 public:
  TypedCall(const OpCase& c, Call call, std::vector<NodeEntry> xs) : c_(c), call_(std::move(call)), xs_(std::move(xs)) {}

  const std::vector<NodeEntry>& xs() const { return xs_; }

  // The outputs of these inputs.
  absl::StatusOr<std::vector<HostTensor>> Forward(const std::vector<HostTensor>& inputs, Device device) const {
    return OneByOne(c_.is_train, device).Evaluate(VisibleOutputs(call_), Variables(inputs));
  }

  // The gradients by `xs`, given those by the outputs.
  absl::StatusOr<std::vector<HostTensor>> Backward(const std::vector<HostTensor>& inputs, const std::vector<HostTensor>& heads,
                                                   Device device) const {
    std::map<std::string, HostTensor> variables = Variables(inputs);
    std::vector<NodeEntry> dys;
    for (size_t k = 0; k < heads.size(); ++k) {
      dys.push_back(MakeVariable(absl::StrCat("dy", k)));
      variables[dys.back().node->name()] = heads[k];
    }
    ASSIGN_OR_RETURN(const Gradients dxs, BuildGradient(VisibleOutputs(call_), xs_, dys));
    return OneByOne(c_.is_train, device).Evaluate(dxs, variables);
  }

 private:
  static std::map<std::string, HostTensor> Variables(const std::vector<HostTensor>& inputs) {
    std::map<std::string, HostTensor> variables;
    for (size_t i = 0; i < inputs.size(); ++i) variables[InputName(i)] = inputs[i];
    return variables;
  }

  const OpCase& c_;
  const Call call_;
  const std::vector<NodeEntry> xs_;
};

// The allowed error is relative to the tensor's largest number: the small ones are differences of such.
void ExpectClose(const OpCase& c, const HostTensor& got, const HostTensor& want, const std::string& where) {
  ASSERT_EQ(got.shape, want.shape) << where;
  // Rounded, as float16 holds no large numbers.
  const std::vector<double> found = got.values(), wanted = HostTensor::Of({want.shape, want.values()}, got.dtype).values();
  double largest = LeastScale(c);
  for (const double v : wanted)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  const double allowed = c.tolerance * ToleranceOf(got.dtype) * largest;
  int wrong = 0;
  for (size_t i = 0; i < wanted.size() && wrong < 3; ++i) {
    const bool close = std::isfinite(wanted[i]) ? std::abs(found[i] - wanted[i]) <= allowed
                                                : found[i] == wanted[i] || (std::isnan(wanted[i]) && std::isnan(found[i]));
    wrong += !close;
    EXPECT_TRUE(close) << where << "[" << i << "] is " << found[i] << ", in float64 " << wanted[i];
  }
}

TEST_P(OpTest, EveryFloatTypeGivesWhatFloat64Does) {
  const OpCase& c = GetParam();
  const absl::StatusOr<Call> made = MakeCall(c);
  ASSERT_TRUE(made.ok()) << made.status();
  const absl::StatusOr<std::vector<NodeEntry>> xs = Differentiated(c, *made);
  ASSERT_TRUE(xs.ok()) << xs.status();
  const TypedCall call(c, *made, *xs);
  for (const DType type : kFloats) {
    const std::vector<HostTensor> inputs = InputsOf(c, type), wide = Widened(c, inputs);
    const auto ys = call.Forward(inputs, TestDevice());
    const auto wanted = call.Forward(wide, Device());
    ASSERT_TRUE(ys.ok() && wanted.ok()) << type << ": " << ys.status() << wanted.status();
    std::vector<HostTensor> heads, wide_heads;
    for (size_t i = 0; i < ys->size(); ++i) {
      ExpectClose(c, (*ys)[i], (*wanted)[i], absl::StrCat(Name(type), ", output ", i));
      heads.push_back(Heads((*ys)[i]));
      wide_heads.push_back(HostTensor::Of({heads[i].shape, heads[i].values()}, (*wanted)[i].dtype));
    }
    if (call.xs().empty()) continue;
    const auto dxs = call.Backward(inputs, heads, TestDevice());
    const auto wanted_dxs = call.Backward(wide, wide_heads, Device());
    ASSERT_TRUE(dxs.ok() && wanted_dxs.ok()) << type << ": " << dxs.status() << wanted_dxs.status();
    for (size_t i = 0; i < dxs->size(); ++i) {
      ExpectClose(c, (*dxs)[i], (*wanted_dxs)[i], absl::StrCat(Name(type), ", dL/d", call.xs()[i].node->name()));
    }
  }
}

}  // namespace
}  // namespace gluond::testing
