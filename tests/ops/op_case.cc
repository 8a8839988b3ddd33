#include "tests/ops/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/elementwise.h"
#include "tests/ops/op_call.h"

namespace gluond::testing {

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

namespace {

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

}  // namespace

std::string InputName(size_t i) { return absl::StrCat("x", i); }

absl::StatusOr<Call> MakeCall(const OpCase& c) {
  Call call;
  for (size_t i = 0; i < c.inputs.size(); ++i) call.xs.push_back(MakeVariable(InputName(i)));
  ASSIGN_OR_RETURN(call.node, TryMakeNode(c.op, "y", call.xs, c.attrs));
  return call;
}

std::vector<NodeEntry> VisibleOutputs(const Call& call) {
  std::vector<NodeEntry> ys;
  for (uint32_t i = 0; i < call.node->op()->num_visible_outputs(call.node->attrs); ++i) ys.push_back(Output(call.node, i));
  return ys;
}

absl::StatusOr<std::vector<NodeEntry>> Differentiated(const OpCase& c, const Call& call) {
  std::vector<NodeEntry> heads, xs;
  const auto* fgradient = call.node->op()->GetAttr<FGradient>("FGradient");
  if (fgradient == nullptr) return xs;
  for (uint32_t i = 0; i < call.node->num_outputs(); ++i) heads.push_back(MakeVariable(absl::StrCat("head", i)));
  ASSIGN_OR_RETURN(const Gradients entries, (*fgradient)(call.node, heads));
  if (entries.size() != call.xs.size()) return absl::InternalError("FGradient wants one entry for each input");
  for (size_t i = 0; i < entries.size(); ++i) {
    if (c.constants.count(static_cast<int>(i)) == 0 && entries[i]) xs.push_back(call.xs[i]);
  }
  return xs;
}

std::vector<HostTensor> InputsOf(const OpCase& c, DType type) {
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool fixed = c.float32_inputs.count(static_cast<int>(i)) > 0;
    inputs.push_back(HostTensor::Of(c.inputs[i], fixed ? DType::kFloat32 : type));
  }
  return inputs;
}

namespace {

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
      const std::vector<HostTensor> ys = run({.req = kWriteInplace, .inplace_input = input, .inplace_output = output});
      EXPECT_EQ(ys[output].values().size(), written[output].values().size());
      ExpectNear(ys[output], {written[output].shape, written[output].values()}, c.tolerance,
                 absl::StrCat(Name(type), ", in place of input ", input));
    }
  });
}

}  // namespace

std::set<std::string>& CoveredOps() {
  static std::set<std::string>& ops = *new std::set<std::string>;
  return ops;
}

std::set<std::string>& OpsWithLargeCases() {
  static std::set<std::string>& ops = *new std::set<std::string>;
  return ops;
}

std::vector<OpCase> CoverLarge(std::vector<OpCase> cases) {
  for (const OpCase& c : cases) {
    if (IsLarge(c)) OpsWithLargeCases().insert(c.op);
  }
  return Cover(std::move(cases));
}

bool IsLarge(const OpCase& c) {
  const auto large = [](const Numbers& x) { return x.shape.Size() > kLeastOfLarge; };
  return std::any_of(c.inputs.begin(), c.inputs.end(), large);
}

Numbers Shuffled(const Shape& shape, double low, double high) {
  constexpr int64_t kStride = 7919;  // A prime number, which the sizes of large rows are no multiples of.
  Numbers x = {shape, {}};
  const int64_t n = shape.Size();
  for (int64_t i = 0; i < n; ++i) x.values.push_back(low + (high - low) * (0.5 + static_cast<double>(i * kStride % n)) / n);
  return x;
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
