// The operators of MXNet's tutorial on C++ operators, registered and run: abs with _backward_abs, a scalar operator
// with an attribute parser, Activation with an enumerated parameter, an operator with a hidden output, one with a
// variable number of inputs, and one with an attribute key of its own.

#include "engine/core/op.h"
#include "engine/core/op_facts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "engine/core/elementwise.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

void Write(OpReqType req, float* to, float value) {
  if (req == kAddTo) *to += value;
  if (req == kWriteTo || req == kWriteInplace) *to = value;
}

// An FCompute<cpu>: y[i] = F(attrs, i-th elements).
template <float (*F)(const NodeAttrs&, const Floats&)>
absl::Status Map(const NodeAttrs& attrs, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                 absl::Span<const TBlob> out) {
  Floats x(in.size());
  for (int64_t i = 0; i < out[0].Size(); ++i) {
    for (size_t k = 0; k < in.size(); ++k) x[k] = in[k].dptr<float>()[i];
    Write(req[0], out[0].dptr<float>() + i, F(attrs, x));
  }
  return absl::OkStatus();
}

// ---- abs.

float Abs(const NodeAttrs&, const Floats& x) { return std::abs(x[0]); }
float AbsGradient(const NodeAttrs&, const Floats& x) { return x[0] * ((x[1] > 0) - (x[1] < 0)); }

GLUOND_REGISTER_OP(seed_abs)
    .describe("Takes the absolute value of the source.")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
    .set_attr<FInplaceOption>("FInplaceOption",
                              [](const NodeAttrs&) {
                                return std::vector<std::pair<int, int>>{{0, 0}};
                              })
    .set_attr<FCompute>("FCompute<cpu>", Map<Abs>)
    .set_attr<FGradient>("FGradient", ElemwiseGradUseIn{"_backward_seed_abs"})
    .add_argument("data", "NDArray", "Source input");

GLUOND_REGISTER_OP(_backward_seed_abs)
    .set_num_inputs(2)
    .set_num_outputs(1)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<2, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)
    .set_attr<FInplaceOption>("FInplaceOption",
                              [](const NodeAttrs&) {
                                return std::vector<std::pair<int, int>>{{0, 0}, {1, 0}};
                              })
    .set_attr<FCompute>("FCompute<cpu>", Map<AbsGradient>);

// ---- A scalar operator, whose parser stores a double by hand.

float TimesScalar(const NodeAttrs& attrs, const Floats& x) { return x[0] * attrs.param<double>(); }

GLUOND_REGISTER_OP(seed_scalar_op)
    .set_attr_parser([](NodeAttrs* attrs) -> absl::Status {
      double scalar;
      if (!absl::SimpleAtod(attrs->dict["scalar"], &scalar)) {
        return absl::InvalidArgumentError("scalar is not a number");
      }
      attrs->Store(scalar);
      return absl::OkStatus();
    })
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FCompute>("FCompute<cpu>", Map<TimesScalar>);

// ---- Activation.

namespace activation {
enum { kReLU, kSigmoid, kTanh, kSoftReLU };
}

struct ActivationParam : Param<ActivationParam> {
  int act_type;  // int for an enumeration.
  static void Fields(Schema<ActivationParam>& s) {
    s.Field("act_type", &ActivationParam::act_type)
        .Enum({{"relu", activation::kReLU},
               {"sigmoid", activation::kSigmoid},
               {"tanh", activation::kTanh},
               {"softrelu", activation::kSoftReLU}})
        .Describe("Activation function to be applied.");
  }
};

float Activate(const NodeAttrs& attrs, const Floats& x) {
  switch (attrs.param<ActivationParam>().act_type) {
    case activation::kReLU: return x[0] > 0 ? x[0] : 0;
    case activation::kSigmoid: return 1 / (1 + std::exp(-x[0]));
    case activation::kTanh: return std::tanh(x[0]);
    default: return std::log1p(std::exp(x[0]));
  }
}

