// _multi_X against X: the step on many weights, whose numbers are a tensor, gives the bits of the step on each.

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/core/elementwise.h"
#include "engine/core/op_facts.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::multi_update {
namespace {

constexpr absl::string_view kPrefix = "_multi_";

std::vector<std::string> Singles() {
  std::vector<std::string> names;
  for (const std::string& op : Op::ListNames())
    if (absl::StartsWith(op, kPrefix)) names.emplace_back(absl::StripPrefix(op, kPrefix));
  return names;
}

// The second large weight is one behind an odd number of others, and pieces of threads end within it.
const std::vector<Shape>& Shapes() {
  static const std::vector<Shape>& shapes = *new std::vector<Shape>{{3}, {0}, {1}, {40, 101}, {1, 1}, {2, 0}, {7}, {90001}, {5, 2}};
  return shapes;
}

std::vector<std::string> NumbersOf(const Op& op) {
  std::vector<std::string> names;
  for (const ArgumentDoc& doc : op.arguments())
    if (doc.type == "float" || doc.type == "long") names.push_back(doc.name);
  return names;
}

// Another number for each name and weight.
double NumberOf(const std::string& name, size_t weight) {
  if (name == "t") return static_cast<double>(weight + 1);
  double start = 0.1;
  for (const char letter : name) start += 0.0007 * letter;
  return std::fmod(start, 0.9) + 0.01 * static_cast<double>(weight);
}

std::string Text(double number) { return param_internal::FormatValue(number); }

// The calls on each weight alone, and the call on all.
struct Calls {
  std::vector<NodePtr> singles;
  NodePtr multi;
  std::vector<HostTensor> numbers;
  std::vector<std::vector<HostTensor>> inputs;  // Each weight's own.
};

std::vector<NodeEntry> Variables(size_t n) {
  std::vector<NodeEntry> xs;
  for (size_t i = 0; i < n; ++i) xs.push_back(MakeVariable(absl::StrCat("x", i)));
  return xs;
}

// The inputs of a call of `node`, whose weight has this shape and type. The others have what inference makes of that.
std::vector<HostTensor> InputsLike(const Node& node, const Shape& shape, DType type) {
  ShapeVector shapes(node.num_inputs()), out_shapes(1);
  TypeVector types(node.num_inputs(), DType::kUnknown), out_types(1, DType::kUnknown);
  shapes[0] = shape;
  types[0] = type;
  EXPECT_TRUE(InferShape(node.attrs, &shapes, &out_shapes).ok());
  EXPECT_TRUE(InferType(node.attrs, &types, &out_types).ok());
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const double low = i < 2 ? -2 : 0.5;  // Averages of squares are positive.
    inputs.push_back(HostTensor::Of(Shuffled(shapes[i], low, 3.0 + static_cast<double>(i)), types[i]));
  }
  return inputs;
}

Calls MakeCalls(const std::string& name, const std::vector<std::string>& columns, DType type) {
  Calls calls;
  const Op& op = *Op::Find(name);
  AttrDict common;
  for (const std::string& number : NumbersOf(op)) common[number] = Text(NumberOf(number, 0));
  for (const std::string& column : columns) common.erase(column);
  Numbers numbers = {{static_cast<int64_t>(Shapes().size()), static_cast<int64_t>(columns.size())}, {}};
  size_t num_inputs = 1;
  for (size_t k = 0; k < Shapes().size(); ++k) {
    AttrDict attrs = common;
    for (const std::string& column : columns) {
      attrs[column] = Text(NumberOf(column, k));
      numbers.values.push_back(NumberOf(column, k));
    }
    NodeAttrs parsed;
    parsed.dict = attrs;
    EXPECT_TRUE(op.ParseAttrs(&parsed).ok());
    const uint32_t inputs = op.num_inputs(parsed);
    calls.singles.push_back(*TryMakeNode(name, "y", Variables(inputs), attrs));
    calls.inputs.push_back(InputsLike(*calls.singles.back(), Shapes()[k], type));
    num_inputs += inputs;
  }
  common["numbers"] = absl::StrJoin(columns, ",");
  common["num_weights"] = absl::StrCat(Shapes().size());
  const auto multi = TryMakeNode(absl::StrCat(kPrefix, name), "y", Variables(num_inputs), common);
  EXPECT_TRUE(multi.ok()) << multi.status();
  calls.multi = *multi;
  calls.numbers.push_back(HostTensor::Of(numbers, DType::kFloat64));
  return calls;
}

void ExpectSameBits(Calls calls, const CallOptions& options, const std::string& where) {
  std::vector<HostTensor> all = calls.numbers;
  for (const auto& inputs : calls.inputs) all.insert(all.end(), inputs.begin(), inputs.end());
  const auto ys = OneByOne().Call(*calls.multi, &all, options);
  ASSERT_TRUE(ys.ok()) << where << ": " << ys.status();
  size_t at = 1;
  for (size_t k = 0; k < calls.singles.size(); ++k) {
    std::vector<HostTensor>& x = calls.inputs[k];
    const auto y = OneByOne().Call(*calls.singles[k], &x, options);
    ASSERT_TRUE(y.ok()) << where << ": " << y.status();
    EXPECT_EQ((*ys)[k].dtype, (*y)[0].dtype) << where << ", weight " << k;
    EXPECT_EQ((*ys)[k].shape, (*y)[0].shape) << where << ", weight " << k;
    EXPECT_TRUE((*ys)[k].bytes == (*y)[0].bytes) << where << ", weight " << k;
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_TRUE(all[at].bytes == x[i].bytes) << where << ", weight " << k << ", input " << i;
      ++at;
    }
  }
}

const DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16};

class MultiUpdate : public ::testing::TestWithParam<std::string> {};

TEST_P(MultiUpdate, GivesTheBitsOfTheStepOnEachWeight) {
  for (const DType type : kFloats) {
    const Calls calls = MakeCalls(GetParam(), NumbersOf(*Op::Find(GetParam())), type);
    for (const OpReqType req : {kWriteTo, kAddTo, kNullOp}) {
      ExpectSameBits(calls, {.req = req, .fill = 1}, absl::StrCat(Name(type), ", request ", req));
    }
  }
}

// A parameter that is required alone, or the first, and the others by attribute.
TEST_P(MultiUpdate, TakesTheOtherNumbersByAttribute) {
  std::vector<std::string> columns = {NumbersOf(*Op::Find(GetParam()))[0]};
  for (const ArgumentDoc& doc : Op::Find(GetParam())->arguments())
    if (doc.required && (doc.type == "float" || doc.type == "long")) columns = {doc.name};
  ExpectSameBits(MakeCalls(GetParam(), columns, DType::kFloat32), {}, columns[0]);
}

TEST_P(MultiUpdate, WritesInPlaceOfAWeight) {
  const Calls calls = MakeCalls(GetParam(), NumbersOf(*Op::Find(GetParam())), DType::kFloat32);
  const std::vector<OpFacts::InPlace>& pairs = calls.multi->facts().in_place;
  const bool in_place = !calls.singles[0]->facts().in_place.empty();
  ASSERT_EQ(pairs.size(), in_place ? Shapes().size() : 0);
  for (size_t k = 0; k < pairs.size(); ++k) {
    std::vector<HostTensor> all = calls.numbers, one = calls.inputs[k];
    for (const auto& inputs : calls.inputs) all.insert(all.end(), inputs.begin(), inputs.end());
    const auto y = OneByOne().Call(*calls.singles[k], &one, {.req = kWriteInplace, .inplace_input = 0, .inplace_output = 0});
    const auto ys = OneByOne().Call(*calls.multi, &all,
                                    {.req = kWriteInplace,
                                     .inplace_input = static_cast<int>(pairs[k].input),
                                     .inplace_output = static_cast<int>(pairs[k].output)});
    ASSERT_TRUE(y.ok() && ys.ok()) << y.status() << ys.status();
    EXPECT_TRUE((*ys)[k].bytes == (*y)[0].bytes && all[pairs[k].input].bytes == one[0].bytes) << "weight " << k;
  }
}

std::vector<std::string> CoveredSingles() {
  std::vector<std::string> names = Singles();
  for (const std::string& name : names) CoveredOps().insert(absl::StrCat(kPrefix, name));
  return names;
}
INSTANTIATE_TEST_SUITE_P(EveryStep, MultiUpdate, ::testing::ValuesIn(CoveredSingles()),
                         [](const auto& info) { return info.param; });

TEST(MultiUpdates, AreOfEveryStep) {
  for (const std::string& name : Op::ListNames()) {
    const bool is_step = absl::StrContains(name, "_update") && !absl::StrContains(name, "multi_");
    EXPECT_TRUE(!is_step || Op::Find(absl::StrCat(kPrefix, name)) != nullptr) << name;
  }
}

TEST(MultiUpdates, HaveStatesOfTheirOwnTypes) {
  Calls calls = MakeCalls("adam_update", {"lr", "wd"}, DType::kFloat16);
  for (size_t k = 0; k < calls.inputs.size(); ++k) {
    for (size_t i : {2, 3}) {
      HostTensor& state = calls.inputs[k][i];
      if (k % 2 == 0) state = HostTensor::Of({state.shape, state.values()}, i == 2 ? DType::kFloat32 : DType::kFloat64);
    }
  }
  ExpectSameBits(calls, {}, "states");
}

