// A state made for inference predicts what the model does, with fewer calls and no more values.

#include "engine/nn/inference_state.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "engine/core/op.h"
#include "engine/runtime/transfer.h"
#include "tests/engine/compile/all_passes.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

using Shapes = std::map<std::string, Shape>;

NodeEntry Convolve(const NodeEntry& x, const std::string& weight, AttrDict dict = {}) {
  dict.insert({{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"pad", "(1, 1)"}});
  std::vector<NodeEntry> inputs = {x, MakeVariable(weight)};
  if (!dict.contains("no_bias")) inputs.push_back(MakeVariable(weight + "_bias"));
  return MakeNode("Convolution", weight + "_convolution", inputs, dict);
}
NodeEntry Dense(const NodeEntry& x, AttrDict more = {}) {
  AttrDict dict = {{"num_hidden", "4"}};
  dict.insert(more.begin(), more.end());
  return MakeNode("FullyConnected", "dense", {x, MakeVariable("d"), MakeVariable("d_bias")}, dict);
}
NodeEntry Normalize(const NodeEntry& x, AttrDict dict = {}, const std::string& name = "norm") {
  std::vector<NodeEntry> inputs = {x};
  for (const char* each : {"_gamma", "_beta", "_mean", "_var"}) inputs.push_back(MakeVariable(name + each));
  return MakeNode("BatchNorm", name, inputs, dict);
}
NodeEntry Shaped(const std::string& name, const std::string& shape) { return MakeVariable(name, {{"__shape__", shape}}); }
NodeEntry Second(const NodeEntry& first) { return {first.node, 1}; }

Tensor ValueOf(const ModelState& state, const std::string& name) {
  const auto found =
      std::find_if(state.parameters.begin(), state.parameters.end(), [&](const NamedTensor& each) { return each.name == name; });
  return found == state.parameters.end() ? Tensor() : found->tensor;
}

int Count(const ModelState& state, absl::string_view op) {
  int count = 0;
  PostOrderVisit(state.definition.outputs, [&](const NodePtr& node) {
    if (!node->is_variable() && node->op()->name() == op) ++count;
  });
  return count;
}

class InferenceStateTest : public ModelTest {
 protected:
  const AllPasses all_passes_;

  // A state whose values are noise, of the type `dtype`; variances are positive, and of BatchNorm's own type.
  ModelState State(std::vector<NodeEntry> outputs, const Shape& x, DType dtype = DType::kFloat32) {
    ModelState state;
    state.definition.inputs = {{"x", x, dtype}};
    state.definition.outputs = std::move(outputs);
    Signatures known = {{"x", {x, dtype}}};
    const IndexedGraph graph(Graph{state.definition.outputs});
    absl::StatusOr<Inferred> inferred = InferShapeType(graph, known);
    EXPECT_OK(inferred.status());
    for (size_t i = 0; i < state.definition.outputs.size(); ++i) state.definition.output_names.push_back("y" + std::to_string(i));
    for (const uint32_t id : graph.variables()) {
      const std::string& name = graph[id].node->name();
      if (name == "x") continue;
      const uint32_t entry = graph[id].first_entry;
      Tensor value = MakeNoise(inferred->shapes[entry], state.parameters.size() + 3);
      const bool positive = name.ends_with("_var");
      for (int64_t i = 0; positive && i < value.Size(); ++i) value.data<float>()[i] = 0.3f + std::abs(value.data<float>()[i]);
      Parameter parameter;
      parameter.name = name;
      parameter.shape = value.shape();
      parameter.dtype = inferred->types[entry];
      state.definition.parameters.push_back(parameter);
      state.parameters.push_back({name, *AsType(value, parameter.dtype, *memory_)});
    }
    MarkAuxiliary(&state.definition);
    return state;
  }

  InferenceState MadeFor(const ModelState& state, Device device) {
    absl::StatusOr<InferenceState> made = Await<absl::StatusOr<InferenceState>>([&](auto done) {
      RunTask<absl::StatusOr<InferenceState>>([=, this] { return ForInference(state, device, *lane_, *memory_); }, done);
    });
    EXPECT_OK(made.status());
    return *std::move(made);
  }