GLUOND_REGISTER_OP(SeedActivation)
    .add_argument("data", "NDArray", "Input to the activation.")
    .add_arguments(ActivationParam::__FIELDS__())
    .set_attr_parser(ParamParser<ActivationParam>)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FCompute>("FCompute<cpu>", Map<Activate>);

// ---- A hidden output: the largest element, and where it is.

absl::Status Largest(const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                     absl::Span<const TBlob> out) {
  const float* x = in[0].dptr<float>();
  const float* largest = std::max_element(x, x + in[0].Size());
  Write(req[0], out[0].dptr<float>(), *largest);
  if (req[1] != kNullOp) Write(req[1], out[1].dptr<float>(), largest - x);
  return absl::OkStatus();
}

GLUOND_REGISTER_OP(seed_largest)
    .set_num_outputs(2)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs&) { return 1u; })
    .set_attr<FListInputNames>("FListInputNames", [](const NodeAttrs&) { return std::vector<std::string>{"data"}; })
    .set_attr<FListOutputNames>("FListOutputNames",
                                [](const NodeAttrs&) {
                                  return std::vector<std::string>{"largest", "place"};
                                })
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             for (int i = 0; i < 2; ++i) SHAPE_ASSIGN_CHECK(out, i, Shape({1}));
                             return (*in)[0].known();
                           })
    .set_attr<FCompute>("FCompute<cpu>", Largest);

// ---- A variable number of inputs.

struct NumArgsParam : Param<NumArgsParam> {
  int num_args;
  static void Fields(Schema<NumArgsParam>& s) { s.Field("num_args", &NumArgsParam::num_args).AtLeast(1); }
};

float Sum(const NodeAttrs&, const Floats& x) { return std::accumulate(x.begin(), x.end(), 0.0f); }

GLUOND_REGISTER_OP(seed_add_n)
    .add_argument("args", "NDArray[]", "What to add.")
    .add_arguments(NumArgsParam::__FIELDS__())
    .set_attr_parser(ParamParser<NumArgsParam>)
    .set_num_inputs([](const NodeAttrs& attrs) { return uint32_t(attrs.param<NumArgsParam>().num_args); })
    .set_attr<key_var_num_args>("key_var_num_args", "num_args")
    .set_attr<FInferShape>("FInferShape", SameShape)
    .set_attr<FCompute>("FCompute<cpu>", Map<Sum>);

// ---- An attribute key of its own.

using FCost = std::function<int64_t(const NodeAttrs&, const Shape&)>;
GLUOND_DECLARE_OP_ATTR(FCost, "FCost");

GLUOND_REGISTER_OP(seed_repeat)
    .set_num_outputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(attrs.param<NumArgsParam>().num_args); })
    .set_attr_parser(ParamParser<NumArgsParam>);

GLUOND_REGISTER_OP(seed_abs)  // Another piece of the same operator.
    .add_alias("seed_absolute")
    .set_attr<FCost>("FCost", [](const NodeAttrs&, const Shape& shape) { return 2 * shape.Size(); });

// Infers the outputs' shapes from inputs of shape (n,), runs FCompute<cpu> and returns all outputs. `initial` is what
// the outputs' memory holds before.
std::vector<Floats> RunOp(const NodePtr& node, std::vector<Floats> inputs, OpReqType req = kWriteTo, float initial = -1) {
  ShapeVector in_shapes, out_shapes(node->num_outputs());
  std::vector<TBlob> in, out;
  for (Floats& x : inputs) {
    in_shapes.push_back({static_cast<int64_t>(x.size())});
    in.push_back({x.data(), in_shapes.back(), DType::kFloat32, {}});
  }
  const auto* infer_shape = node->op()->GetAttr<FInferShape>("FInferShape");
  EXPECT_TRUE((*infer_shape)(node->attrs, &in_shapes, &out_shapes).value());
  std::vector<Floats> outputs;
  for (const Shape& shape : out_shapes) outputs.emplace_back(shape.Size(), initial);
  for (size_t i = 0; i < outputs.size(); ++i) out.push_back({outputs[i].data(), out_shapes[i], DType::kFloat32, {}});
  const std::vector<OpReqType> reqs(out.size(), req);
  EXPECT_EQ((*node->op()->GetAttr<FCompute>("FCompute<cpu>"))(node->attrs, {}, in, reqs, out), absl::OkStatus());
  return outputs;
}

