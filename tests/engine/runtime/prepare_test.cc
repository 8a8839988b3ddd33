// Kernels that take long to make are there before their program runs, are paid for, and go with the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/kernel_cache.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/passes/gradient.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/cancellation_scope.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"
#include "tests/engine/compile/all_passes.h"

namespace gluond {
namespace {

using testing::HasSubstr;

template <class T>
T OrDie(absl::StatusOr<T> value) {
  return std::move(value).value();
}

// Memory that counts what is charged: values that caches keep.
class CountedCharges final : public Allocator {
 public:
  explicit CountedCharges(Allocator& memory) : memory_(memory) {}
  Device device() const override { return memory_.device(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override { return memory_.Allocate(bytes); }
  absl::StatusOr<std::shared_ptr<Buffer>> Charge(size_t bytes) override {
    return charges++ >= most ? absl::ResourceExhaustedError("no charges") : memory_.Charge(bytes);
  }
  std::atomic<int> charges = 0;
  int most = std::numeric_limits<int>::max();

 private:
  Allocator& memory_;
};

// t_fails_to_prepare: a kernel whose preparation fails.
struct FailsToPrepare {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext&, absl::Span<const TBlob>, absl::Span<const OpReqType>,
                          absl::Span<const TBlob>) {
    return absl::OkStatus();
  }
  static absl::Status Prepare(const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType>,
                              absl::Span<const TBlob> out) {
    EXPECT_EQ(in[0].data, nullptr);
    EXPECT_EQ(out[0].shape, in[0].shape);
    return status;
  }
  static inline absl::Status status = absl::UnimplementedError("the library has no code for it");
};
GLUOND_REGISTER_OP(t_fails_to_prepare)
    .describe("For this test.")
    .add_argument("data", "NDArray", "Anything.")
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             (*out)[0] = (*in)[0];
                             return (*in)[0].known();
                           })
    .compute<FailsToPrepare>();

class PrepareTest : public testing::Test {
 protected:
  const AllPasses all_passes_;

  std::unique_ptr<Executor> Compile(const std::vector<NodeEntry>& outputs, const Shape& data, bool is_train) {
    return OrDie(Executor::Compile(Graph{outputs}, {{"data", {data, DType::kFloat32}}}, {.is_train = is_train}, *lane_, memory_));
  }
  // The values for numbers that depend on the inputs' shapes only. `constant`: the name of an input that stays the same.
  std::vector<std::vector<float>> Run(Executor& executor, const std::string& constant = "") {
    gluond::Run run = executor.NewRun();
    for (size_t k = 0; k < run.inputs.size(); ++k) {
      run.inputs[k] = OrDie(Tensor::Empty(*allocator_, executor.inputs()[k].shape, DType::kFloat32));
      for (int64_t i = 0; i < run.inputs[k].Size(); ++i) run.inputs[k].data<float>()[i] = static_cast<float>(i % 7) - 3;
      if (executor.inputs()[k].name == constant) {
        run.constants = std::make_shared<ConstantTensors>(std::vector<Tensor>{run.inputs[k]},
                                                          OrDie(DeviceAllocator::Create(Device(), budget_)));
      }
    }
    std::vector<Tensor> results;
    const absl::Status status = executor.RunAndWait(std::move(run), &results);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::vector<float>> values;
    for (const Tensor& result : results) values.emplace_back(result.data<float>(), result.data<float>() + result.Size());
    return values;
  }

  NodeEntry Layer(const std::string& op, const std::string& name, const NodeEntry& x, AttrDict attrs) {
    return MakeNode(op, name, {x, MakeVariable(name + "_weight"), MakeVariable(name + "_bias")}, attrs);
  }
  // The network has convolutions of images, in groups and turned round, a dense layer, products, attention and recurrent layers.
  std::vector<NodeEntry> Network() {
    NodeEntry y = Layer("Convolution", "a", data_, {{"kernel", "(3,3)"}, {"num_filter", "16"}, {"pad", "(1,1)"}});
    y = MakeNode("Activation", "relu", {y}, {{"act_type", "relu"}});
    y = Layer("Convolution", "b", y, {{"kernel", "(3,3)"}, {"num_filter", "16"}, {"num_group", "16"}});
    y = Layer("Deconvolution", "c", y, {{"kernel", "(2,2)"}, {"num_filter", "8"}, {"stride", "(2,2)"}, {"no_bias", "False"}});
    const NodeEntry dense = Layer("FullyConnected", "d", y, {{"num_hidden", "40"}});
    return {dense,
            MakeNode("dot", "e", {dense, MakeVariable("e_weight", {{"__shape__", "(40,24)"}})}),
            MakeNode("dot", "g", {dense, dense}, {{"transpose_b", "True"}}),
            MakeNode("batch_dot", "f", {y, y}, {{"transpose_b", "True"}}),
            Attention(),
            Recurrent()};
  }

