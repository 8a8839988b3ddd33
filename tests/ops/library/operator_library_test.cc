// Operators from a library: each fact that is wrong is told in one sentence, and what is registered does what its functions say.

#include "ops/library/operator_library.h"

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const gluond_op_api* api = nullptr;

// The facts that the next library registers, and the status that it returns.
std::vector<gluond_op_facts>& Facts() {
  static auto& facts = *new std::vector<gluond_op_facts>;
  return facts;
}

int32_t RegisterFacts(const gluond_op_api* table, gluond_registration* registration) {
  api = table;
  for (const gluond_op_facts& facts : Facts()) {
    if (const int32_t code = table->register_op(registration, &facts); code != GLUOND_OK) return code;
  }
  return GLUOND_OK;
}

absl::StatusOr<std::vector<std::string>> Register(std::vector<gluond_op_facts> facts) {
  Facts() = std::move(facts);
  return RegisterOperators({sizeof(gluond_op_library), GLUOND_OP_VERSION, 0, RegisterFacts}, "test.so");
}

// y = user x, elementwise in float32.
int32_t Scale(const gluond_call* call, const gluond_run*, const gluond_tensor* in, const int32_t* req, const gluond_tensor* out,
              gluond_error*) {
  const auto* x = static_cast<const float*>(in[0].data);
  auto* y = static_cast<float*>(out[0].data);
  for (int64_t i = 0; i < out[0].size && req[0] != GLUOND_NULL_OP; ++i) {
    y[i] = x[i] * *static_cast<float*>(call->user) + (req[0] == GLUOND_ADD_TO ? y[i] : 0);
  }
  return GLUOND_OK;
}

const gluond_input kData = {"data", "Any shape.", 0};
float two = 2;

gluond_op_facts Good(const char* name) {
  gluond_op_facts facts{};
  facts.sizes = GLUOND_SIZES;
  facts.name = name;
  facts.description = "y = 2 x.";
  facts.inputs = &kData;
  facts.num_inputs = facts.num_outputs = 1;
  facts.dtypes = 1 << GLUOND_DTYPE_FLOAT32;
  facts.user = &two;
  facts.compute_cpu = Scale;
  return facts;
}

NodePtr Call(const char* op, AttrDict dict = {}) { return *TryMakeNode(op, "y", {MakeVariable("x")}, std::move(dict)); }

absl::StatusOr<Shape> ShapeOf(const char* op, const Shape& input, AttrDict dict = {}) {
  ShapeVector in = {input}, out(1);
  const NodePtr node = Call(op, std::move(dict));
  const absl::StatusOr<bool> known = InferShape(node->attrs, &in, &out);
  if (!known.ok()) return known.status();
  return out[0];
}

TEST(OperatorLibraryTest, WhatIsRegisteredIsAnOperatorLikeAnother) {
  ASSERT_THAT(*Register({Good("lib_scale")}), ElementsAre("lib_scale"));
  const Op* op = Op::Find("lib_scale");
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->description(), "y = 2 x.");
  EXPECT_EQ(op->arguments()[0].name, "data");
  EXPECT_EQ(*ShapeOf("lib_scale", {2, 3}), Shape({2, 3}));
  EXPECT_TRUE(CheckRegistry().ok());
}

TEST(OperatorLibraryTest, EachRequestIsHonoured) {
  ASSERT_TRUE(Register({Good("lib_requests")}).ok());
  for (const auto& [req, expected] : {std::pair(kNullOp, 10.f), {kWriteTo, 6.f}, {kWriteInplace, 6.f}, {kAddTo, 16.f}}) {
    float x = 3, y = 10;
    const TBlob in{&x, {1}, DType::kFloat32, Device()}, out{&y, {1}, DType::kFloat32, Device()};
    ASSERT_TRUE(RunKernel(Call("lib_requests")->attrs, OpContext(), {&in, 1}, {&req, 1}, {&out, 1}).ok());
    EXPECT_EQ(y, expected) << req;
  }
}

TEST(OperatorLibraryTest, ATypeThatItDoesNotTakeIsRefused) {
  ASSERT_TRUE(Register({Good("lib_types")}).ok());
  TypeVector in = {DType::kInt8}, out = {DType::kUnknown};
  EXPECT_THAT(InferType(Call("lib_types")->attrs, &in, &out).status().message(), HasSubstr("type is int8, expected float32"));
}