  ModelState Made(const ModelState& state) {
    InferenceState made = MadeFor(state, Device());
    EXPECT_OK(made.why_not);
    return std::move(made.state);
  }

  // The outputs for noise, as float32.
  std::vector<std::vector<float>> Outputs(const ModelState& state, const Shape& x) {
    absl::StatusOr<std::shared_ptr<Model>> model = Model::Create(state.definition, Options());
    EXPECT_OK(model.status());
    EXPECT_OK(Await<absl::Status>([&](auto done) { (*model)->AdoptParameters(state.parameters, nullptr, done); }));
    const Tensor input = *AsType(MakeNoise(x, 1), state.definition.inputs[0].dtype, *memory_);
    absl::StatusOr<NamedTensors> outputs = Predict(**model, {{"x", input}});
    EXPECT_OK(outputs.status());
    std::vector<std::vector<float>> values;
    for (const NamedTensor& each : *outputs) values.push_back(ModelTest::Values(*AsType(each.tensor, DType::kFloat32, *memory_)));
    return values;
  }

  void ExpectSamePredictions(const ModelState& state, const ModelState& made, const Shape& x, double tolerance) {
    const auto wanted = Outputs(state, x), got = Outputs(made, x);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].size(), wanted[i].size());
      for (size_t k = 0; k < got[i].size(); ++k) {
        ASSERT_NEAR(got[i][k], wanted[i][k], tolerance * (1 + std::abs(wanted[i][k]))) << "output " << i << ", element " << k;
      }
    }
  }
};

struct FoldCase {
  const char* name;
  Shape x;
  int left;  // Calls of BatchNorm.
  std::function<std::vector<NodeEntry>(const NodeEntry& x)> outputs;
};

const Shape kImages = {2, 4, 5, 5};

const std::vector<FoldCase>& FoldCases() {
  static const auto& cases = *new std::vector<FoldCase>{
      {"Bias", kImages, 0, [](auto x) { return std::vector{Normalize(Convolve(x, "w"))}; }},
      {"NoBias", kImages, 0,
       [](auto x) {
         return std::vector{Normalize(Convolve(x, "w", {{"no_bias", "True"}}))};
       }},
      {"Gamma", kImages, 0,
       [](auto x) {
         return std::vector{Normalize(Convolve(x, "w"), {{"fix_gamma", "False"}})};
       }},
      {"Epsilon", kImages, 0,
       [](auto x) {
         return std::vector{Normalize(Convolve(x, "w"), {{"eps", "0.5"}})};
       }},
      {"Groups", kImages, 0,
       [](auto x) {
         return std::vector{Normalize(Convolve(x, "w", {{"num_group", "2"}}))};
       }},
      {"AxisFromTheEnd", kImages, 0,
       [](auto x) {
         return std::vector{Normalize(Convolve(x, "w"), {{"axis", "-3"}})};
       }},
      {"TwoInARow", kImages, 0, [](auto x) { return std::vector{Normalize(Normalize(Convolve(x, "w")), {}, "more")}; }},
      {"Dense", {3, 2, 3}, 0, [](auto x) { return std::vector{Normalize(Dense(x))}; }},
      {"DenseOfTheLastAxis",
       {3, 2, 3},
       0,
       [](auto x) {
         return std::vector{Normalize(Dense(x, {{"flatten", "False"}}), {{"axis", "-1"}})};
       }},
      {"DenseOfAnotherAxis",
       {3, 4, 3},
       1,
       [](auto x) {
         return std::vector{Normalize(Dense(x, {{"flatten", "False"}}), {{"axis", "1"}})};
       }},
      {"AnotherAxis", kImages, 1,
       [](auto x) {
         return std::vector{Normalize(Convolve(x, "w"), {{"axis", "3"}})};
       }},
      {"NothingBefore", kImages, 1, [](auto x) { return std::vector{Normalize(x)}; }},
      {"AnotherReader", kImages, 1,
       [](auto x) {
         const auto y = Convolve(x, "w");
         return std::vector{Normalize(y) + y};
       }},
      {"TwoNormsOfOne", kImages, 2,
       [](auto x) {
         const auto y = Convolve(x, "w");
         return std::vector{Normalize(y) + Normalize(y, {}, "more")};
       }},
      {"AnOutput", kImages, 1,
       [](auto x) {
         const auto y = Convolve(x, "w");
         return std::vector{Normalize(y), y};
       }},
      {"ItsMeanIsRead", kImages, 1,
       [](auto x) {
         const auto y = Normalize(Convolve(x, "w"), {{"output_mean_var", "True"}});
         return std::vector{y, Second(y)};
       }},
      {"AWeightThatIsNoConstant",
       {4, 4, 3, 3},
       1,
       [](auto x) {
         return std::vector{
             Normalize(MakeNode("Convolution", "c", {x, x}, {{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"no_bias", "True"}}))};
       }},
  };
  return cases;
}