  // 144 places in as many sequences as the data has rows, each of two heads of 20.
  NodeEntry Attention() {
    const NodeEntry x =
        MakeNode("tile", "long", {MakeNode("transpose", "turned", {Places()}, {{"axes", "(1,0,2)"}})}, {{"reps", "(1,1,40)"}});
    const AttrDict heads = {{"heads", "2"}};
    const NodeEntry scores = MakeNode("_contrib_interleaved_matmul_selfatt_qk", "scores", {x}, heads);
    return MakeNode("_contrib_interleaved_matmul_selfatt_valatt", "values", {x, scores}, heads);
  }
  NodeEntry Recurrent() {
    const NodeEntry zeros = MakeNode("_zeros", "state", {}, {{"shape", "(4,144,8)"}});
    const NodeEntry y = MakeNode("RNN", "r", {Places(), MakeVariable("r_weight"), zeros},
                                 {{"mode", "rnn_tanh"}, {"state_size", "8"}, {"num_layers", "2"}, {"bidirectional", "True"}});
    return y;
  }
  // (rows, 144, 3): the data's pixels one after the other.
  NodeEntry Places() {
    return MakeNode("Reshape", "places", {MakeNode("transpose", "last", {data_}, {{"axes", "(0,2,3,1)"}})},
                    {{"shape", "(0,-3,0)"}});
  }

  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("the test", int64_t{1} << 30, "--max_tensor_bytes");
  std::unique_ptr<DeviceAllocator> allocator_ = OrDie(DeviceAllocator::Create(Device(), budget_));
  CountedCharges memory_{*allocator_};
  std::shared_ptr<Lane> lane_ = OrDie(Lane::Create({}, {.threads = 2}, *allocator_));
  const NodeEntry data_ = MakeVariable("data");
};

TEST_F(PrepareTest, RegistryIsRight) { EXPECT_EQ(CheckRegistry(), absl::OkStatus()); }

TEST_F(PrepareTest, APredictionFindsEverything) {
  for (const int64_t rows : {1, 3, 37}) {  // The last ones are computed in chunks, by two threads.
    SCOPED_TRACE(rows);
    const int before = memory_.charges;
    const auto executor = Compile(Network(), {rows, 3, 12, 12}, /*is_train=*/false);
    const int prepared = memory_.charges;
    EXPECT_GT(prepared - before, 3);
    const auto first = Run(*executor);
    EXPECT_EQ(memory_.charges, prepared) << "a kernel was made during the run";
    EXPECT_EQ(Run(*executor), first);
  }
}

TEST_F(PrepareTest, AProductKnowsWhetherItsSecondMatrixIsAConstant) {
  const NodeEntry dense = Layer("FullyConnected", "d", data_, {{"num_hidden", "40"}});
  const NodeEntry square = MakeNode("dot", "g", {dense, dense}, {{"transpose_b", "True"}});
  const absl::flat_hash_set<std::string> constants = {"d_weight"};
  const auto executor =
      OrDie(Executor::Compile({{dense, square}}, {{"data", {{37, 24}, DType::kFloat32}}},
                              {.constants = std::make_shared<const absl::flat_hash_set<std::string>>(constants)}, *lane_, memory_));
  const int prepared = memory_.charges;
  EXPECT_GT(prepared, 0) << "of data";
  Run(*executor, "d_weight");
  EXPECT_EQ(memory_.charges, prepared) << "a kernel was made during the run";
}

TEST_F(PrepareTest, AStepFindsEverything) {
  const std::vector<NodeEntry> ys = Network();
  std::vector<NodeEntry> xs = {data_}, outputs = ys;
  for (const char* name :
       {"a_weight", "a_bias", "b_weight", "b_bias", "c_weight", "c_bias", "d_weight", "d_bias", "e_weight", "r_weight"}) {
    PostOrderVisit(ys, [&](const NodePtr& node) {
      if (node->is_variable() && node->name() == name) xs.push_back({node, 0});
    });
  }
  const Gradients gradients = OrDie(BuildGradient(ys, xs, Gradients(ys.size())));
  outputs.insert(outputs.end(), gradients.begin(), gradients.end());
  const auto executor = Compile(outputs, {5, 3, 12, 12}, /*is_train=*/true);
  const int prepared = memory_.charges;
  EXPECT_GT(prepared, 12);
  const auto first = Run(*executor);
  EXPECT_EQ(memory_.charges, prepared) << "a kernel was made during the run";
  EXPECT_EQ(Run(*executor), first);
}

TEST_F(PrepareTest, AGradientThatIsAddedFindsItsOwnKernel) {
  const NodeEntry y = MakeNode("dot", "y", {data_, MakeVariable("w", {{"__shape__", "(40,24)"}})});
  const NodeEntry w = y.node->inputs[1];
  const std::vector<NodeEntry> outputs = OrDie(BuildGradient({y}, {w}, Gradients(1)));
  const auto executor =
      OrDie(Executor::Compile(Graph{outputs}, {{"data", {{37, 40}, DType::kFloat32}}},
                              {.is_train = true, .added = std::make_shared<const std::vector<bool>>(1, true)}, *lane_, memory_));
  const int prepared = memory_.charges;
  gluond::Run run = executor->NewRun();
  for (size_t k = 0; k < run.inputs.size(); ++k) {
    run.inputs[k] = OrDie(Tensor::Empty(*allocator_, executor->inputs()[k].shape, DType::kFloat32));
    std::fill_n(run.inputs[k].data<float>(), run.inputs[k].Size(), 1.0f);
  }
  run.outputs[0] = OrDie(Tensor::Empty(*allocator_, executor->outputs()[0].shape, DType::kFloat32));
  std::fill_n(run.outputs[0].data<float>(), run.outputs[0].Size(), 2.0f);
  const Tensor sum = run.outputs[0];
  run.output_reqs = {kAddTo};
  const absl::Status status = executor->RunAndWait(std::move(run), nullptr);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(sum.data<float>()[0], 39.0f) << "37 rows, and 2";
  EXPECT_EQ(memory_.charges, prepared) << "a kernel was made during the run";
}

TEST_F(PrepareTest, WhatIsKeptGoesWithTheProgram) {
  const int64_t before = budget_->used();
  auto executor = Compile(Network(), {4, 3, 12, 12}, /*is_train=*/true);
  EXPECT_GT(budget_->used() - before, executor->arena_bytes() + (32 << 10));
  executor = nullptr;
  EXPECT_EQ(budget_->used(), before);
}

// A budget that has room for the program and for none of its kernels.
TEST_F(PrepareTest, AFullBudgetsKernelsServeOneCallEach) {
  const auto want = Run(*Compile(Network(), {4, 3, 12, 12}, /*is_train=*/true));
  const int64_t others = budget_->used();
  absl::StatusOr<std::unique_ptr<Executor>> executor = absl::UnknownError("not compiled yet");
  for (int n = 0; !executor.ok(); ++n) {
    memory_.most = memory_.charges + n;
    executor =
        Executor::Compile(Graph{Network()}, {{"data", {{4, 3, 12, 12}, DType::kFloat32}}}, {.is_train = true}, *lane_, memory_);
    ASSERT_TRUE(executor.ok() || absl::IsResourceExhausted(executor.status())) << executor.status();
    ASSERT_LT(n, 5) << "the program's own charges are few";
  }
  EXPECT_EQ(budget_->used() - others, (*executor)->own_bytes()) << "no kernel is kept";
  for (int i = 0; i < 2; ++i) {
    const int before = memory_.charges;
    EXPECT_EQ(Run(**executor), want);
    EXPECT_GT(memory_.charges, before) << "each run makes them anew";
  }
}

TEST_F(PrepareTest, WhatCannotBePreparedIsForTheRunToTell) {
  const auto executor = Compile({MakeNode("t_fails_to_prepare", "poor", {data_})}, {3}, /*is_train=*/false);
  EXPECT_EQ(Run(*executor).size(), 1u);
}

TEST_F(PrepareTest, AnyOtherErrorOfAPreparationIsTheCompilations) {
  const absl::Status before = std::exchange(FailsToPrepare::status, absl::InternalError("the library is broken"));
  const absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Compile(
      Graph{{MakeNode("t_fails_to_prepare", "poor", {data_})}}, {{"data", {{3}, DType::kFloat32}}}, {}, *lane_, memory_);
  FailsToPrepare::status = before;
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(executor.status().message()), HasSubstr("poor"));
  EXPECT_THAT(std::string(executor.status().message()), HasSubstr("the library is broken"));
}

TEST_F(PrepareTest, NobodyPreparesForACallThatIsCancelled) {
  Cancellation cancellation;
  cancellation.Cancel();
  const CancellationScope scope(&cancellation);
  // Less than the passes' own work between two questions.
  const auto executor =
      Executor::Compile(Graph{{Network()[0]}}, {{"data", {{2, 3, 12, 12}, DType::kFloat32}}}, {}, *lane_, memory_);
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(memory_.charges, 0);
}

}  // namespace
}  // namespace gluond
