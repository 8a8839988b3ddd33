// Steps that are computed a few rows at a time give what they give whole.

#include "engine/runtime/row_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"
#include "tests/engine/compile/all_passes.h"

namespace gluond {
namespace {

template <class T>
T OrDie(absl::StatusOr<T> value) {
  return std::move(value).value();
}

NodeEntry Convolve(const std::string& name, const NodeEntry& x, int filters, const std::string& pad = "(1,1)") {
  return MakeNode("Convolution", name, {x, MakeVariable(name + "_weight"), MakeVariable(name + "_bias")},
                  {{"kernel", "(3,3)"}, {"num_filter", std::to_string(filters)}, {"pad", pad}});
}
NodeEntry Relu(const std::string& name, const NodeEntry& x) { return MakeNode("Activation", name, {x}, {{"act_type", "relu"}}); }
NodeEntry Pool(const std::string& name, const NodeEntry& x) {
  return MakeNode("Pooling", name, {x}, {{"kernel", "(2,2)"}, {"stride", "(2,2)"}, {"pool_type", "max"}});
}
NodeEntry Dense(const std::string& name, const NodeEntry& x, int units) {
  return MakeNode("FullyConnected", name, {x, MakeVariable(name + "_weight"), MakeVariable(name + "_bias")},
                  {{"num_hidden", std::to_string(units)}});
}

class RowChainTest : public testing::Test {
 protected:
  const AllPasses all_passes_;

  std::shared_ptr<Lane> LaneOf(int threads) { return OrDie(Lane::Create({}, {.threads = threads}, *allocator_)); }

  std::unique_ptr<Program> Compile(const std::vector<NodeEntry>& outputs, const Shape& data, bool is_train = false) {
    return OrDie(Program::Compile(Graph{outputs}, {{"data", {data, DType::kFloat32}}}, {.is_train = is_train}, *lane_, *allocator_,
                                  /*arena=*/nullptr));
  }

  // The outputs for numbers that depend on the inputs' names and shapes only, each added to ones or written.
  std::vector<std::vector<float>> Values(const std::vector<NodeEntry>& outputs, const Shape& data, bool is_train, Lane& lane,
                                         OpReqType req = kWriteTo) {
    const auto executor =
        OrDie(Executor::Compile(Graph{outputs}, {{"data", {data, DType::kFloat32}}}, {.is_train = is_train}, lane, *allocator_));
    std::vector<std::vector<float>> values;
    for (int i = 0; i < 2; ++i) {  // The second run has the scratch space that the first one has asked for.
      gluond::Run run = executor->NewRun();
      for (size_t k = 0; k < executor->inputs().size(); ++k) {
        run.inputs[k] = Numbers(executor->inputs()[k].shape, static_cast<float>(k));
      }
      for (size_t k = 0; k < outputs.size(); ++k) {
        run.outputs[k] = Numbers(executor->outputs()[k].shape, 7);
        run.output_reqs.push_back(req);
      }
      std::vector<Tensor> results;
      const absl::Status status = executor->RunAndWait(std::move(run), &results);
      EXPECT_TRUE(status.ok()) << status;
      values.clear();
      for (const Tensor& result : results) {
        values.emplace_back(result.data<float>(), result.data<float>() + result.shape().Size());
      }
    }
    return values;
  }

  // That the outputs by rows are near those of whole steps, which training has, and the same for one thread and three.
  void ExpectTheSame(const std::vector<NodeEntry>& outputs, const Shape& data, OpReqType req = kWriteTo) {
    const auto want = Values(outputs, data, true, *lane_, req), got = Values(outputs, data, false, *lane_, req);
    for (size_t k = 0; k < outputs.size(); ++k) {
      ASSERT_EQ(got[k].size(), want[k].size());
      for (size_t i = 0; i < want[k].size(); ++i) {
        ASSERT_NEAR(got[k][i], want[k][i], 1e-5 * (1 + std::abs(want[k][i]))) << "output " << k << ", element " << i;
      }
    }
    for (const int threads : {1, 3}) EXPECT_EQ(Values(outputs, data, false, *LaneOf(threads), req), got) << threads;
  }

  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("the test", int64_t{1} << 30, "--max_tensor_bytes");
  std::unique_ptr<DeviceAllocator> allocator_ = OrDie(DeviceAllocator::Create(Device(), budget_));
  std::shared_ptr<Lane> lane_ = LaneOf(2);
  const NodeEntry data_ = MakeVariable("data");

