// OpCase: one example of an operator, as a row of a table:
//
//   OP_CASES(Softmax, {
//       {"SumsToOne", "softmax", {{{4}, {0, 0, 0, 0}}}, {}, {{{4}, {0.25, 0.25, 0.25, 0.25}}}},
//       {"ByRows", "softmax", {{{2, 1}, {3, 5}}}, {{"axis", "0"}}, {{{2, 1}, {0.1192029, 0.8807971}}}},
//   });
//
// Each row is checked
// * forward, in every type that holds its numbers exactly enough and that the operator takes,
// * with every OpReqType, in place where FInplaceOption allows it, and without the hidden outputs,
// * backward, in float64: against central differences (op_gradient.cc),
// * forward and backward in every floating-point type: against float64 on a CPU (every_type.cc),
// on the device that GLUOND_TEST_DEVICE names.

#ifndef TESTS_OPS_OP_CASE_H_
#define TESTS_OPS_OP_CASE_H_

#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/ops/one_by_one.h"

namespace gluond::testing {

struct OpCase {
  std::string name;
  std::string op;
  std::vector<Numbers> inputs;
  AttrDict attrs = {};
  std::vector<Numbers> outputs = {};  // The visible outputs, or the first of them.

  // Further settings of a row, as in OpCase(...).WithoutGradient().
  bool gradient = true;               // False at a kink, or where FGradient is no derivative on purpose (losses).
  bool second_order = false;          // Checks the gradient's gradient, too.
  bool integers = true;               // False: only floating-point types.
  std::set<int> float32_inputs = {};  // Indices: inputs that keep float32 whatever type the others have.
  std::set<int> constants = {};       // Inputs that are not differentiated: labels, indices.
  double tolerance = 1;               // Multiplies the error that the type allows.
  bool is_train = true;

  OpCase&& WithoutGradient() && { return gradient = false, std::move(*this); }
  OpCase&& TwiceDifferentiable() && { return second_order = true, std::move(*this); }
  OpCase&& OnlyFloats() && { return integers = false, std::move(*this); }
  // These inputs are float32, and not differentiated.
  OpCase&& Indices(std::set<int> inputs) && { return float32_inputs = constants = inputs, std::move(*this); }
  OpCase&& Constant(std::set<int> inputs) && { return constants = inputs, std::move(*this); }
  OpCase&& Tolerance(double times) && { return tolerance = times, std::move(*this); }
  OpCase&& Predicting() && { return is_train = false, std::move(*this); }

  friend void PrintTo(const OpCase& c, std::ostream* os) { *os << c.op << " " << c.name; }
};

// The names of operators that have cases in this program; see coverage_test.cc.
std::set<std::string>& CoveredOps();
// Adds operators that are tested otherwise.
struct Covers {
  Covers(std::initializer_list<std::string> ops) { CoveredOps().insert(ops.begin(), ops.end()); }
};

inline std::vector<OpCase> Cover(std::vector<OpCase> cases) {
  for (const OpCase& c : cases) CoveredOps().insert(c.op);
  return cases;
}

// Large rows have more elements than this in an input: more than a 16-bit number counts one by one, than a warp has lanes
// and than a kernel computes in one tile. coverage_test.cc wants one of every operator that has a gradient.
constexpr int64_t kLeastOfLarge = 2048;
bool IsLarge(const OpCase& c);
std::set<std::string>& OpsWithLargeCases();
std::vector<OpCase> CoverLarge(std::vector<OpCase> cases);

// Numbers between low and high, all different, in no order.
Numbers Shuffled(const Shape& shape, double low, double high);

class OpTest : public ::testing::TestWithParam<OpCase> {};

std::string CaseName(const ::testing::TestParamInfo<OpCase>& info);

#define OP_CASES(suite, ...) \
  INSTANTIATE_TEST_SUITE_P(suite, OpTest, ::testing::ValuesIn(Cover(std::vector<OpCase> __VA_ARGS__)), CaseName)

// The same for large rows, in a suite whose name begins with Large: programs choose them by that.
#define LARGE_OP_CASES(suite, ...) \
  INSTANTIATE_TEST_SUITE_P(Large##suite, OpTest, ::testing::ValuesIn(CoverLarge(std::vector<OpCase> __VA_ARGS__)), CaseName)

// INVALID_ARGUMENT (or another error) of a call that must not work, with its message.
absl::Status ErrorOf(const std::string& op, const std::vector<Numbers>& inputs, const AttrDict& attrs = {});

}  // namespace gluond::testing

#endif  // TESTS_OPS_OP_CASE_H_