// A GPU's kernel.
void* seen_stream = nullptr;
int32_t seen_device = 0;
int32_t See(const gluond_call*, const gluond_run* run, const gluond_tensor*, const int32_t*, const gluond_tensor*, gluond_error*) {
  seen_stream = run->stream;
  seen_device = run->device * 100 + run->device_id;
  return GLUOND_OK;
}

TEST(OperatorLibraryTest, AKernelOfAGpuGetsItsStream) {
  gluond_op_facts facts = Good("lib_gpu");
  facts.compute_gpu = See;
  ASSERT_TRUE(Register({facts}).ok());
  int stream = 0;
  OpContext ctx;
  ctx.device = {DeviceType::kGpu, 3};
  ctx.stream = &stream;
  const TBlob blob{nullptr, {1}, DType::kFloat32, ctx.device};
  const OpReqType req = kWriteTo;
  ASSERT_TRUE(RunKernel(Call("lib_gpu")->attrs, ctx, {&blob, 1}, {&req, 1}, {&blob, 1}).ok());
  EXPECT_EQ(seen_stream, &stream);
  EXPECT_EQ(seen_device, GLUOND_DEVICE_GPU * 100 + 3);
}

const char* text = "";
int32_t FailWith(const gluond_call* call, const gluond_run*, const gluond_tensor*, const int32_t*, const gluond_tensor*,
                 gluond_error* error) {
  return api->fail(error, *static_cast<int32_t*>(call->user), text);
}

TEST(OperatorLibraryTest, AKernelsErrorIsTheCalls) {
  static int32_t codes[] = {GLUOND_INVALID_ARGUMENT, GLUOND_UNIMPLEMENTED, 16, -5};
  const absl::StatusCode expected[] = {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented,
                                       absl::StatusCode::kInternal, absl::StatusCode::kInternal};
  for (int i = 0; i < 4; ++i) {
    const std::string name = absl::StrCat("lib_fails", i);
    gluond_op_facts facts = Good(name.c_str());
    facts.compute_cpu = FailWith;
    facts.user = &codes[i];
    ASSERT_TRUE(Register({facts}).ok());
    text = i == 0 ? "no 'thing'\nof this" : "no thing\n\xff";
    const TBlob blob{nullptr, {1}, DType::kFloat32, Device()};
    const OpReqType req = kWriteTo;
    const absl::Status status = RunKernel(Call(name.c_str())->attrs, OpContext(), {&blob, 1}, {&req, 1}, {&blob, 1});
    EXPECT_EQ(status.code(), expected[i]);
    EXPECT_THAT(status.message(), HasSubstr(i == 0 ? "no 'thing' of this" : "no thing\\n\\xff"));
  }
}

// A rule that tells this shape of its output, whatever the input is.
gluond_shape told;
int32_t TellShape(const gluond_call*, gluond_shape*, gluond_shape* out, gluond_error*) { return out[0] = told, GLUOND_OK; }
int32_t ChangeInput(const gluond_call*, gluond_shape* in, gluond_shape*, gluond_error*) { return in[0].dims[0] = 7, GLUOND_OK; }

TEST(OperatorLibraryTest, ShapesThatCannotBeAreRefused) {
  gluond_op_facts facts = Good("lib_shapes");
  facts.infer_shape = TellShape;
  ASSERT_TRUE(Register({facts}).ok());
  const int64_t huge = int64_t{1} << 47;
  for (const auto& [shape, text] : std::vector<std::pair<gluond_shape, const char*>>{
           {{9, 0, {1, 1, 1, 1, 1, 1, 1, 1}}, "the library's output 0 has the rank 9, expected 0 to 8"},
           {{std::numeric_limits<int32_t>::max(), 0, {}}, "rank 2147483647"},
           {{-2, 0, {}}, "has the rank -2"},
           {{1, 0, {-2}}, "the library's output 0 has a wrong shape"},
           {{2, 0, {huge, 4}}, "the library's output 0 has a wrong shape"},
           {{2, 0, {0, huge}}, "the library's output 0 has a wrong shape"},
       }) {
    told = shape;
    EXPECT_THAT(ShapeOf("lib_shapes", {2}).status().message(), HasSubstr(text));
  }
  told = {2, 0, {5, -1}};
  EXPECT_EQ(ShapeOf("lib_shapes", {2})->ToString(), "[5,?]");
  facts = Good("lib_changes");
  facts.infer_shape = ChangeInput;
  ASSERT_TRUE(Register({facts}).ok());
  EXPECT_THAT(ShapeOf("lib_changes", {2}).status().message(), HasSubstr("input 0: shape inconsistent, Provided = [2]"));
}

