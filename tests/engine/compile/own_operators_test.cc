// Passes know operators by their facts: they take up those of this test, and leave as they are twins of other names that have the
// same kernels and no such facts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/core/affine.h"
#include "engine/core/batch_axis.h"
#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/passes/constants.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"

namespace gluond {
namespace {

using testing::ElementsAre;

// Matrices, and what there is for each of their columns.
absl::StatusOr<bool> ColumnsShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  const Shape matrix = (*in)[0];
  if (matrix.ndim() != 2) return false;
  (*out)[0] = matrix;
  for (size_t i = 1; i < in->size(); ++i) (*in)[i] = {matrix[1]};
  return true;
}

// y = x scale + shift for each column. Counts its calls in training in a fourth input, where there is one.
absl::Status Scale(const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> in, absl::Span<const OpReqType>,
                   absl::Span<const TBlob> out) {
  const int64_t columns = in[0].shape[1];
  for (int64_t i = 0; i < out[0].Size(); ++i) {
    out[0].dptr<float>()[i] = in[0].dptr<float>()[i] * in[1].dptr<float>()[i % columns] + in[2].dptr<float>()[i % columns];
  }
  if (in.size() > 3 && ctx.is_train) ++in[3].dptr<float>()[0];
  return absl::OkStatus();
}

absl::Status Bend(const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType>,
                  absl::Span<const TBlob> out) {
  for (int64_t i = 0; i < out[0].Size(); ++i) out[0].dptr<float>()[i] = std::abs(in[0].dptr<float>()[i]);
  return absl::OkStatus();
}

template <int kInputs>
void Matrices(OpRegistration& op) {
  op.set_num_inputs(kInputs)
      .set_attr<FInferShape>("FInferShape", ColumnsShape)
      .set_attr<FInferType>("FInferType", SameType)
      .set_attr<FCompute>("FCompute<cpu>", kInputs == 1 ? Bend : Scale);
}
void CountsCalls(OpRegistration& op) {
  op.set_attr<FMutateInputs>("FMutateInputs", [](const NodeAttrs&) { return std::vector<uint32_t>{3}; });
}

GLUOND_REGISTER_OP_NAMED(t_own_weigh, "t_own_weigh")
    .with(Matrices<3>)
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .set_attr<FAbsorbAffine>("FAbsorbAffine", [](const Node& node, const Affine& affine, int, DType) {
      const std::vector<NodeEntry>& in = node.inputs;
      return MakeNode("t_own_weigh", node.name(), {in[0], in[1] * affine.scale, in[2] * affine.scale + affine.shift}).node;
    });
GLUOND_REGISTER_OP_NAMED(t_own_scale, "t_own_scale")
    .with(Matrices<4>)
    .with(CountsCalls)
    .set_attr<FAffine>("FAffine", [](const Node& node, DType dtype) {
      return Affine{node.inputs[0], -1, node.inputs[1], node.inputs[2], dtype};
    });
GLUOND_REGISTER_OP_NAMED(t_own_bend, "t_own_bend").with(Matrices<1>).set_attr<TBatchInputs>("TBatchInputs", 1);

GLUOND_REGISTER_OP_NAMED(t_twin_weigh, "t_twin_weigh").with(Matrices<3>);
GLUOND_REGISTER_OP_NAMED(t_twin_scale, "t_twin_scale").with(Matrices<4>).with(CountsCalls);
GLUOND_REGISTER_OP_NAMED(t_twin_bend, "t_twin_bend").with(Matrices<1>);

class OwnOperatorsTest : public testing::Test {
 protected:
  using Names = absl::flat_hash_set<std::string>;

  // `kind`: "own" or "twin".
  static Graph Of(const std::string& kind) {
    const auto call = [&](const std::string& what, std::vector<NodeEntry> inputs) {
      return MakeNode("t_" + kind + "_" + what, what, std::move(inputs));
    };
    const NodeEntry weighed = call("weigh", {MakeVariable("x"), MakeVariable("weight"), MakeVariable("bias")});
    const NodeEntry scaled = call("scale", {weighed, MakeVariable("scales"), MakeVariable("shifts"), MakeVariable("count")});
    return {{call("bend", {call("bend", {scaled})})}};
  }
  static Names ConstantsOf(const Graph& graph) { return UnwrittenBy(graph, {"weight", "bias", "scales", "shifts", "count"}); }

