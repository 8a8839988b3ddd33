// Every operator has a case. This program links all cases.

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "engine/core/op.h"
#include "tests/ops/op_case.h"

namespace gluond::testing {
namespace {

// The gradient checks run these operators, which only gradients call.
bool IsPartOfGradients(const std::string& op) {
  static const std::set<std::string> kParts = {"_cast_like", "_digamma", "_spread", "_sum_like", "_widen"};
  return absl::StartsWith(op, "_backward_") || kParts.count(op) > 0;
}

// Operators that a client computes are tested with a client: tests/client/python/custom_*_test.py.
bool IsOfClients(const std::string& op) { return op == "Custom" || op == "_CustomFunction"; }

TEST(Coverage, EveryOperatorHasACase) {
  for (const std::string& op : Op::ListNames()) {
    if (IsPartOfGradients(op) || IsOfClients(op)) continue;
    EXPECT_TRUE(CoveredOps().count(op) > 0) << "operator '" << op << "' has no case in tests/ops";
  }
}

TEST(Coverage, EveryCaseIsOfARegisteredOperator) {
  for (const std::string& op : CoveredOps()) EXPECT_NE(Op::Find(op), nullptr) << op;
}

TEST(Coverage, EveryOperatorIsDescribed) {
  for (const std::string& name : Op::ListNames()) {
    const Op& op = *Op::Find(name);
    EXPECT_FALSE(op.description().empty()) << name;
    EXPECT_TRUE(op.HasAttr("FInferShape")) << name;
    for (const ArgumentDoc& argument : op.arguments()) EXPECT_FALSE(argument.description.empty()) << name << " " << argument.name;
  }
}

TEST(Coverage, TheRegistryHasNoMistake) { EXPECT_TRUE(CheckRegistry().ok()) << CheckRegistry(); }

}  // namespace
}  // namespace gluond::testing