int32_t told_type = 0;
int32_t TellType(const gluond_call*, int32_t*, int32_t* out, gluond_error*) { return out[0] = told_type, GLUOND_OK; }

TEST(OperatorLibraryTest, TypesThatThereAreNotAreRefused) {
  gluond_op_facts facts = Good("lib_type_rule");
  facts.infer_type = TellType;
  ASSERT_TRUE(Register({facts}).ok());
  for (const int32_t type : {-2, 8, 11, 13, 99}) {
    told_type = type;
    TypeVector in = {DType::kFloat32}, out = {DType::kUnknown};
    EXPECT_THAT(InferType(Call("lib_type_rule")->attrs, &in, &out).status().message(), HasSubstr("which there is not")) << type;
  }
  told_type = GLUOND_DTYPE_BFLOAT16;
  TypeVector in = {DType::kFloat32}, out = {DType::kUnknown};
  ASSERT_TRUE(*InferType(Call("lib_type_rule")->attrs, &in, &out));
  EXPECT_EQ(out[0], DType::kBfloat16);
}

// Gradients.
std::function<void(gluond_graph*)>& Writes() {
  static auto& writes = *new std::function<void(gluond_graph*)>;
  return writes;
}
int32_t WriteGradient(const gluond_call*, gluond_graph* graph, gluond_error*) { return Writes()(graph), GLUOND_OK; }

TEST(OperatorLibraryTest, AGradientIsAGraph) {
  gluond_op_facts facts = Good("lib_gradient");
  facts.gradient = WriteGradient;
  ASSERT_TRUE(Register({facts}).ok());
  const NodePtr node = Call("lib_gradient");
  const Gradients heads = {MakeVariable("dy")};
  const auto gradients = [&](auto writes) {
    Writes() = writes;
    return (*node->facts().gradient)(node, heads);
  };
  const auto good = gradients([](gluond_graph* g) {
    const uint32_t dy = api->graph_head(g, 0);
    api->graph_gradient(g, 0, api->graph_node(g, "lib_gradient", &dy, 1, nullptr));
  });
  ASSERT_EQ(good->size(), 1u);
  // Its shape and type are the input's, in any case.
  EXPECT_EQ((*good)[0].node->op()->name(), "_identity_with_attr_like_rhs");
  EXPECT_EQ((*good)[0].node->inputs[1].node, node->inputs[0].node);
  const NodePtr called = (*good)[0].node->inputs[0].node;
  EXPECT_EQ(called->op()->name(), "lib_gradient");
  EXPECT_EQ(called->inputs[0].node, heads[0].node);
  const auto none = gradients([](gluond_graph*) {});
  EXPECT_FALSE((*none)[0]);
  const auto fails = [&](auto writes) { return std::string(gradients(writes).status().message()); };
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_input(g, 1); }), HasSubstr("asks for input 1 of 1"));
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_output(g, 9); }), HasSubstr("asks for output 9 of 1"));
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_head(g, 4294967295u); }), HasSubstr("head of output 4294967295 of 1"));
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_gradient(g, 0, 5); }), HasSubstr("asks for entry 5 of 0"));
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_gradient(g, 3, api->graph_head(g, 0)); }),
              HasSubstr("gradient of input 3 of 1"));
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_result(g, api->graph_head(g, 0), 1); }), HasSubstr("output 1 of 1"));
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_node(g, "no_such", nullptr, 0, nullptr); }),
              HasSubstr("'no_such' is not registered"));
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_node(g, "lib_gradient", nullptr, 0, nullptr); }),
              HasSubstr("takes 1 inputs (data), got 0"));
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_node(g, "lib_gradient", nullptr, 2, nullptr); }),
              HasSubstr("their list is null"));
  EXPECT_THAT(fails([](gluond_graph* g) { api->graph_node(g, nullptr, nullptr, 0, nullptr); }), HasSubstr("name is null"));
  const char* const half[] = {"scale", nullptr};
  EXPECT_THAT(fails([&](gluond_graph* g) { api->graph_node(g, "lib_gradient", nullptr, 0, half); }), HasSubstr("text is null"));
  EXPECT_THAT(fails([](gluond_graph* g) {
                for (int i = 0; i < 100000; ++i) api->graph_head(g, 0);
              }),
              HasSubstr("more than 65536 entries"));
}

