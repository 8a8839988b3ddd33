// The costs of the operators of LeNet's training step by themselves, at batch 64: each is called with the inputs that
// its neighbours would give it. And recurrent layers, two of 256 units over 35 steps of 1 or 20 sequences. Take ratios;
// --benchmark_filter=lstm runs some.

#include <benchmark/benchmark.h>

#include <vector>

#include "tests/bench/op_call.h"

namespace gluond::bench {
namespace {

struct Row {
  const char* name;
  const char* op;
  AttrDict attrs;
  ShapeVector inputs;
  bool skip_first_output = false;  // A first layer has no use for its data's gradient.
};

void Run(benchmark::State& state, const Row& row) {
  OpCall call(row.op, row.attrs, row.inputs);
  if (row.skip_first_output) call.Skip(0);
  for (auto _ : state) call.Run();
}

const AttrDict kConv1 = {{"kernel", "(5, 5)"}, {"num_filter", "20"}}, kConv2 = {{"kernel", "(5, 5)"}, {"num_filter", "50"}};
const AttrDict kPool = {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}}, kRelu = {{"act_type", "relu"}};
const AttrDict kFc1 = {{"num_hidden", "500"}}, kFc2 = {{"num_hidden", "10"}};
const AttrDict kSgd = {{"lr", "0.1"}, {"momentum", "0.9"}, {"rescale_grad", "0.015625"}};
const Shape kImage = {64, 1, 28, 28}, kA = {64, 20, 24, 24}, kB = {64, 20, 12, 12}, kC = {64, 50, 8, 8}, kD = {64, 50, 4, 4};
const Shape kHidden = {64, 500}, kOut = {64, 10};
const AttrDict kLstm = {{"mode", "lstm"}, {"state_size", "256"}, {"num_layers", "2"}};
const AttrDict kGru = {{"mode", "gru"}, {"state_size", "256"}, {"num_layers", "2"}};
// The reserve is a layer's output; gates, states and cells.
const Shape kSteps = {35, 20, 256}, kStates = {2, 20, 256}, kWeights = {4 * 2 * 256 * (256 + 256 + 2)};
const Shape kReserve = {20 * 256 * (35 + 2 * (35 * 4 + 36 + 36))};

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
      {"lstm_of_one", "RNN", kLstm, {{35, 1, 256}}},
      {"gru_of_one", "RNN", kGru, {{35, 1, 256}}},
      {"lstm", "RNN", kLstm, {kSteps}},
      {"gru", "RNN", kGru, {kSteps}},
      {"back_lstm", "_backward_RNN", kLstm, {kSteps, kWeights, kStates, kStates, kReserve, kSteps}},
      {"sum_sq_fc1", "multi_sum_sq", {{"num_arrays", "1"}}, {{500, 800}}},
  };
  return rows;
}

}  // namespace
}  // namespace gluond::bench

int main(int argc, char** argv) {
  gluond::bench::Check(gluond::CheckRegistry());
  for (const gluond::bench::Row& row : gluond::bench::Rows()) {
    benchmark::RegisterBenchmark(row.name, [&row](benchmark::State& state) { gluond::bench::Run(state, row); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
