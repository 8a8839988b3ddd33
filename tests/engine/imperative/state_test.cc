// What calls write of their inputs, as custom operators do: the gradient reads it as it is then, and may write it too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/elementwise.h"
#include "engine/core/graph.h"
#include "engine/core/op.h"
#include "tests/engine/imperative/imperative_bench.h"

namespace gluond {
namespace {

using testing::ElementsAre;

// y = x; state += x. Backward: dx = state dy; state += 100. Of one element each.
absl::Status Forward(const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType>,
                     absl::Span<const TBlob> out) {
  const float x = in[0].dptr<float>()[0];
  in[1].dptr<float>()[0] += x;
  out[0].dptr<float>()[0] = x;
  return absl::OkStatus();
}

absl::Status Backward(const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType>,
                      absl::Span<const TBlob> out) {
  out[0].dptr<float>()[0] = in[1].dptr<float>()[0] * in[0].dptr<float>()[0];
  in[1].dptr<float>()[0] += 100;
  return absl::OkStatus();
}

std::vector<uint32_t> Second(const NodeAttrs&) { return {1}; }

GLUOND_REGISTER_OP(t_tally)
    .describe("See above.")
    .set_num_inputs(2)
    .set_attr<FMutateInputs>("FMutateInputs", Second)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<2, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {MakeNode("t_tally_backward", "backward", {dy[0], node->inputs[1]}), {}};
                         })
    .set_attr<FCompute>("FCompute<cpu>", Forward);

GLUOND_REGISTER_OP(t_tally_backward)
    .describe("See above.")
    .set_num_inputs(2)
    .set_attr<FMutateInputs>("FMutateInputs", Second)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<2, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)
    .set_attr<FCompute>("FCompute<cpu>", Backward);

// The calls, op by op and as a graph.
class StateTest : public testing::TestWithParam<bool> {
 protected:
  StateTest() {
    const NodeEntry x = MakeVariable("x"), state = MakeVariable("state");
    absl::StatusOr<std::shared_ptr<CachedGraph>> graph =
        CachedGraph::Create({{MakeNode("t_tally", "t_tally", {x, state})}}, {"x", "state"});
    EXPECT_TRUE(graph.ok()) << graph.status();
    graph_ = *graph;
    state_.state = 7;
  }

  Array Tally(const Array& x) {
    std::vector<std::pair<uint32_t, ValuePtr>> written;
    std::vector<Array> y =
        GetParam() ? bench_.Graph(*graph_, {x, state_}, &written) : bench_.Outputs("t_tally", {}, {x, state_}, &written);
    state_.value = written.at(0).second;
    return y.at(0);
  }
  void FindState() {
    bench_.backward_options.find_state = [this](uint64_t name) { return name == 7 ? &state_ : nullptr; };
  }

  ImperativeBench bench_;
  std::shared_ptr<CachedGraph> graph_;
  Array state_ = bench_.Of({0});
  Array x_ = bench_.Marked(bench_.Of({3}));
};

TEST_P(StateTest, GradientsReadWhatTheCallHasWritten) {
  const Array y = Tally(x_);
  EXPECT_THAT(bench_.Values(bench_.Backward({y}).at(1)), ElementsAre(3));
  EXPECT_THAT(bench_.Values(state_), ElementsAre(3)) << "nobody has said where it is";
}

TEST_P(StateTest, GradientsReadAndWriteStatesAsTheyAreThen) {
  FindState();
  const Array y = Tally(x_), z = Tally(x_), before = state_;
  EXPECT_THAT(bench_.Values(bench_.Backward({y}).at(1)), ElementsAre(6));
  EXPECT_THAT(bench_.Values(state_), ElementsAre(106));
  EXPECT_THAT(bench_.Values(bench_.Backward({z}).at(1)), ElementsAre(106));
  EXPECT_THAT(bench_.Values(state_), ElementsAre(206));
  EXPECT_THAT(bench_.Values(before), ElementsAre(6)) << "who holds the old value keeps it";
}

TEST_P(StateTest, AStateThatIsGoneIsAsTheCallLeftIt) {
  const Array y = Tally(x_);
  Tally(x_);
  bench_.backward_options.find_state = [](uint64_t) -> Array* { return nullptr; };
  EXPECT_THAT(bench_.Values(bench_.Backward({y}).at(1)), ElementsAre(3));
}

TEST_P(StateTest, AFailedStateFailsTheGradient) {
  FindState();
  const Array y = Tally(x_);
  bench_.OnLane([this] { state_.value = bench_.scheduler().Failed(absl::DataLossError("lost"), 1); });
  EXPECT_EQ(bench_.Status(bench_.Backward({y}).at(1)).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(bench_.Status(state_).code(), absl::StatusCode::kDataLoss);
}

INSTANTIATE_TEST_SUITE_P(Calls, StateTest, testing::Bool(), [](const auto& info) { return info.param ? "Graph" : "Operator"; });

}  // namespace
}  // namespace gluond