// Attributes.
int32_t CheckScale(const gluond_call* call, gluond_error* error) {
  return call->attributes[1].number > 0 ? GLUOND_OK : api->fail(error, GLUOND_INVALID_ARGUMENT, "`scale` has to be positive");
}
uint32_t CountOutputs(const gluond_call* call) { return static_cast<uint32_t>(call->attributes[0].integer); }

const char* const kModes[] = {"max", "avg", nullptr};
const gluond_attribute kAttributes[] = {
    {"n", "Outputs.", "2", nullptr, GLUOND_ATTR_INT, 0},     {"scale", "", "0.5", nullptr, GLUOND_ATTR_FLOAT, 0},
    {"mode", "", "avg", kModes, GLUOND_ATTR_ENUM, 0},        {"axes", "", "None", nullptr, GLUOND_ATTR_INTS, 1},
    {"flag", "", "True", nullptr, GLUOND_ATTR_BOOL, 0},      {"text", "", "", nullptr, GLUOND_ATTR_STRING, 0},
    {"dtype", "", "float16", nullptr, GLUOND_ATTR_DTYPE, 0}, {"rates", "", "(0.5, 2)", nullptr, GLUOND_ATTR_FLOATS, 0},
};

std::string seen_attributes;
int32_t SeeAttributes(const gluond_call* call, gluond_shape*, gluond_shape*, gluond_error*) {
  const gluond_value* v = call->attributes;
  seen_attributes = absl::StrCat(call->num_attributes, " ", v[0].integer, " ", v[1].number, " ", v[2].integer, " ", v[2].text, " ",
                                 v[3].is_none, " ", v[3].count > 1 ? v[3].integers[1] : 0, " ", v[4].integer, " ", v[5].text, " ",
                                 v[6].integer, " ", v[7].count, " ", v[7].numbers[1]);
  return GLUOND_OK;
}

TEST(OperatorLibraryTest, AttributesHaveDefaultsAndAreChecked) {
  gluond_op_facts facts = Good("lib_attributes");
  facts.attributes = kAttributes;
  facts.num_attributes = 8;
  facts.num_outputs = 4;
  facts.check = CheckScale;
  facts.count_outputs = CountOutputs;
  facts.infer_shape = SeeAttributes;
  ASSERT_EQ(Register({facts}).status(), absl::OkStatus());
  const auto see = [](AttrDict dict) {
    ShapeVector in(1), out(2);
    EXPECT_TRUE(InferShape(Call("lib_attributes", std::move(dict))->attrs, &in, &out).ok());
    return seen_attributes;
  };
  EXPECT_EQ(see({}), "8 2 0.5 1 avg 1 0 1  2 2 2");
  EXPECT_EQ(see({{"axes", "(3, 4)"}, {"mode", "max"}, {"flag", "False"}, {"text", "a"}}), "8 2 0.5 0 max 0 4 0 a 2 2 2");
  EXPECT_EQ(Call("lib_attributes", {{"n", "3"}})->num_outputs(), 3u);
  const auto fails = [](AttrDict dict) {
    return std::string(TryMakeNode("lib_attributes", "y", {MakeVariable("x")}, std::move(dict)).status().message());
  };
  EXPECT_THAT(fails({{"scale", "-1"}}), HasSubstr("operator 'lib_attributes': `scale` has to be positive"));
  EXPECT_THAT(fails({{"mode", "min"}}), HasSubstr("attribute 'mode' ({'max', 'avg'}) is 'min'; want one of the names listed"));
  EXPECT_THAT(fails({{"colour", "red"}}), HasSubstr("unknown attribute 'colour'"));
  EXPECT_THAT(fails({{"n", "5"}}), HasSubstr("the library counts 5 outputs, expected at most 4"));
  EXPECT_THAT(fails({{"n", "-1"}}), HasSubstr("the library counts 4294967295 outputs"));
  EXPECT_THAT(fails({{"n", "0"}}), HasSubstr("the library counts no outputs"));
}