TEST_F(InferenceStateTest, BatchNormGoesIntoTheCallBeforeWhereNobodyElseReadsThat) {
  for (const FoldCase& c : FoldCases()) {
    for (const auto& [dtype, tolerance] : {std::pair(DType::kFloat32, 2e-5), std::pair(DType::kFloat64, 2e-6),
                                           std::pair(DType::kFloat16, 1e-2), std::pair(DType::kBfloat16, 8e-2)}) {
      SCOPED_TRACE(absl::StrCat(c.name, " of ", Name(dtype)));
      const ModelState state = State(c.outputs(MakeVariable("x")), c.x, dtype);
      const ModelState made = Made(state);
      EXPECT_EQ(Count(made, "BatchNorm"), c.left);
      ExpectSamePredictions(state, made, c.x, tolerance);
      if (c.left > 0) continue;
      EXPECT_EQ(made.parameters.size(), 2u) << "a weight and a bias";
      for (const NamedTensor& each : made.parameters) EXPECT_EQ(each.tensor.dtype(), dtype);
      for (const Parameter& each : made.definition.parameters) EXPECT_EQ(each.grad_req, GradReq::kNull);
    }
  }
}

struct BlockCase {
  const char* name;
  Shape x;
  int to, from, convolutions, poolings;  // Calls into blocks of channels, out of them, and in them.
  std::function<std::vector<NodeEntry>(const NodeEntry& x)> outputs;
};

NodeEntry Wide(const NodeEntry& x, const std::string& weight, AttrDict more = {}) {
  more.emplace("num_filter", "16");
  return Convolve(x, weight, more);
}
NodeEntry Rectified(const NodeEntry& x) { return MakeNode("Activation", "rectified", {x}, {{"act_type", "relu"}}); }
NodeEntry Pooled(const NodeEntry& x, AttrDict dict) { return MakeNode("Pooling", "pooled", {x}, dict); }
NodeEntry Joined(const NodeEntry& a, const NodeEntry& b, const char* dim) {
  return MakeNode("Concat", "joined", {a, b}, {{"dim", dim}});
}

const Shape kColours = {2, 3, 6, 5}, kDeep = {2, 16, 6, 5};
const AttrDict kHalfSize = {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}}, kMean = {{"global_pool", "True"}, {"pool_type", "avg"}};

