// Every operator has a case. This program links all cases.

#include "absl/strings/match.h"
#include "engine/core/op.h"
#include "gtest/gtest.h"
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

// Gradients that add nothing up: they are zeros, or elements that are moved.
bool HasNoSumInItsGradient(const std::string& op) {
  static const std::set<std::string> kSuch = {"_arange",
                                              "_contrib_MultiBoxDetection",
                                              "_contrib_MultiBoxPrior",
                                              "_contrib_MultiBoxTarget",
                                              "_contrib_arange_like",
                                              "_contrib_box_iou",
                                              "_contrib_box_nms",
                                              "_eye",
                                              "_full",
                                              "_length_mask",
                                              "_linspace",
                                              "_onehot_encode",
                                              "_ones",
                                              "_ravel_multi_index",
                                              "_scatter_set_nd",
                                              "_shuffle",
                                              "_unravel_index",
                                              "_zeros",
                                              "fill_element_0index",
                                              "shape_array",
                                              "size_array"};
  return absl::StartsWith(op, "_random_") || absl::StartsWith(op, "_sample_") || kSuch.count(op) > 0;
}

TEST(Coverage, EveryOperatorHasACase) {
  for (const std::string& op : Op::ListNames()) {
    if (IsPartOfGradients(op) || IsOfClients(op)) continue;
    EXPECT_TRUE(CoveredOps().count(op) > 0) << "operator '" << op << "' has no case in tests/ops";
  }
}

TEST(Coverage, EveryOperatorWithAGradientHasALargeCase) {
  for (const std::string& op : Op::ListNames()) {
    if (IsPartOfGradients(op) || IsOfClients(op) || !Op::Find(op)->HasAttr("FGradient")) continue;
    if (HasNoSumInItsGradient(op)) continue;
    EXPECT_TRUE(OpsWithLargeCases().count(op) > 0) << "operator '" << op << "' has no case in tests/ops/large_*_test.cc";
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
