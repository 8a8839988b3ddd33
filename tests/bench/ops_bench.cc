// What the operators of LeNet's training step cost by themselves, at batch 64: each is called with what its neighbours
// would give it. Take ratios; --benchmark_filter=Pooling runs some.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/runtime/open_mp_threads.h"

namespace gluond {
namespace {

// One block, as a lane's scratch is after the first run.
class OneBlock final : public Scratch {
 public:
  absl::StatusOr<void*> Get(size_t bytes) override {
    const size_t begin = used_;
    used_ += (bytes + 63) / 64 * 64;
    if (used_ > kBytes) return absl::ResourceExhaustedError("scratch");
    return block_.get() + begin;
  }
  void Reset() { used_ = 0; }

 private:
  static constexpr size_t kBytes = size_t{256} << 20;
  struct Free { void operator()(char* p) const { std::free(p); } };
  std::unique_ptr<char, Free> block_{static_cast<char*>(std::aligned_alloc(64, kBytes))};
  size_t used_ = 0;
};

struct Row {
  const char* name;
  const char* op;
  AttrDict attrs;
  std::vector<Shape> inputs;
  bool skip_first_output = false;  // The data's gradient of a first layer.
};

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

void Run(benchmark::State& state, const Row& row) {
  std::vector<NodeEntry> xs;
  for (size_t i = 0; i < row.inputs.size(); ++i) xs.push_back(MakeVariable(absl::StrCat("x", i)));
  const NodePtr node = *TryMakeNode(row.op, "y", xs, row.attrs);
  ShapeVector in_shapes = row.inputs, out_shapes(node->num_outputs());
  TypeVector in_types(in_shapes.size(), DType::kFloat32), out_types(out_shapes.size(), DType::kUnknown);
  if (std::string(row.op) == "_backward_Pooling") in_types[2] = DType::kInt32;
  Check(node->op()
            ->GetAttr<FInferShape>("FInferShape", FInferShape(SameShape))(node->attrs, &in_shapes, &out_shapes)
            .status());
  Check(node->op()
            ->GetAttr<FInferType>("FInferType", FInferType(SameType))(node->attrs, &in_types, &out_types)
            .status());
  std::vector<std::unique_ptr<float[]>> memory;
  std::vector<TBlob> in, out;
  const auto add = [&](std::vector<TBlob>* list, const Shape& shape, DType type) {
    memory.push_back(std::make_unique<float[]>(shape.Size()));
    if (type == DType::kFloat32)
      for (int64_t i = 0; i < shape.Size(); ++i) memory.back()[i] = static_cast<float>(i % 17) / 16;
    list->push_back({memory.back().get(), shape, type, Device()});
  };
  for (size_t i = 0; i < in_shapes.size(); ++i) add(&in, in_shapes[i], in_types[i]);
  for (size_t i = 0; i < out_shapes.size(); ++i) add(&out, out_shapes[i], out_types[i]);
  std::vector<OpReqType> req(out.size(), kWriteTo);
  if (row.skip_first_output) req[0] = kNullOp;
  const OpenMpThreads threads(0);
  const ScopedTeamSize team(threads.count());
  OneBlock scratch;
  OpContext ctx;
  ctx.is_train = true;
  ctx.threads = &threads;
  ctx.scratch = &scratch;
  const FCompute& compute = *node->op()->GetAttr<FCompute>("FCompute<cpu>");
  for (auto _ : state) {
    scratch.Reset();
    Check(compute(node->attrs, ctx, in, req, out));
  }
}

const AttrDict kConv1 = {{"kernel", "(5, 5)"}, {"num_filter", "20"}},
               kConv2 = {{"kernel", "(5, 5)"}, {"num_filter", "50"}};
const AttrDict kPool = {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}}, kRelu = {{"act_type", "relu"}};
const AttrDict kFc1 = {{"num_hidden", "500"}}, kFc2 = {{"num_hidden", "10"}};
const AttrDict kSgd = {{"lr", "0.1"}, {"momentum", "0.9"}, {"rescale_grad", "0.015625"}};
const Shape kImage = {64, 1, 28, 28}, kA = {64, 20, 24, 24}, kB = {64, 20, 12, 12}, kC = {64, 50, 8, 8},
            kD = {64, 50, 4, 4};
const Shape kHidden = {64, 500}, kOut = {64, 10};

const std::vector<Row>& Rows() {
  static const std::vector<Row>& rows = *new std::vector<Row>{
      {"conv1", "Convolution", kConv1, {kImage, {20, 1, 5, 5}, {20}}},
      {"relu1", "Activation", kRelu, {kA}},
      {"pool1", "Pooling", kPool, {kA}},
      {"conv2", "Convolution", kConv2, {kB, {50, 20, 5, 5}, {50}}},
      {"relu2", "Activation", kRelu, {kC}},
      {"pool2", "Pooling", kPool, {kC}},
      {"fc1", "FullyConnected", kFc1, {kD, {500, 800}, {500}}},
      {"relu3", "Activation", kRelu, {kHidden}},
      {"fc2", "FullyConnected", kFc2, {kHidden, {10, 500}, {10}}},
      {"log_softmax", "log_softmax", {}, {kOut}},
      {"back_log_softmax", "_backward_log_softmax", {}, {kOut, kOut}},
      {"back_fc2", "_backward_FullyConnected", kFc2, {kOut, kHidden, {10, 500}}},
      {"back_relu3", "_backward_Activation", kRelu, {kHidden, kHidden}},
      {"back_fc1", "_backward_FullyConnected", kFc1, {kHidden, kD, {500, 800}}},
      {"back_pool2", "_backward_Pooling", kPool, {kD, kC, kD}},
      {"back_relu2", "_backward_Activation", kRelu, {kC, kC}},
      {"back_conv2", "_backward_Convolution", kConv2, {kC, kB, {50, 20, 5, 5}}},
      {"back_pool1", "_backward_Pooling", kPool, {kB, kA, kB}},
      {"back_relu1", "_backward_Activation", kRelu, {kA, kA}},
      {"back_conv1", "_backward_Convolution", kConv1, {kA, kImage, {20, 1, 5, 5}}, true},
      {"sgd_fc1", "sgd_mom_update", kSgd, {{500, 800}, {500, 800}, {500, 800}}},
      {"sum_sq_fc1", "multi_sum_sq", {{"num_arrays", "1"}}, {{500, 800}}},
  };
  return rows;
}

}  // namespace
}  // namespace gluond

int main(int argc, char** argv) {
  gluond::Check(gluond::CheckRegistry());
  for (const gluond::Row& row : gluond::Rows()) {
    benchmark::RegisterBenchmark(row.name, [&row](benchmark::State& state) { gluond::Run(state, row); })
        ->UseRealTime()->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