NodePtr Call(const char* op, int num_inputs, AttrDict dict = {}) {
  std::vector<NodeEntry> inputs;
  for (int i = 0; i < num_inputs; ++i) inputs.push_back(MakeVariable(absl::StrCat("x", i)));
  return MakeNode(op, "call", std::move(inputs), std::move(dict)).node;
}

TEST(Registry, HasNoMistakes) { EXPECT_EQ(CheckRegistry(), absl::OkStatus()); }

TEST(Seed, AbsRunsForwardAndBackward) {
  const NodePtr y = Call("seed_abs", 1);
  EXPECT_THAT(RunOp(y, {{-2, 0, 3}}), ElementsAre(Floats{2, 0, 3}));
  const Gradients dx = *(*y->op()->GetAttr<FGradient>("FGradient"))(y, {MakeVariable("dy")});
  ASSERT_EQ(dx.size(), 1u);
  EXPECT_EQ(dx[0].node->op()->name(), "_backward_seed_abs");
  EXPECT_THAT(RunOp(dx[0].node, {{5, 6, 7}, {-2, 0, 3}}), ElementsAre(Floats{-5, 0, 7}));
}

TEST(Seed, EveryRequestIsHonoured) {
  const NodePtr y = Call("seed_abs", 1);
  EXPECT_THAT(RunOp(y, {{-2}}, kNullOp, 10), ElementsAre(Floats{10}));
  EXPECT_THAT(RunOp(y, {{-2}}, kWriteTo, 10), ElementsAre(Floats{2}));
  EXPECT_THAT(RunOp(y, {{-2}}, kAddTo, 10), ElementsAre(Floats{12}));
}

TEST(Seed, AParserStoresWhatItLikes) {
  EXPECT_THAT(RunOp(Call("seed_scalar_op", 1, {{"scalar", "2.5"}}), {{2, 4}}), ElementsAre(Floats{5, 10}));
  const absl::Status status = TryMakeNode("seed_scalar_op", "n", {MakeVariable("x")}, {{"scalar", "two"}}).status();
  EXPECT_EQ(status.message(), "operator 'seed_scalar_op': scalar is not a number");
}

TEST(Seed, ActivationTakesANameForAnEnumeration) {
  EXPECT_THAT(RunOp(Call("SeedActivation", 1, {{"act_type", "relu"}}), {{-1, 2}}), ElementsAre(Floats{0, 2}));
  EXPECT_THAT(RunOp(Call("SeedActivation", 1, {{"act_type", "tanh"}}), {{0}}), ElementsAre(Floats{0}));
  const absl::Status status = TryMakeNode("SeedActivation", "n", {MakeVariable("x")}, {{"act_type", "gelu"}}).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("operator 'SeedActivation': attribute 'act_type'"), HasSubstr("'relu', 'sigmoid'")));
}

TEST(Seed, AHiddenOutputIsThereAndNotVisible) {
  const NodePtr y = Call("seed_largest", 1);
  EXPECT_EQ(y->num_outputs(), 2u);
  EXPECT_EQ(y->op()->num_visible_outputs(y->attrs), 1u);
  EXPECT_THAT(y->op()->output_names(y->attrs), ElementsAre("largest", "place"));
  EXPECT_THAT(RunOp(y, {{1, 5, 3}}), ElementsAre(Floats{5}, Floats{1}));
}