TEST(OperatorLibraryTest, AnyNumberOfInputs) {
  gluond_op_facts facts = Good("lib_variadic");
  facts.attributes = kAttributes;
  facts.num_attributes = 1;
  facts.variable_inputs = "n";
  ASSERT_EQ(Register({facts}).status(), absl::OkStatus());
  const NodeEntry x = MakeVariable("x");
  EXPECT_EQ((*TryMakeNode("lib_variadic", "y", {x, x, x}))->num_inputs(), 3u);
  EXPECT_THAT(TryMakeNode("lib_variadic", "y", {x}, {{"n", "-1"}}).status().message(), HasSubstr("number of inputs is -1"));
}

// Facts that are wrong, each by one change of good ones.
struct WrongFacts {
  const char* text;
  std::function<void(gluond_op_facts&)> change;
};

const gluond_attribute kTwice[] = {kAttributes[0], kAttributes[0]};
const gluond_input kTwoInputs[] = {kData, kData};

std::vector<WrongFacts> AllWrongFacts() {
  static gluond_attribute attribute;
  static gluond_input input;
  static gluond_inplace inplace;
  static const char* names[2];
  static const std::string long_text(20000, 'a');
  const auto with_attribute = [](const gluond_attribute& wrong) {
    return [wrong](gluond_op_facts& f) { attribute = wrong, f.attributes = &attribute, f.num_attributes = 1; };
  };
  const auto with_input = [](const gluond_input& wrong) {
    return [wrong](gluond_op_facts& f) { input = wrong, f.inputs = &input; };
  };
  return {
      {"an operator's name is ''", [](auto& f) { f.name = nullptr; }},
      {"an operator's name is 'a b'", [](auto& f) { f.name = "a b"; }},
      {"an operator's name is '1x'", [](auto& f) { f.name = "1x"; }},
      {"an operator's name '\\xff' is not UTF-8", [](auto& f) { f.name = "\xff"; }},
      {"an operator's name is longer", [](auto& f) { f.name = long_text.c_str(); }},
      {"letters, digits and _", [](auto& f) { f.name = "x/../../y"; }},
      {"operator 'lib_taken': the server has an operator of this name already", [](auto& f) { f.name = "lib_taken"; }},
      {"its description '\\xff' is not UTF-8", [](auto& f) { f.description = "\xff"; }},
      {"its description is longer than", [](auto& f) { f.description = long_text.c_str(); }},
      {"it has no kernel", [](auto& f) { f.compute_cpu = nullptr; }},
      {"it has 0 outputs", [](auto& f) { f.num_outputs = 0; }},
      {"it has 4294967295 outputs", [](auto& f) { f.num_outputs = 4294967295u; }},
      {"2 visible outputs of 1", [](auto& f) { f.num_visible_outputs = 2; }},
      {"1 inputs, but their list is null", [](auto& f) { f.inputs = nullptr; }},
      {"it has 4294967295 inputs", [](auto& f) { f.num_inputs = 4294967295u; }},
      {"two arguments have the name 'data'", [](auto& f) { f.inputs = kTwoInputs, f.num_inputs = 2; }},
      {"an input's name is ''", with_input({"", "", 0})},
      {"has the flags 8", with_input({"x", "", 8})},
      {"is both state and shape", with_input({"x", "", 3})},
      {"has a name that clients use", with_input({"out", "", 0})},
      {"a name of the graph's own", with_input({"__x__", "", 0})},
      {"two arguments have the name 'n'", [](auto& f) { f.attributes = kTwice, f.num_attributes = 2; }},
      {"3 attributes, but their list is null", [](auto& f) { f.num_attributes = 3; }},
      {"two arguments have the name 'data'", with_attribute({"data", "", "1", nullptr, GLUOND_ATTR_INT, 0})},
      {"attribute 'a' is of kind 77", with_attribute({"a", "", "1", nullptr, 77, 0})},
      {"attribute 'a' (long) has the default 'one'; want a whole number",
       with_attribute({"a", "", "one", nullptr, GLUOND_ATTR_INT, 0})},
      {"attribute 'a': it is an ENUM without names", with_attribute({"a", "", "x", nullptr, GLUOND_ATTR_ENUM, 0})},
      {"has the default 'min'", with_attribute({"a", "", "min", kModes, GLUOND_ATTR_ENUM, 0})},
      {"attribute 'a': its default '\\xff' is not UTF-8", with_attribute({"a", "", "\xff", nullptr, GLUOND_ATTR_STRING, 0})},
      {"an attribute's name is 'a b'", with_attribute({"a b", "", "1", nullptr, GLUOND_ATTR_INT, 0})},
      {"variable_inputs names 'n', expected an attribute", [](auto& f) { f.variable_inputs = "n"; }},
      {"wants one input, got 2",
       [](auto& f) {
         static const gluond_input inputs[] = {kData, {"more", "", 0}};
         f.inputs = inputs, f.num_inputs = 2, f.variable_inputs = "n";
       }},
      {"`inplace` has input 1 and output 0, of 1 inputs and 1 outputs",
       [](auto& f) {
         inplace = {1, 0}, f.inplace = &inplace, f.num_inplace = 1;
       }},
      {"an output's name is ''", [](auto& f) { names[0] = nullptr, f.output_names = names; }},
      {"two outputs have the name 'y'", [](auto& f) { names[0] = names[1] = "y", f.output_names = names, f.num_outputs = 2; }},
      {"gluond_op_facts has 8 bytes", [](auto& f) { f.sizes.facts = 8; }},
      {"gluond_op_facts has 4294967295 bytes", [](auto& f) { f.sizes.facts = 4294967295u; }},
      {"gluond_input has 0 bytes", [](auto& f) { f.sizes.input = 0; }},
      {"gluond_attribute has 1 bytes", [](auto& f) { f.sizes.attribute = 1; }},
      {"its defaults are refused: operator",
       [](auto& f) { f.check = [](const gluond_call*, gluond_error* e) { return api->fail(e, GLUOND_INTERNAL, "never"); }; }},
      {"the library counts 7 inputs, expected at most 1", [](auto& f) { f.count_inputs = [](const gluond_call*) { return 7u; }; }},
  };
}

