// Operators with a label or an index that is out of range, of every type that labels have. docs/decisions.md has the table for
// users.

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::label {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsNan;

constexpr int kClasses = 3;

enum Rule {
  kRefused,     // INVALID_ARGUMENT names the label; on a GPU, results are NaN.
  kOutOfRange,  // OUT_OF_RANGE, on every device. Indices from -kClasses on count from the end, and NaN is 0.
  kNearest,     // As the nearest class; NaN is 0.
  kNowhere,     // As a class that no column stands for.
};

struct LabelCase {
  const char* name;
  const char* op;
  std::vector<Numbers> inputs;  // The one without numbers is of labels.
  Rule rule;
  AttrDict attrs = {};
  const char* says = "label 1 is";  // The error names the second label.

  friend void PrintTo(const LabelCase& c, std::ostream* os) { *os << c.op << " " << c.name; }
};

class LabelTest : public ::testing::TestWithParam<LabelCase> {
 protected:
  // All outputs, with these labels.
  static absl::StatusOr<std::vector<double>> Results(const std::vector<double>& labels, DType type) {
    const LabelCase& c = GetParam();
    std::vector<NodeEntry> variables;
    std::vector<HostTensor> tensors;
    for (const Numbers& input : c.inputs) {
      const bool is_label = input.values.empty();
      variables.push_back(MakeVariable(absl::StrCat("x", variables.size())));
      tensors.push_back(is_label ? HostTensor::Of({input.shape, labels}, type) : HostTensor::Of(input, DType::kFloat32));
    }
    ASSIGN_OR_RETURN(const NodePtr node, TryMakeNode(c.op, "y", std::move(variables), c.attrs));
    ASSIGN_OR_RETURN(const std::vector<HostTensor> outputs, OneByOne().Call(*node, &tensors));
    std::vector<double> results;
    for (const HostTensor& output : outputs) {
      for (const double value : output.values()) results.push_back(value);
    }
    return results;
  }
};

bool Holds(DType type, double value) {
  const double kept = HostTensor::Of({{1}, {value}}, type).values()[0];
  return kept == value || (std::isnan(kept) && std::isnan(value));
}

TEST_P(LabelTest, OutOfRangeHasOneRuleForEveryType) {
  const Rule rule = GetParam().rule;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16, DType::kUint8, DType::kInt8,
                           DType::kInt32, DType::kInt64}) {
    const auto good = Results({1, 2}, type);
    EXPECT_TRUE(good.ok()) << good.status();
    int tried = 0;
    for (const double bad : {3.0, 100.0, -1.0, -4.0, 1e9, -1e9, kNan, kInf, -kInf}) {
      if (!Holds(type, bad)) continue;
      SCOPED_TRACE(absl::StrCat(Name(type), " ", bad));
      ++tried;
      const auto got = Results({1, bad}, type);
      if (rule == kRefused && TestDevice().type == DeviceType::kGpu) {
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_THAT(*got, Contains(IsNan()));
      } else if (rule == kRefused) {
        EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(std::string(got.status().message()), HasSubstr(GetParam().says));
      } else if (rule == kOutOfRange) {
        const bool is_index = std::isnan(bad) || bad == -1;
        EXPECT_EQ(got.status().code(), is_index ? absl::StatusCode::kOk : absl::StatusCode::kOutOfRange) << got.status();
      } else {
        ASSERT_TRUE(got.ok()) << got.status();
        const double as = std::isnan(bad) ? 0 : rule == kNowhere ? 7 : std::clamp(bad, 0.0, kClasses - 1.0);
        EXPECT_EQ(*got, *Results({1, as}, type));
      }
    }
    EXPECT_GE(tried, 2);
  }
}

const Numbers kX = {{2, kClasses}, {1, 2, 4, 3, 5, 9}}, kRows = {{kClasses, 2}, {1, 2, 4, 3, 5, 9}}, kDy = {{2}, {3, 5}},
              kLabel = {{2}, {}};
const AttrDict kTable = {{"input_dim", "3"}, {"output_dim", "2"}};

INSTANTIATE_TEST_SUITE_P(Labels, LabelTest,
                         ::testing::ValuesIn(std::vector<LabelCase>{
                             {"SoftmaxCrossEntropy", "softmax_cross_entropy", {kX, kLabel}, kRefused},
                             {"SoftmaxCrossEntropyGradient", "_backward_softmax_cross_entropy", {{{1}, {1}}, kX, kLabel}, kRefused},
                             {"SoftmaxOutputGradient", "_backward_SoftmaxOutput", {kX, kLabel}, kRefused},
                             {"SVMOutputGradient", "_backward_SVMOutput", {kX, kLabel}, kRefused},
                             {"CTC",
                              "CTCLoss",
                              {{{2, 2, kClasses}, {1, 2, 4, 3, 5, 9, 1, 2, 4, 3, 5, 9}}, {{2, 1}, {}}},
                              kRefused,
                              {},
                              "label 0 of sequence 1 is"},
                             {"PickThatRaises", "pick", {kX, kLabel}, kRefused, {{"mode", "raise"}}},
                             {"PickThatRaisesGradient", "_backward_pick", {kDy, kLabel, kX}, kRefused, {{"mode", "raise"}}},
                             {"Pick", "pick", {kX, kLabel}, kNearest},
                             {"PickGradient", "_backward_pick", {kDy, kLabel, kX}, kNearest},
                             {"BatchTake", "batch_take", {kX, kLabel}, kNearest},
                             {"Take", "take", {kRows, kLabel}, kNearest},
                             {"Embedding", "Embedding", {kLabel, kRows}, kNearest, kTable},
                             {"TakeThatRaises", "take", {kRows, kLabel}, kOutOfRange, {{"mode", "raise"}}},
                             {"GatherNd", "gather_nd", {kRows, {{1, 2}, {}}}, kOutOfRange},
                             {"OneHot", "one_hot", {kLabel}, kNowhere, {{"depth", "3"}}},
                         }),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PickThatRaises, TakesWhatIsThere) {
  const NodeEntry x = MakeVariable("x"), index = MakeVariable("index");
  const NodePtr node = *TryMakeNode("pick", "y", {x, index}, {{"mode", "raise"}, {"axis", "0"}});
  const Numbers indices = {{2}, {2, 0.75}};
  std::vector<HostTensor> inputs = {HostTensor::Of(kRows, DType::kFloat32), HostTensor::Of(indices, DType::kFloat32)};
  EXPECT_EQ((*OneByOne().Call(*node, &inputs))[0].values(), (std::vector<double>{5, 2}));
}

}  // namespace
}  // namespace gluond::testing::label