 private:
  Tensor Numbers(const Shape& shape, float seed) {
    Tensor tensor = OrDie(Tensor::Empty(*allocator_, shape, DType::kFloat32));
    for (int64_t i = 0; i < shape.Size(); ++i) tensor.data<float>()[i] = std::sin(static_cast<float>(i) + 10 * seed);
    return tensor;
  }
};

TEST_F(RowChainTest, AConvolutionalNetworkIsOneChainUpToItsDenseLayer) {
  NodeEntry y = data_;
  for (const char* name : {"a", "b"}) y = Pool(std::string(name) + "p", Relu(std::string(name) + "r", Convolve(name, y, 24)));
  const std::vector<NodeEntry> outputs = {Dense("d", y, 10)};
  for (const int64_t rows : {1, 2, 3, 14, 33, 200}) {
    SCOPED_TRACE(rows);
    const Shape data = {rows, 3, 24, 24};
    const auto program = Compile(outputs, data);
    ASSERT_EQ(program->chains.size(), rows < 4 ? 0u : 1u);
    if (rows >= 4) {
      const RowChain& chain = program->chains[0];
      EXPECT_EQ(chain.last - chain.first, 6u);
      EXPECT_GT(chain.chunks, 1);
      EXPECT_LE(chain.chunks, rows);
      EXPECT_TRUE(Compile(outputs, data, true)->chains.empty());
    }
    ExpectTheSame(outputs, data);
  }
}

TEST_F(RowChainTest, AChainOfManySmallStepsIsNoMoreChunksThanAShortOne) {
  NodeEntry y = data_;
  for (int i = 0; i < 8000; ++i) y = MakeNode("tanh", "t", {y});
  for (const RowChain& chain : Compile({y}, {64, 4})->chains) EXPECT_LE(chain.chunks, 1);
  NodeEntry large = data_;
  for (int i = 0; i < 8; ++i) large = MakeNode("tanh", "t", {large});
  ASSERT_EQ(Compile({large}, {64, 16 << 10})->chains.size(), 1u);
  EXPECT_EQ(Compile({large}, {64, 16 << 10})->chains[0].chunks, 64);
}

TEST_F(RowChainTest, WhatOthersReadLiesWhereTheyLook) {
  const NodeEntry first = Relu("r", Convolve("a", data_, 16));
  const NodeEntry second = MakeNode("elemwise_add", "sum", {Convolve("b", first, 16), first});
  const NodeEntry third = MakeNode("tanh", "t", {second});
  const NodeEntry later = Dense("d", second, 5);  // It is no part of the chain.
  for (const OpReqType req : {kWriteTo, kAddTo}) {
    ExpectTheSame({third, first, later}, {9, 4, 20, 20}, req);
    ExpectTheSame({third}, {9, 4, 20, 20}, req);
    ExpectTheSame({later}, {9, 4, 20, 20}, req);
    ExpectTheSame({second, second}, {9, 4, 20, 20}, req);
  }
}

TEST_F(RowChainTest, BetweenStepsThatTakeBatchesWhole) {
  const auto flat = [](const std::string& name, const NodeEntry& x, const std::string& shape) {
    return MakeNode("Reshape", name, {x}, {{"shape", shape}});
  };
  NodeEntry y = flat("image", Dense("d", data_, 2 * 32 * 32), "(0,2,32,32)");
  y = Relu("r", Convolve("a", Pool("p", Relu("q", y)), 8));
  ExpectTheSame({Dense("e", y, 6)}, {40, 11});
  ExpectTheSame({Dense("e", flat("f", y, "(-1,64)"), 6)}, {40, 11});  // Its rows are others.
  ExpectTheSame({y, MakeNode("sum", "s", {y}, {{"axis", "0"}})}, {40, 11});
}

TEST_F(RowChainTest, AnOutputInTheInputsMemory) {
  const NodeEntry y = MakeNode("tanh", "t", {Relu("r", data_)});
  const Shape shape = {64, 100, 40};
  ASSERT_EQ(Compile({y}, shape)->chains.size(), 1u);
  const auto executor = OrDie(Executor::Compile(Graph{{y}}, {{"data", {shape, DType::kFloat32}}}, {}, *lane_, *allocator_));
  Tensor tensor = OrDie(Tensor::Empty(*allocator_, shape, DType::kFloat32));
  for (int64_t i = 0; i < shape.Size(); ++i) tensor.data<float>()[i] = static_cast<float>(i % 7 - 3);
  gluond::Run run = executor->NewRun();
  run.inputs[0] = run.outputs[0] = tensor;
  ASSERT_EQ(executor->RunAndWait(std::move(run), nullptr), absl::OkStatus());
  for (int64_t i = 0; i < shape.Size(); ++i) {
    ASSERT_NEAR(tensor.data<float>()[i], std::tanh(std::max<float>(0, static_cast<float>(i % 7 - 3))), 1e-6) << i;
  }
}

TEST_F(RowChainTest, MemoryThatOverlapsIsSeen) {
  const auto program = Compile({Pool("p", Relu("r", Convolve("a", data_, 8)))}, {32, 3, 24, 24});
  ASSERT_EQ(program->chains.size(), 1u);
  const RowChain& chain = program->chains[0];
  TBlob &in = program->ins[program->steps[chain.first].first_in], &out = program->outs[program->steps[chain.last - 1].first_out];
  std::vector<float> memory(1 << 20);
  in.data = memory.data();
  out.data = in.dptr<float>() + in.Size();
  EXPECT_TRUE(MayComputeByRows(*program, chain, false));
  out.data = in.dptr<float>() + in.Size() - 1;
  EXPECT_FALSE(MayComputeByRows(*program, chain, false));
  out.data = in.data;  // Rows of the output are smaller.
  EXPECT_FALSE(MayComputeByRows(*program, chain, false));
}

TEST_F(RowChainTest, ACancelledRunEndsBetweenChunks) {
  const auto program = Compile({MakeNode("tanh", "t", {Relu("r", data_)})}, {64, 100, 400});
  ASSERT_EQ(program->chains.size(), 1u);
  std::vector<float> memory(64 * 100 * 400, 0.5f), result(memory.size());
  program->ins[0].data = memory.data();
  program->outs.back().data = result.data();
  const auto cancellation = std::make_shared<Cancellation>();
  uint32_t failed = 0;
  lane_->Post([&] {
    OpContext context = lane_->NewContext(false);
    lane_->LendScratch(&context);
    context.threads = nullptr;
    RowChain& chain = program->chains[0];
    std::vector<char> space(ChunkSpace(chain) + 64);
    EXPECT_EQ(ComputeByRows(program.get(), context, 1, space.data(), &chain, cancellation.get(), &failed), absl::OkStatus());
    EXPECT_EQ(result.back(), std::tanh(0.5f));
    cancellation->Cancel();
    result.front() = 7;
    EXPECT_EQ(ComputeByRows(program.get(), context, 1, space.data(), &chain, cancellation.get(), &failed).code(),
              absl::StatusCode::kCancelled);
    EXPECT_EQ(result.front(), 7);
  });
  std::promise<void> done;
  lane_->Post([&] { done.set_value(); });
  done.get_future().wait();
}

TEST_F(RowChainTest, LargeFiltersAreToBeConstant) {
  const auto program = Compile({Relu("r", Convolve("b", Convolve("a", data_, 64), 64))}, {32, 3, 24, 24});
  ASSERT_EQ(program->chains.size(), 1u);
  EXPECT_FALSE(MayComputeByRows(*program, program->chains[0], false));
  EXPECT_TRUE(MayComputeByRows(*program, program->chains[0], true));
}

TEST_F(RowChainTest, AFailureNamesItsStep) {
  const NodeEntry y = MakeNode("tanh", "t", {Relu("the one that fails", Convolve("a", data_, 8))});
  const Shape shape = {32, 3, 24, 24};
  const auto small = std::make_shared<Budget>("the test", int64_t{3} << 20, "--max_tensor_bytes");
  const auto allocator = OrDie(DeviceAllocator::Create(Device(), small));
  const auto lane = OrDie(Lane::Create({}, {.threads = 2}, *allocator));
  const auto executor = Executor::Compile(Graph{{y}}, {{"data", {shape, DType::kFloat32}}}, {}, *lane, *allocator_);
  ASSERT_TRUE(executor.ok()) << executor.status();
  gluond::Run run = (*executor)->NewRun();
  for (size_t k = 0; k < run.inputs.size(); ++k) {
    run.inputs[k] = OrDie(Tensor::Empty(*allocator_, (*executor)->inputs()[k].shape, DType::kFloat32));
    std::memset(run.inputs[k].data(), 0, run.inputs[k].bytes());
  }
  const Tensor taken = OrDie(Tensor::Empty(*allocator, Shape{(3 << 18) - 1000}, DType::kFloat32));
  const absl::Status status = (*executor)->RunAndWait(std::move(run), nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("Error in operator a"));
}

}  // namespace
}  // namespace gluond