const std::vector<BlockCase>& BlockCases() {
  static const auto& cases = *new std::vector<BlockCase>{
      {"Chain", kColours, 0, 1, 2, 2,
       [](auto x) { return std::vector{Dense(Pooled(Rectified(Wide(Pooled(Rectified(Wide(x, "a")), kHalfSize), "b")), kMean))}; }},
      {"Residual", kDeep, 1, 1, 2, 0,
       [](auto x) {
         const auto y = Rectified(Wide(x, "a"));
         return std::vector{Rectified(Wide(y, "b") + y)};
       }},
      {"WithWhatIsInBlocksForAnother", kDeep, 1, 1, 2, 0, [](auto x) { return std::vector{Wide(Wide(x, "a") + x, "b")}; }},
      {"WithWhatIsNotInBlocks", kDeep, 1, 1, 2, 0,
       [](auto x) { return std::vector{Wide(Wide(x, "a"), "b") + MakeNode("softmax", "s", {x})}; }},
      {"NormalizedApart", kDeep, 1, 1, 4, 0,
       [](auto x) {
         const auto y = Wide(x, "a"), z = Normalize(y, {{"fix_gamma", "False"}});
         return std::vector{Wide(Rectified(z), "b") + y + Normalize(z, {{"axis", "-3"}}, "more")};
       }},
      {"NormalizedAlongAnotherAxis", kDeep, 1, 1, 2, 0,
       [](auto x) {
         const auto y = Wide(Wide(x, "a"), "b");
         return std::vector{Normalize(y, {{"axis", "2"}}) + y};
       }},
      {"ByChannels", kDeep, 1, 1, 2, 0,
       [](auto x) {
         return std::vector{Wide(Wide(x, "a", {{"num_group", "16"}}), "b")};
       }},
      {"Normalized", kDeep, 1, 1, 2, 0,
       [](auto x) { return std::vector{Normalize(Wide(Rectified(Normalize(Wide(x, "a"))), "b"), {}, "more")}; }},
      {"JoinedByChannels", kDeep, 1, 1, 3, 0,
       [](auto x) { return std::vector{Wide(Joined(Wide(x, "a"), Wide(x, "b"), "1"), "c")}; }},
      {"JoinedOtherwise", kDeep, 0, 0, 0, 0,
       [](auto x) { return std::vector{Wide(Joined(Wide(x, "a"), Wide(x, "b"), "2"), "c")}; }},
      {"NoFewerCopies", kDeep, 0, 0, 0, 0, [](auto x) { return std::vector{Wide(MakeNode("softmax", "s", {Wide(x, "a")}), "b")}; }},
      {"AnOutputOnTheWay", kDeep, 1, 2, 3, 0,
       [](auto x) {
         const auto y = Wide(x, "a");
         return std::vector{Wide(Wide(y, "b"), "c"), y};
       }},
      {"OneOutputTwice", kDeep, 1, 1, 2, 0,
       [](auto x) {
         const auto y = Wide(Wide(x, "a"), "b");
         return std::vector{y, y};
       }},
      {"PositionsAreRead", kDeep, 1, 1, 2, 0,
       [](auto x) {
         const auto y = Pooled(Wide(Wide(x, "a"), "b"), kHalfSize);
         return std::vector{y, Second(y)};
       }},
      {"NothingIsConvolved", kDeep, 0, 0, 0, 0, [](auto x) { return std::vector{Pooled(Rectified(x), kHalfSize)}; }},
      {"ChannelsThatFillNoBlock",
       {2, 12, 6, 5},
       1,
       1,
       2,
       0,
       [](auto x) { return std::vector{Wide(Wide(Wide(x, "a"), "b"), "c")}; }},
      {"FiltersThatFillNoBlock", kDeep, 0, 0, 0, 0, [](auto x) { return std::vector{Convolve(Convolve(x, "a"), "b")}; }},
      {"Groups", kDeep, 0, 0, 0, 0,
       [](auto x) {
         const AttrDict halves = {{"num_group", "2"}};
         return std::vector{Wide(Wide(x, "a", halves), "b", halves)};
       }},
      {"Rows",
       {2, 16, 6},
       0,
       0,
       0,
       0,
       [](auto x) {
         const AttrDict rows = {{"kernel", "(3,)"}, {"pad", "(1,)"}};
         return std::vector{Wide(Wide(x, "a", rows), "b", rows)};
       }},
      {"TheWeightIsAnImage",
       {16, 16, 3, 3},
       1,
       1,
       2,
       0,
       [](auto x) {
         const AttrDict dict = {{"kernel", "(3, 3)"}, {"num_filter", "16"}, {"pad", "(2, 2)"}, {"no_bias", "True"}};
         return std::vector{Wide(MakeNode("Convolution", "c", {x, x}, dict), "b")};
       }},
  };
  return cases;
}