// More weights than a GPU's kernel takes at once, and more rates.
TEST(MultiUpdates, AreOfAnyNumberOfWeights) {
  constexpr int64_t kWeights = 300;
  Numbers numbers = {{kWeights, 1}, {}};
  std::vector<HostTensor> x;
  std::vector<std::string> rates;
  for (int64_t k = 0; k < kWeights; ++k) {
    numbers.values.push_back(static_cast<double>(k) / 1024);
    rates.push_back(Text(numbers.values.back()));
    const Numbers weight = {{k % 4}, std::vector<double>(k % 4, 2)}, grad = {{k % 4}, std::vector<double>(k % 4, 1)};
    x.push_back(HostTensor::Of(weight, DType::kFloat64));
    x.push_back(HostTensor::Of(grad, DType::kFloat64));
  }
  const std::string zeros = absl::StrJoin(std::vector<std::string>(kWeights, "0"), ",");
  const std::string count = absl::StrCat(kWeights);
  const auto by_attributes = *TryMakeNode("multi_sgd_update", "y", Variables(x.size()),
                                          {{"lrs", absl::StrJoin(rates, ",")}, {"wds", zeros}, {"num_weights", count}});
  const auto by_tensor =
      *TryMakeNode("_multi_sgd_update", "y", Variables(x.size() + 1), {{"numbers", "lr"}, {"num_weights", count}});
  const auto ys = *OneByOne().Call(*by_attributes, &x);
  x.insert(x.begin(), HostTensor::Of(numbers, DType::kFloat64));
  const auto zs = *OneByOne().Call(*by_tensor, &x);
  for (int64_t k = 0; k < kWeights; ++k) {
    const std::vector<double> expected(k % 4, 2 - static_cast<double>(k) / 1024);
    EXPECT_EQ(ys[k].values(), expected) << k;
    EXPECT_EQ(zs[k].values(), expected) << k;
  }
}

// A row of a step that went wrong: its weight is not a number, and the others are what they would be.
TEST(MultiUpdates, ComputeWithAnyNumbers) {
  const double kNan = std::nan("");
  const auto node =
      *TryMakeNode("_multi_lamb_update_phase1", "y", Variables(9), {{"numbers", "t, wd"}, {"num_weights", "2"}, {"beta1", "0.9"}});
  const HostTensor one = HostTensor::Of({{1}, {1}}, DType::kFloat32);
  for (const double bad : {kNan, HUGE_VAL, -HUGE_VAL, 0.0}) {
    std::vector<HostTensor> x = {
        HostTensor::Of({{2, 2}, {bad, kNan, 1, 0}}, DType::kFloat64), one, one, one, one, one, one, one, one};
    const auto ys = OneByOne().Call(*node, &x);
    ASSERT_TRUE(ys.ok()) << ys.status();
    EXPECT_TRUE(std::isnan((*ys)[0].values()[0]));
    EXPECT_NEAR((*ys)[1].values()[0], 10 / std::sqrt(1000), 1e-4);
  }
}

std::string MessageOf(const AttrDict& attrs, const std::vector<Numbers>& inputs = {{{1, 1}, {1}}, {{1}, {1}}, {{1}, {1}}}) {
  const absl::Status status = ErrorOf("_multi_sgd_update", inputs, attrs);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(MultiUpdates, TellWhichNumbersThereAre) {
  EXPECT_EQ(
      MessageOf({{"numbers", "lr,wx"}}),
      "operator '_multi_sgd_update': attribute 'numbers' is 'lr,wx'; 'wx' is no number of the step; want each name once, as a "
      "column or as an attribute, out of lr, wd, rescale_grad, clip_gradient");
  EXPECT_TRUE(absl::StrContains(MessageOf({{"numbers", "lr,lr"}}), "'lr' is given twice")) << MessageOf({{"numbers", "lr,lr"}});
  EXPECT_TRUE(absl::StrContains(MessageOf({{"numbers", "lr"}, {"lr", "1"}}), "'lr' is given twice"));
  EXPECT_TRUE(absl::StrContains(MessageOf({{"numbers", "lr,lazy_update"}}), "'lazy_update' is no number"));
  EXPECT_TRUE(absl::StrContains(MessageOf({{"numbers", ""}}), "'' is no number"));
  EXPECT_TRUE(absl::StrContains(MessageOf({{"numbers", "wd"}}), "required attribute 'lr' (float) is missing"));
  EXPECT_TRUE(absl::StrContains(MessageOf({}), "required attribute 'numbers' (string) is missing"));
}

TEST(MultiUpdates, WantARowForEachWeightOfOneType) {
  const auto node = *TryMakeNode("_multi_sgd_update", "y", Variables(5), {{"numbers", "lr,wd"}, {"num_weights", "2"}});
  const auto error = [&](const Shape& numbers, DType type, DType second) {
    const HostTensor x = HostTensor::Of({{1}, {1}}, DType::kFloat32), y = HostTensor::Of({{1}, {1}}, second);
    std::vector<HostTensor> all = {HostTensor::Of({numbers, std::vector<double>(numbers.Size())}, type), x, x, y, y};
    return std::string(OneByOne().Call(*node, &all).status().message());
  };
  EXPECT_EQ(error({2, 2}, DType::kFloat64, DType::kFloat32), "");
  EXPECT_TRUE(absl::StrContains(error({2, 3}, DType::kFloat64, DType::kFloat32), "input 0: Shape inconsistent"));
  EXPECT_TRUE(absl::StrContains(error({2, 2}, DType::kFloat32, DType::kFloat32), "input 0: Type inconsistent"));
  EXPECT_TRUE(absl::StrContains(error({2, 2}, DType::kFloat64, DType::kFloat16), "weight 1: "));
}

}  // namespace
}  // namespace gluond::testing::multi_update