  static Unit Compiled(const Graph& graph, bool is_train = false) {
    const auto constants = is_train ? nullptr : std::make_shared<const Names>(ConstantsOf(graph));
    Unit unit(graph, kInputs, {.is_train = is_train, .constants = constants});
    EXPECT_EQ(RunPasses(Stage::kPlan, {}, &unit), absl::OkStatus());
    return unit;
  }
  // In their order, without those for constants.
  static std::vector<std::string> Operators(Unit& unit) {
    std::vector<std::string> operators;
    for (uint32_t id = 0; id < unit.indexed().num_nodes(); ++id) {
      const Node& node = *unit.indexed()[id].node;
      if (!node.is_variable() && !unit.computes_constants()[id]) operators.push_back(node.op()->name());
    }
    return operators;
  }

  // Runs the graph twice. *written: the names of the variables that it says it writes.
  std::vector<float> Values(const Graph& graph, bool is_train, std::vector<std::string>* written) {
    ExecutorOptions options = {.is_train = is_train, .left_out = {}};
    if (!is_train) options.constants = std::make_shared<const Names>(ConstantsOf(graph));
    const std::unique_ptr<Executor> executor = *Executor::Compile(graph, kInputs, options, *lane_, *allocator_);
    std::vector<Tensor> inputs, results;
    for (const Executor::Variable& variable : executor->inputs()) {
      inputs.push_back(*Tensor::Empty(*allocator_, variable.shape, variable.dtype));
      for (int64_t i = 0; i < variable.shape.Size(); ++i) {
        inputs.back().data<float>()[i] = static_cast<float>((i * 7 + variable.name[1]) % 11 - 5);
      }
      if (variable.mutated) written->push_back(variable.name);
    }
    const auto constants = std::make_shared<ConstantTensors>(allocator_);
    for (int i = 0; i < 2; ++i) {
      gluond::Run run = executor->NewRun();
      run.inputs = inputs;
      constants->BeginRun();
      for (size_t k = 0; k < inputs.size() && !is_train; ++k) {
        if (options.constants->contains(executor->inputs()[k].name)) constants->Add(inputs[k]);
      }
      if (!is_train) run.constants = constants;
      EXPECT_EQ(executor->RunAndWait(std::move(run), &results), absl::OkStatus());
    }
    return {results[0].data<float>(), results[0].data<float>() + results[0].Size()};
  }

  static inline const Signatures kInputs = {{"x", {{64, 2048}, DType::kFloat32}}};
  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("the test", int64_t{1} << 26, "--none");
  const std::shared_ptr<DeviceAllocator> allocator_ = *DeviceAllocator::Create(Device(), budget_);
  const std::shared_ptr<Lane> lane_ = *Lane::Create(Device(), {.threads = 2}, *allocator_);
};

TEST_F(OwnOperatorsTest, AScaleIsFoldedAndRowsAreCut) {
  Unit own = Compiled(Of("own"));
  EXPECT_THAT(Operators(own), ElementsAre("t_own_weigh", "t_own_bend", "t_own_bend"));
  EXPECT_EQ(own.num_constants(), 2u) << "its weight and its bias";
  ASSERT_EQ(own.chains.size(), 1u);
  EXPECT_EQ(own.chains[0].last - own.chains[0].first, 3u);
  EXPECT_GT(own.chains[0].chunks, 1);
}

TEST_F(OwnOperatorsTest, TwinsWithoutFactsAndTrainingStayAsTheyAre) {
  Unit twin = Compiled(Of("twin"));
  EXPECT_THAT(Operators(twin), ElementsAre("t_twin_weigh", "t_twin_scale", "t_twin_bend", "t_twin_bend"));
  EXPECT_EQ(twin.num_constants(), 0u);
  EXPECT_TRUE(twin.chains.empty());
  Unit training = Compiled(Of("own"), /*is_train=*/true);
  EXPECT_THAT(Operators(training), ElementsAre("t_own_weigh", "t_own_scale", "t_own_bend", "t_own_bend"));
  EXPECT_TRUE(training.chains.empty());
}

// The numbers are small and whole: no rounding.
TEST_F(OwnOperatorsTest, ValuesAreTheTwins) {
  std::vector<std::string> by_own, by_twin, in_training;
  const std::vector<float> values = Values(Of("own"), false, &by_own);
  EXPECT_EQ(values, Values(Of("twin"), false, &by_twin));
  EXPECT_EQ(values, Values(Of("own"), true, &in_training));
  EXPECT_THAT(values, testing::Contains(testing::Gt(100)));
  // FAffine says that a prediction writes nothing, too.
  EXPECT_THAT(by_own, ElementsAre());
  EXPECT_THAT(by_twin, ElementsAre("count"));
  EXPECT_THAT(in_training, ElementsAre("count"));
}

}  // namespace
}  // namespace gluond