TEST_F(InferenceStateTest, ConvolutionsOnACpuHandOnImagesInBlocksOfChannels) {
  for (const BlockCase& c : BlockCases()) {
    SCOPED_TRACE(c.name);
    const ModelState state = State(c.outputs(MakeVariable("x")), c.x);
    const ModelState made = Made(state);
    EXPECT_EQ(Count(made, "_to_blocked"), c.to);
    EXPECT_EQ(Count(made, "_from_blocked"), c.from);
    EXPECT_EQ(Count(made, "_blocked_Convolution"), c.convolutions);
    EXPECT_EQ(Count(made, "_blocked_Pooling"), c.poolings);
    ExpectSamePredictions(state, made, c.x, 2e-5);
  }
}

TEST_F(InferenceStateTest, ImagesOfOtherTypesAndOnAGpuStayAsTheyAre) {
  const NodeEntry y = Wide(Wide(MakeVariable("x"), "a"), "b");
  EXPECT_EQ(Count(Made(State({y}, kDeep, DType::kFloat64)), "Convolution"), 2);
  EXPECT_EQ(Count(MadeFor(State({y}, kDeep), *Device::Parse("gpu")).state, "Convolution"), 2);
}

TEST_F(InferenceStateTest, ImagesInBlocksMayBeAnyNumber) {
  ModelState state = State({Dense(Pooled(Wide(MakeVariable("x"), "a"), kHalfSize))}, kColours);
  state.definition.inputs[0].shape[0] = Shape::kUnknown;
  const ModelState made = Made(state);
  EXPECT_EQ(Count(made, "_blocked_Convolution"), 1);
  const absl::StatusOr<std::shared_ptr<Model>> model = Model::Create(made.definition, Options());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->outputs()[0].signature.shape, Shape({Shape::kUnknown, 4}));
  for (const int64_t batch : {1, 5}) ExpectSamePredictions(state, made, {batch, 3, 6, 5}, 2e-5);
}

TEST_F(InferenceStateTest, TheStateItselfStaysAsItIs) {
  const ModelState state = State({Normalize(Convolve(MakeVariable("x"), "w"))}, kImages);
  const std::string weight = Bytes(ValueOf(state, "w"));
  EXPECT_EQ(Count(Made(state), "BatchNorm"), 0);
  EXPECT_EQ(Count(state, "BatchNorm"), 1);
  EXPECT_EQ(Bytes(ValueOf(state, "w")), weight);
}

TEST_F(InferenceStateTest, WhatParametersGiveIsComputedOnce) {
  const NodeEntry x = MakeVariable("x"), turned = MakeNode("transpose", "turned", {Shaped("w", "(2, 2)")});
  const ModelState state = State(
      {MakeNode("dot", "product", {x, turned * 2.0 + 1.0}), MakeNode("broadcast_add", "sum", {x, Shaped("b", "(1, 2)")})}, {3, 2});
  ASSERT_EQ(state.parameters.size(), 2u);
  const ModelState made = Made(state);
  EXPECT_EQ(Count(made, "transpose"), 0);
  EXPECT_EQ(Count(made, "dot"), 1);
  ASSERT_EQ(made.parameters.size(), 2u);
  EXPECT_EQ(ValueOf(made, "b").buffer(), ValueOf(state, "b").buffer()) << "what is read as it is stays";
  ExpectSamePredictions(state, made, {3, 2}, 1e-6);
}

TEST_F(InferenceStateTest, ConstantsThatTakeMuchMoreThanParametersAreNot) {
  const NodeEntry large = MakeNode("broadcast_to", "large", {Shaped("w", "(1, 1)")}, {{"shape", "(1024, 1024)"}});
  const ModelState state = State({MakeNode("broadcast_add", "sum", {MakeVariable("x"), large})}, {1, 1024});
  const InferenceState made = MadeFor(state, Device());
  EXPECT_TRUE(absl::IsResourceExhausted(made.why_not)) << made.why_not;
  EXPECT_EQ(Count(made.state, "broadcast_to"), 1);
  EXPECT_EQ(made.state.parameters.size(), 1u);
}