TEST(Seed, AVariableNumberOfInputsIsCounted) {
  const NodePtr y = Call("seed_add_n", 3);
  EXPECT_EQ(y->op()->input_names(y->attrs, 3), (std::vector<std::string>{"arg0", "arg1", "arg2"}));
  EXPECT_EQ(y->attrs.dict.at("num_args"), "3");
  EXPECT_EQ(y->op()->num_inputs(y->attrs), 3u);
  EXPECT_THAT(RunOp(y, {{1}, {10}, {100}}), ElementsAre(Floats{111}));
  EXPECT_FALSE(TryMakeNode("seed_add_n", "n", {MakeVariable("x")}, {{"num_args", "2"}}).ok());
  EXPECT_FALSE(TryMakeNode("seed_add_n", "n", {}).ok());
  const absl::Status many = TryMakeNode("seed_add_n", "n", {MakeVariable("x")}, {{"num_args", "2147483647"}}).status();
  EXPECT_THAT(std::string(many.message()), HasSubstr("would take 2147483647 inputs"));
  const absl::Status some = TryMakeNode("seed_add_n", "n", {MakeVariable("x")}, {{"num_args", "100000"}}).status();
  EXPECT_LT(some.message().size(), 200u) << "does not name them all";
}

TEST(Seed, AnAttributeKeyOfOnesOwn) {
  const NodePtr y = Call("seed_abs", 1);
  EXPECT_EQ((*y->op()->GetAttr<FCost>("FCost"))(y->attrs, {3, 4}), 24);
  EXPECT_EQ(Op::Find("seed_add_n")->GetAttr<FCost>("FCost"), nullptr);
}

TEST(Registry, JoinsThePiecesOfAnOperator) {
  const Op* op = Op::Find("seed_abs");
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(Op::Find("seed_absolute"), op);
  EXPECT_EQ(op->name(), "seed_abs");
  EXPECT_THAT(op->aliases(), ElementsAre("seed_absolute"));
  EXPECT_TRUE(op->HasAttr("FCost") && op->HasAttr("FInferShape"));
  EXPECT_EQ(op->description(), "Takes the absolute value of the source.");
  EXPECT_THAT(Op::ListNames(), AllOf(Contains("seed_abs"), ::testing::Not(Contains("seed_absolute"))));
}

TEST(Registry, CallsShareFactsThatAreEqual) {
  const auto facts_of = [](const char* num_args) {
    return (*TryMakeNode("seed_repeat", "call", {MakeVariable("x")}, {{"num_args", num_args}}))->attrs.facts;
  };
  const auto two = facts_of("2"), three = facts_of("3");
  EXPECT_EQ(two->num_outputs, 2u);
  EXPECT_EQ(three->num_outputs, 3u);
  EXPECT_EQ(facts_of("2"), two) << "the first call's";
}

TEST(Registry, DocumentsTensorsFirst) {
  const std::vector<ArgumentDoc>& arguments = Op::Find("SeedActivation")->arguments();
  ASSERT_EQ(arguments.size(), 2u);
  EXPECT_EQ(arguments[0].type, "NDArray");
  EXPECT_EQ(arguments[1].type, "{'relu', 'sigmoid', 'tanh', 'softrelu'}");
  EXPECT_TRUE(arguments[1].required);
}

TEST(Registry, SuggestsTheClosestNames) {
  const absl::Status status = Op::Get("seed_asb").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'seed_asb' is not registered; did you mean 'seed_abs'"));
}

TEST(Registry, KnowsWhereAnOperatorRuns) {
  EXPECT_NE(Op::Find("seed_abs")->kernel(DeviceType::kCpu), nullptr);
  EXPECT_EQ(Op::Find("seed_abs")->kernel(DeviceType::kGpu), nullptr);
}

TEST(Registry, AnOperatorWithoutParametersRefusesAttributes) {
  const absl::Status status = TryMakeNode("seed_abs", "n", {MakeVariable("x")}, {{"axis", "1"}}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("operator 'seed_abs': unknown attribute 'axis'"));
  EXPECT_TRUE(TryMakeNode("seed_abs", "n", {MakeVariable("x")}, {{"__layout__", "NCHW"}}).ok());
}

}  // namespace
}  // namespace gluond