TEST(OperatorLibraryTest, WrongFactsAreToldInASentence) {
  ASSERT_TRUE(Register({Good("lib_taken")}).ok());
  int number = 0;
  for (const WrongFacts& wrong : AllWrongFacts()) {
    const std::string name = absl::StrCat("lib_wrong", number++);
    gluond_op_facts facts = Good(name.c_str());
    wrong.change(facts);
    const absl::Status status = Register({facts}).status();
    EXPECT_THAT(status.message(), HasSubstr(wrong.text)) << name;
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  }
}

// A library of a later header, of the same version: its structure has grown.
struct LaterFacts {
  gluond_op_facts facts;
  void* later;
};

TEST(OperatorLibraryTest, ALaterHeadersFactsMayBeZerosAlone) {
  LaterFacts later{Good("lib_later"), nullptr};
  later.facts.sizes.facts = sizeof(later);
  static const LaterFacts* given = nullptr;
  const auto give = [](const gluond_op_api* table, gluond_registration* r) { return table->register_op(r, &given->facts); };
  given = &later;
  EXPECT_EQ(RegisterOperators({sizeof(gluond_op_library), 1, 0, give}, "later.so").status(), absl::OkStatus());
  LaterFacts unknown{Good("lib_unknown"), &later};
  unknown.facts.sizes.facts = sizeof(unknown);
  given = &unknown;
  EXPECT_THAT(RegisterOperators({sizeof(gluond_op_library), 1, 0, give}, "later.so").status().message(),
              HasSubstr("gluond_op_facts has facts that this server does not know"));
}

TEST(OperatorLibraryTest, AnotherVersionOrNothingIsRefused) {
  const auto nothing = [](const gluond_op_api*, gluond_registration*) { return int32_t{0}; };
  const auto fails = [](const gluond_op_api*, gluond_registration*) { return int32_t{13}; };
  const auto text = [](const gluond_op_library& library) {
    return std::string(RegisterOperators(library, "a.so").status().message());
  };
  EXPECT_THAT(text({24, 2, 0, nothing}), HasSubstr("it is of version 2 of gluond_op.h, and this server takes version 1"));
  EXPECT_THAT(text({24, 0, 0, nothing}), HasSubstr("version 0"));
  EXPECT_THAT(text({8, 1, 0, nothing}), HasSubstr("8 bytes"));
  EXPECT_THAT(text({24, 1, 0, nullptr}), HasSubstr("no function"));
  EXPECT_THAT(text({24, 1, 0, nothing}), HasSubstr("it registers no operators"));
  EXPECT_THAT(text({24, 1, 0, fails}), HasSubstr("returned the status 13"));
}

}  // namespace
}  // namespace gluond::ops