TEST_F(InferenceStateTest, ValuesThatAreNotFiniteAreNotFolded) {
  ModelState state = State({Normalize(Convolve(MakeVariable("x"), "w"))}, kImages, DType::kFloat16);
  for (const NamedTensor& each : state.parameters) {
    if (each.name == "norm_var") std::fill_n(each.tensor.data<float>(), each.tensor.Size(), 1e-12f);
    if (each.name == "w") std::fill_n(each.tensor.data<Half>(), each.tensor.Size(), Half(60000.0f));
  }
  const InferenceState made = MadeFor(state, Device());
  EXPECT_EQ(Count(made.state, "BatchNorm"), 1) << "60,000 / sqrt(0.001) is no float16";
  EXPECT_TRUE(absl::IsFailedPrecondition(made.why_not)) << made.why_not;
  EXPECT_TRUE(made.history.made_by.empty());
  ASSERT_FALSE(made.history.passes.empty());
  for (const PassReport& pass : made.history.passes) {
    EXPECT_EQ(pass.calls_after, 2) << pass.name;
    EXPECT_TRUE(pass.changes.empty()) << pass.name;
    if (pass.name != "fold_affine") continue;
    EXPECT_EQ(pass.effect, "taken back: a constant is not finite");
  }
}

TEST_F(InferenceStateTest, WhatFollowsFromConstantsStaysWhereThatPassIsLeftOut) {
  const ModelState state = State({Normalize(Convolve(MakeVariable("x"), "w"))}, kImages);
  SetLeftOutPasses(*PassSet::Parse("-keep_constants"));
  const ModelState made = Made(state);
  SetLeftOutPasses({});
  EXPECT_EQ(Count(made, "BatchNorm"), 0) << "folded";
  EXPECT_GT(made.parameters.size(), Made(state).parameters.size());
  ExpectSamePredictions(state, made, kImages, 1e-5);
}

TEST_F(InferenceStateTest, ACallThatIsGivenUpKeepsNoOldGraph) {
  const ModelState state = State({Normalize(Convolve(MakeVariable("x"), "w"))}, kImages);
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  const absl::StatusOr<InferenceState> made = Await<absl::StatusOr<InferenceState>>([&](auto done) {
    RunTask<absl::StatusOr<InferenceState>>([=, this] { return ForInference(state, Device(), *lane_, *memory_, cancellation); },
                                            done);
  });
  EXPECT_TRUE(absl::IsCancelled(made.status())) << made.status();
}

TEST_F(InferenceStateTest, ModelsShareAdoptedValuesUntilOneWrites) {
  const ModelState state = Made(State({Convolve(MakeVariable("x"), "w")}, kImages));
  const int64_t before = budget_->used();
  std::vector<std::shared_ptr<Model>> models;
  for (int i = 0; i < 3; ++i) {
    models.push_back(*Model::Create(state.definition, Options()));
    EXPECT_OK(Await<absl::Status>([&](auto done) { models[i]->AdoptParameters(state.parameters, nullptr, done); }));
  }
  EXPECT_EQ(budget_->used(), before) << "nothing is copied, and there are no gradients";
  const Tensor zeros = Make<float>({4}, {0, 0, 0, 0});
  EXPECT_OK(Set(*models[0], {{"w_bias", zeros}}));
  EXPECT_EQ(Bytes((*Get(*models[0], {"w_bias"}))[0].tensor), Bytes(zeros));
  EXPECT_EQ(Bytes((*Get(*models[1], {"w_bias"}))[0].tensor), Bytes(ValueOf(state, "w_bias")));
  EXPECT_TRUE(absl::IsInvalidArgument(Await<absl::Status>([&](auto done) {
    models[2]->AdoptParameters({{"w_bias", Make<float>({1}, {0})}}, nullptr, done);
  })));
}

}  // namespace
}  // namespace gluond
