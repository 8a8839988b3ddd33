// Graphs called like operators: the same values and gradients as op by op, compiled once for each signature.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/graph.h"
#include "tests/engine/compile/all_passes.h"
#include "tests/engine/imperative/imperative_bench.h"

namespace gluond {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pointwise;
using testing::SizeIs;

NodeEntry Apply(const std::string& op, std::vector<NodeEntry> inputs, AttrDict attrs = {}) {
  static int count = 0;
  return MakeNode(op, op + std::to_string(count++), std::move(inputs), std::move(attrs));
}

std::shared_ptr<CachedGraph> Cached(std::vector<NodeEntry> outputs, std::vector<std::string> inputs) {
  absl::StatusOr<std::shared_ptr<CachedGraph>> graph = CachedGraph::Create({std::move(outputs)}, std::move(inputs));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : nullptr;
}

class GraphCallTest : public testing::Test {
 protected:
  Array Marked(const std::vector<float>& values, Shape shape, uint64_t gradient) {
    return bench_.Marked(bench_.Of(values, shape), gradient);
  }
  // tanh(x w^T + b), by a graph.
  static std::shared_ptr<CachedGraph> Dense() {
    const NodeEntry x = MakeVariable("x"), w = MakeVariable("w"), b = MakeVariable("b");
    return Cached({Apply("tanh", {Apply("FullyConnected", {x, w, b}, {{"num_hidden", "2"}})})}, {"x", "w", "b"});
  }
  std::vector<Array> DenseInputs(int rows = 2) {
    std::vector<float> x;
    for (int i = 0; i < 3 * rows; ++i) x.push_back(0.1f * static_cast<float>(i) - 0.3f);
    return {Marked(x, {rows, 3}, 1), Marked({0.5, -0.4, 0.2, 0.9, 0.1, -0.3}, {2, 3}, 2), Marked({0.1, -0.1}, {2}, 3)};
  }
  Array DenseByHand(const std::vector<Array>& inputs) {
    const Array h = bench_.Call("FullyConnected", {{"num_hidden", "2"}}, inputs[0], inputs[1], inputs[2]);
    return bench_.Call("tanh", {}, h);
  }
  void ExpectSame(const std::map<uint64_t, Array>& one, const std::map<uint64_t, Array>& other) {
    ASSERT_EQ(one.size(), other.size());
    for (const auto& [name, gradient] : one) {
      EXPECT_THAT(bench_.Values(gradient), Pointwise(FloatNear(1e-5f), bench_.Values(other.at(name)))) << name;
    }
  }

  ImperativeBench bench_;
};

TEST_F(GraphCallTest, IsTheSameAsOpByOp) {
  const std::vector<Array> inputs = DenseInputs();
  const auto graph = Dense();
  const Array y = bench_.Graph(*graph, inputs)[0], by_hand = DenseByHand(inputs);
  EXPECT_THAT(bench_.Values(y), Pointwise(FloatNear(1e-6f), bench_.Values(by_hand)));
  const Array head = bench_.Of({1, 2, 3, 4}, {2, 2});
  ExpectSame(bench_.Backward({y}, {head}), bench_.Backward({by_hand}, {head}));
}

TEST_F(GraphCallTest, IsRecordedAlsoWhereTheSameCallWasNot) {
  const std::vector<Array> inputs = DenseInputs();
  const auto graph = Dense();
  bench_.options.recording = false;
  bench_.Values(bench_.Graph(*graph, inputs)[0]);
  bench_.options.recording = true;
  ExpectSame(bench_.Backward({bench_.Graph(*graph, inputs)[0]}), bench_.Backward({DenseByHand(inputs)}));
}

TEST_F(GraphCallTest, IsPartOfALongerTape) {
  const std::vector<Array> inputs = DenseInputs();
  const auto graph = Dense();
  const auto loss = [&](const Array& h, bool by_graph) {
    std::vector<Array> all = {h, inputs[1], inputs[2]};
    const Array y = by_graph ? bench_.Graph(*graph, all)[0] : DenseByHand(all);
    return bench_.Call("sum", {}, bench_.Call("square", {}, y));
  };
  const auto h = [&] { return bench_.Call("sin", {}, inputs[0]); };
  ExpectSame(bench_.Backward({loss(h(), true)}), bench_.Backward({loss(h(), false)}));
}

// So that a client that asks for the loss sends its next batch while the gradient is computed.
TEST_F(GraphCallTest, ItsGradientLetsOtherWorkOfTheLanePass) {
  const std::vector<Array> inputs = DenseInputs();
  const auto graph = Dense();
  const auto expected = bench_.Backward({DenseByHand(inputs)});
  for (int i = 0; i < 2; ++i) {  // The first compiles.
    const Array y = bench_.Graph(*graph, inputs)[0];
    bench_.Values(y);
    bool is_known = true;
    const Array gradient = bench_.OnLane([&] {
      const auto gradients = bench_.imperative().Backward({y}, {}, {}, {});
      EXPECT_TRUE(gradients.ok()) << gradients.status();
      is_known = (*gradients)[0].array.value->known();
      return (*gradients)[0].array;
    });
    EXPECT_FALSE(is_known);
    EXPECT_THAT(bench_.Values(gradient), Pointwise(FloatNear(1e-5f), bench_.Values(expected.at(1))));
  }
}

TEST_F(GraphCallTest, GivesTheGradientsThatAreWanted) {
  const auto graph = Dense();
  std::vector<Array> inputs = DenseInputs();
  const auto expected = bench_.Backward({DenseByHand(inputs)});
  for (unsigned subset = 1; subset < 8; ++subset) {
    std::vector<Array> some = inputs;
    for (uint64_t i = 0; i < 3; ++i)
      if ((subset >> i & 1) == 0) some[i].mark = nullptr, some[i].entry = {};
    const auto gradients = bench_.Backward({bench_.Graph(*graph, some)[0]});
    ASSERT_EQ(gradients.size(), static_cast<size_t>(__builtin_popcount(subset)));
    for (const auto& [name, gradient] : gradients) {
      EXPECT_THAT(bench_.Values(gradient), Pointwise(FloatNear(1e-5f), bench_.Values(expected.at(name))));
    }
  }
  for (Array& input : inputs) input.mark = nullptr, input.entry = {};
  EXPECT_FALSE(bench_.Graph(*graph, inputs)[0].entry);
}

TEST_F(GraphCallTest, HasSeveralOutputs) {
  const NodeEntry x = MakeVariable("x");
  const NodeEntry h = Apply("square", {x});
  const auto graph = Cached({h, Apply("sin", {h}), x}, {"x"});
  const Array v = Marked({0.5, 2}, {2}, 1);
  bench_.backward_options.retain_graph = true;
  const std::vector<Array> y = bench_.Graph(*graph, {v});
  ASSERT_THAT(y, SizeIs(3));
  EXPECT_THAT(bench_.Values(bench_.Grad({y[0]}, {v})[0]), ElementsAre(1, 4));
  EXPECT_THAT(bench_.Values(bench_.Grad({y[1]}, {v})[0]), Pointwise(FloatNear(1e-5f), {std::cos(0.25f) * 1, std::cos(4.0f) * 4}));
  EXPECT_THAT(bench_.Values(bench_.Grad({y[2]}, {v})[0]), ElementsAre(1, 1));
  EXPECT_THAT(bench_.Values(bench_.Grad({y[0], y[2]}, {v})[0]), ElementsAre(2, 5));
}

// A loss in a graph has its gradient where nothing flows to the graph, or to the loss in it.
TEST_F(GraphCallTest, ALossHasItsGradientBehindABlock) {
  const NodeEntry x = MakeVariable("x"), label = MakeVariable("label");
  const NodeEntry loss = Apply("SoftmaxOutput", {x, label});
  const auto plain = Cached({loss}, {"x", "label"}), blocked = Cached({Apply("BlockGrad", {loss})}, {"x", "label"});
  const auto beside = Cached({loss, Apply("square", {x})}, {"x", "label"});
  const Array classes = bench_.Of({1});
  const auto input = [&] { return Marked({0, 0}, {1, 2}, 1); };
  const auto gradient = [&](const Array& y) { return bench_.Values(bench_.Backward({y})[1]); };
  EXPECT_THAT(gradient(bench_.Graph(*plain, {input(), classes})[0]), ElementsAre(0.5, -0.5));
  EXPECT_THAT(gradient(bench_.Graph(*blocked, {input(), classes})[0]), ElementsAre(0.5, -0.5));
  EXPECT_THAT(gradient(bench_.Call("BlockGrad", {}, bench_.Graph(*plain, {input(), classes})[0])), ElementsAre(0.5, -0.5));
  // As MXNet's: every output of a graph that is differentiated counts.
  EXPECT_THAT(gradient(bench_.Graph(*beside, {Marked({1, 1}, {1, 2}, 1), classes})[1]), ElementsAre(2.5, 1.5));
}

// Alternating signatures compile nothing again.
TEST_F(GraphCallTest, CompilesOncePerSignature) {
  const auto graph = Dense();
  const auto step = [&](int rows) {
    const std::vector<Array> inputs = DenseInputs(rows);
    for (const auto& [name, gradient] : bench_.Backward({bench_.Graph(*graph, inputs)[0]})) {
      EXPECT_EQ(bench_.Status(gradient), absl::OkStatus());
    }
  };
  const auto compiled = [&] { return bench_.OnLane([&] { return bench_.scheduler().num_compiled(); }); };
  for (int rows = 1; rows <= 3; ++rows) step(rows);
  EXPECT_EQ(compiled(), 3) << "forward and backward are one program";
  for (int i = 0; i < 5; ++i)
    for (int rows = 1; rows <= 3; ++rows) step(rows);
  EXPECT_EQ(compiled(), 3);
}

TEST_F(GraphCallTest, DropoutsMaskIsTheSameBackward) {
  const NodeEntry x = MakeVariable("x");
  const auto graph = Cached({Apply("Dropout", {x}, {{"p", "0.5"}})}, {"x"});
  const Array v = Marked(std::vector<float>(200, 1), {200}, 1);
  const Array y = bench_.Graph(*graph, {v})[0];
  const std::vector<float> forward = bench_.Values(y);
  EXPECT_THAT(forward, testing::Contains(0));
  EXPECT_EQ(bench_.Values(bench_.Backward({y})[1]), forward);
  EXPECT_NE(bench_.Values(bench_.Graph(*graph, {v})[0]), forward) << "another run draws others";
  bench_.OnLane([&] { bench_.imperative().Seed(5); });
  const std::vector<float> first = bench_.Values(bench_.Graph(*graph, {v})[0]);
  bench_.OnLane([&] { bench_.imperative().Seed(5); });
  EXPECT_EQ(bench_.Values(bench_.Graph(*graph, {v})[0]), first);
  bench_.options.training = false;
  EXPECT_THAT(bench_.Values(bench_.Graph(*graph, {v})[0]), Each(1));
}

TEST_F(GraphCallTest, WritesAuxiliaryStates) {
  std::vector<NodeEntry> v;
  const std::vector<std::string> names = {"x", "gamma", "beta", "mean", "var"};
  for (const std::string& name : names) v.push_back(MakeVariable(name));
  const AttrDict attrs = {{"momentum", "0.5"}, {"fix_gamma", "False"}};
  const auto graph = Cached({Apply("BatchNorm", v, attrs)}, names);
  EXPECT_TRUE(graph->is_auxiliary(3));
  EXPECT_FALSE(graph->is_auxiliary(1));
  const Array x = Marked({1, 3}, {2, 1}, 1), gamma = Marked({1}, {1}, 2), beta = Marked({0}, {1}, 3);
  const Array mean = Marked({0}, {1}, 4), var = bench_.Of({1});  // A mark there means nothing.
  std::vector<std::pair<uint32_t, ValuePtr>> written, by_hand;
  const Array y = bench_.Graph(*graph, {x, gamma, beta, mean, var}, &written)[0];
  ASSERT_THAT(written, SizeIs(2));
  EXPECT_THAT(bench_.Values(written[0].second), ElementsAre(1));
  EXPECT_THAT(bench_.Values(mean), ElementsAre(0)) << "who holds the old value keeps it";
  const Array z = bench_.Outputs("BatchNorm", attrs, {x, gamma, beta, mean, var}, &by_hand)[0];
  EXPECT_EQ(bench_.Values(written[1].second), bench_.Values(by_hand[1].second));
  const Array head = bench_.Of({1, 3}, {2, 1});
  const auto of_graph = bench_.Backward({y}, {head}), of_ops = bench_.Backward({z}, {head});
  ExpectSame(of_graph, of_ops);
  EXPECT_THAT(bench_.Values(written[0].second), ElementsAre(1)) << "backward writes none";
}

// An operator that fails behind a BatchNorm takes its running means back, whoever else holds them.
TEST_F(GraphCallTest, AFailureLeavesAuxiliaryStates) {
  std::vector<NodeEntry> v;
  const std::vector<std::string> names = {"x", "gamma", "beta", "mean", "var"};
  for (const std::string& name : names) v.push_back(MakeVariable(name));
  const auto graph = Cached({Apply("t_wait", {Apply("BatchNorm", v, {{"momentum", "0.5"}})})}, names);
  bench_.options.training = true;
  const auto call = [&](const absl::Status& outcome) {
    std::vector<std::pair<uint32_t, ValuePtr>> written;
    const Array y = bench_.Graph(
        *graph, {bench_.Of({1, 3}, {2, 1}), bench_.Of({1}), bench_.Of({0}), bench_.Of({0}), bench_.Of({1})}, &written)[0];
    WaitingCall waiting = WaitingCalls::Get().Next();
    outcome.ok() ? waiting.Complete() : waiting.Fail(outcome);
    EXPECT_EQ(bench_.Status(y).ok(), outcome.ok());
    return bench_.Values(written[0].second);
  };
  EXPECT_THAT(call(absl::UnavailableError("the client has gone")), ElementsAre(0));
  EXPECT_THAT(call(absl::OkStatus()), ElementsAre(1));
}

TEST_F(GraphCallTest, LeavesNothingOnTheTape) {
  const auto graph = Dense();
  int64_t after = 0;
  for (int i = 0; i < 5; ++i) {
    const std::vector<Array> inputs = DenseInputs();
    bench_.Values(bench_.Backward({bench_.Graph(*graph, inputs)[0]})[2]);
    bench_.Settle();
    if (i == 1) after = bench_.used();
    if (i > 1) {
      EXPECT_EQ(bench_.used(), after);
    }
  }
}

TEST_F(GraphCallTest, WaitsForItsInputsAndForOperatorsInIt) {
  const NodeEntry x = MakeVariable("x");
  const auto graph = Cached({Apply("square", {Apply("t_wait", {x})})}, {"x"});
  const Array v = Marked({1}, {1}, 1);
  const Array slow = bench_.Call("t_wait", {}, v);
  const Array y = bench_.Graph(*graph, {slow})[0];
  const auto gradients = bench_.Backward({y});
  EXPECT_FALSE(bench_.IsKnown(y));
  for (int i = 0; i < 4; ++i) WaitingCalls::Get().Next().Complete();  // Two forward, two backward.
  EXPECT_THAT(bench_.Values(y), ElementsAre(16));
  EXPECT_THAT(bench_.Values(gradients.at(1)), ElementsAre(2 * 4 * 4));
  EXPECT_EQ(bench_.pending(), 0);
}

TEST_F(GraphCallTest, RunsElsewhere) {
  const auto graph = Dense();
  std::vector<Array> inputs = DenseInputs(), there;
  for (const Array& input : inputs) {
    there.push_back(bench_.Of(bench_.Values(input), bench_.ShapeOf(input), /*elsewhere=*/true));
  }
  bench_.options.recording = false;
  const Array y = bench_.Graph(*graph, there)[0];
  EXPECT_EQ(bench_.Values(y), bench_.Values(bench_.Graph(*graph, inputs)[0]));
  EXPECT_EQ(y.value->tensor().device(), (Device{DeviceType::kCpu, 1}));
}

TEST_F(GraphCallTest, HasNoHigherOrderGradients) {
  const std::vector<Array> inputs = DenseInputs();
  const auto graph = Dense();
  const Array y = bench_.Graph(*graph, inputs)[0];
  bench_.backward_options.create_graph = true;
  const Array gradient = bench_.Grad({y}, {inputs[0]})[0];
  EXPECT_EQ(bench_.Status(gradient), absl::OkStatus());
  EXPECT_THAT(bench_.BackwardStatus({gradient}, {inputs[1]}).message(),
              HasSubstr("CachedOp does not support higher order gradients"));
}

// It can still be computed.
TEST_F(GraphCallTest, SaysWhichOperatorHasNoGradient) {
  const NodeEntry x = MakeVariable("x");
  const auto graph = Cached({Apply("t_no_gradient", {x})}, {"x"});
  const Array v = Marked({3}, {1}, 1);
  const Array y = bench_.Graph(*graph, {v})[0];
  EXPECT_THAT(bench_.Values(y), ElementsAre(3));
  EXPECT_THAT(bench_.BackwardStatus({y}, {v}).message(), HasSubstr("'t_no_gradient' has no FGradient"));
}

TEST_F(GraphCallTest, SaysWhatIsWrongWhenItRuns) {
  const auto graph = Dense();
  std::vector<Array> inputs = DenseInputs();
  inputs[1] = bench_.Of({1, 2, 3});
  const Array y = bench_.Graph(*graph, inputs)[0];
  EXPECT_EQ(bench_.Status(y).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(bench_.Status(y).message(), HasSubstr("FullyConnected"));
}

TEST_F(GraphCallTest, SaysWhatIsWrongWithTheGraph) {
  const NodeEntry x = MakeVariable("x");
  EXPECT_THAT(CachedGraph::Create({{Apply("square", {x})}}, {}).status().message(), HasSubstr("'x' of the graph is not"));
  EXPECT_THAT(CachedGraph::Create({{Apply("square", {x})}}, {"x", "x"}).status().message(), HasSubstr("twice"));
  EXPECT_THAT(CachedGraph::Create({{Apply("elemwise_add", {x, MakeVariable("x")})}}, {"x"}).status().message(), HasSubstr("'x'"));
  EXPECT_TRUE(CachedGraph::Create({{Apply("square", {x})}}, {"x", "nobody's"}).ok());
}

// A client may call its variables as it likes.
TEST_F(GraphCallTest, NamesOfItsOwnAreNobodyElses) {
  const NodeEntry x = MakeVariable("__saved0"), w = MakeVariable("__head0");
  const NodeEntry sin = Apply("sin", {Apply("elemwise_mul", {x, w})});
  const auto graph = Cached({Apply("elemwise_mul", {sin, w})}, {"__saved0", "__head0"});
  const Array a = Marked({0.5}, {1}, 1), b = Marked({2}, {1}, 2);
  const Array y = bench_.Graph(*graph, {a, b})[0];
  auto gradients = bench_.Backward({y});
  EXPECT_THAT(bench_.Values(gradients[1])[0], FloatNear(std::cos(1.0f) * 4, 1e-5f));
  EXPECT_THAT(bench_.Values(gradients[2])[0], FloatNear(std::cos(1.0f) * 0.5f * 2 + std::sin(1.0f), 1e-5f));
}

// Recorded calls whose gradient has not come yet.
class PausedCallTest : public GraphCallTest {
 protected:
  Array Call(const std::vector<Array>& inputs) { return bench_.Graph(*graph_, inputs)[0]; }
  // Gradients of y, which a dense layer has made, have the same bits as op by op.
  void ExpectGradients(const Array& y, const std::vector<Array>& inputs) {
    const auto gradients = bench_.Backward({y}), by_hand = bench_.Backward({DenseByHand(inputs)});
    ASSERT_EQ(gradients.size(), by_hand.size());
    for (const auto& [name, gradient] : gradients) EXPECT_EQ(bench_.Values(gradient), bench_.Values(by_hand.at(name))) << name;
  }
  int64_t Compiled() {
    return bench_.OnLane([&] { return bench_.scheduler().num_compiled(); });
  }

  const std::shared_ptr<CachedGraph> graph_ = Dense();
};

TEST_F(PausedCallTest, ForwardsTakeTurnsWithBackwards) {
  for (const std::vector<int>& rows : {std::vector<int>{2, 2}, {2, 5}, {5, 2}}) {
    for (const bool last_first : {false, true}) {
      const std::vector<Array> one = DenseInputs(rows[0]), other = DenseInputs(rows[1]);
      const Array y = Call(one);
      bench_.Values(y);  // Calls that begin at once compile a program each.
      const Array z = Call(other);
      ExpectGradients(last_first ? z : y, last_first ? other : one);
      ExpectGradients(last_first ? y : z, last_first ? one : other);
    }
  }
  EXPECT_EQ(Compiled(), 2);
}

// As a recurrent cell's, step by step: a program for all steps.
TEST_F(PausedCallTest, ACellThatIsCalledManyTimesIsCompiledOnce) {
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w");
  const auto cell = Cached({Apply("tanh", {Apply("elemwise_mul", {x, w})})}, {"x", "w"});
  for (int i = 0; i < 2; ++i) {
    const Array begin = Marked({0.5, -0.25}, {2}, 1), weight = Marked({1.5, 0.75}, {2}, 2);
    Array h = begin, by_hand = begin;
    for (int step = 0; step < 50; ++step) {
      h = bench_.Graph(*cell, {h, weight})[0];
      by_hand = bench_.Call("tanh", {}, bench_.Call("elemwise_mul", {}, by_hand, weight));
    }
    ExpectSame(bench_.Backward({h}), bench_.Backward({by_hand}));
  }
  EXPECT_EQ(Compiled(), 1);
}

TEST_F(PausedCallTest, BackwardTwiceTakesARetainedTape) {
  const std::vector<Array> inputs = DenseInputs();
  const Array y = Call(inputs);
  bench_.backward_options.retain_graph = true;
  for (int i = 0; i < 3; ++i) ExpectGradients(y, inputs);
  bench_.backward_options.retain_graph = false;
  ExpectGradients(y, inputs);
  EXPECT_THAT(bench_.BackwardStatus({y}).message(), HasSubstr(kNotRecorded));
}

TEST_F(PausedCallTest, PredictionsAndOtherCallsGoOnMeanwhile) {
  const std::vector<Array> inputs = DenseInputs(), others = DenseInputs(4);
  const Array y = Call(inputs);
  const std::vector<float> values = bench_.Values(y);
  for (const bool training : {false, true}) {
    bench_.options.recording = bench_.options.training = training;
    EXPECT_EQ(bench_.Values(Call(inputs)), values);
    bench_.Values(Call(others));
  }
  EXPECT_EQ(bench_.Values(y), values);
  ExpectGradients(y, inputs);
}

// As trainer.step does between a forward pass and its backward pass.
TEST_F(PausedCallTest, AWeightThatIsSteppedMeanwhileIsTheOldOneForTheGradient) {
  std::vector<Array> inputs = DenseInputs();
  const Array y = Call(inputs), by_hand = DenseByHand(inputs);
  bench_.Values(y);
  const std::vector<float> weights = bench_.Values(inputs[1]);
  bench_.options.recording = false;
  inputs[1] = bench_.Call("sgd_update", {{"lr", "1"}}, std::move(inputs[1]), bench_.Of({1, 1, 1, 1, 1, 1}, {2, 3}));
  EXPECT_FLOAT_EQ(bench_.Values(inputs[1])[0], weights[0] - 1);
  ExpectSame(bench_.Backward({y}), bench_.Backward({by_hand}));
}

TEST_F(PausedCallTest, BackwardAddsToWhatItIsGivenInPredictModeToo) {
  bench_.options.training = false;
  for (int i = 0; i < 2; ++i) {
    const std::vector<Array> inputs = DenseInputs(64);
    ExpectSame(bench_.Backward({Call(inputs)}), bench_.Backward({DenseByHand(inputs)}));
  }
}

// Two passes at once: each has values of its own.
TEST_F(PausedCallTest, RetainedBackwardsThatWaitForAClientDoNotMix) {
  const NodeEntry x = MakeVariable("x");
  const auto graph = Cached({Apply("square", {Apply("t_wait", {x})})}, {"x"});
  const Array v = Marked({3}, {1}, 1);
  const Array y = bench_.Graph(*graph, {v})[0];
  WaitingCalls::Get().Next().Complete();
  bench_.backward_options.retain_graph = true;
  const auto one = bench_.Backward({y}, {bench_.Of({1})}), other = bench_.Backward({y}, {bench_.Of({10})});
  WaitingCall first = WaitingCalls::Get().Next(), second = WaitingCalls::Get().Next();
  second.Complete();
  first.Fail(absl::UnavailableError("the client has gone"));
  const auto third = bench_.Backward({y}, {bench_.Of({100})});
  WaitingCalls::Get().Next().Complete();
  std::vector<absl::StatusCode> codes = {bench_.Status(one.at(1)).code(), bench_.Status(other.at(1)).code()};
  EXPECT_THAT(codes, ElementsAre(absl::StatusCode::kUnavailable, absl::StatusCode::kOk));
  const float gradient = bench_.Values(other.at(1))[0];
  EXPECT_THAT(bench_.Values(third.at(1)), ElementsAre(10 * gradient));
}

TEST_F(PausedCallTest, WhatNobodyDifferentiatesGoesWithItsArrays) {
  const std::vector<Array> inputs = DenseInputs();
  bench_.Values(Call(inputs));
  bench_.Settle();
  const int64_t before = bench_.used();
  {
    std::vector<Array> made;
    for (int i = 0; i < 10; ++i) made.push_back(Call(inputs));
    bench_.Settle();
    EXPECT_GT(bench_.used(), before);
  }
  bench_.Settle();
  EXPECT_EQ(bench_.used(), before);
}

// Ten thousand numbers each: the arena and the output of a call are 80,000 bytes.
class CrowdedTest : public testing::Test {
 protected:
  static constexpr int64_t kBudget = 1'000'000;

  Array Call() { return bench_.Graph(*graph_, {x_})[0]; }
  float Gradient(const Array& y) {
    const auto gradients = bench_.Backward({y});
    EXPECT_EQ(bench_.Status(gradients.at(1)), absl::OkStatus());
    return bench_.Values(gradients.at(1))[0];
  }
  // Leaves no more than `bytes`.
  Array Fill(int64_t bytes) {
    bench_.options.recording = false;
    const Array all = bench_.Call("_zeros", {{"shape", absl::StrCat("(", (kBudget - bytes - bench_.used()) / 4, ",)")}});
    EXPECT_EQ(bench_.Status(all), absl::OkStatus());
    bench_.options.recording = true;
    return all;
  }

  ImperativeBench bench_{kBudget};
  const std::shared_ptr<CachedGraph> graph_ = Cached({Apply("sin", {Apply("square", {MakeVariable("x")})})}, {"x"});
  const Array x_ = bench_.Marked(bench_.Of(std::vector<float>(10'000, 0.5f)));
  const float wanted_ = std::cos(0.25f);
};

TEST_F(CrowdedTest, AThousandCallsThatWaitAreRefusedAndNobodyIsHarmed) {
  std::vector<Array> made;
  absl::Status refused;
  for (int i = 0; i < 1000; ++i) {
    Array y = Call();
    const absl::Status status = bench_.Status(y);
    if (status.ok()) made.push_back(std::move(y));
    refused.Update(status);
  }
  ASSERT_GT(made.size(), 3u);
  EXPECT_LT(made.size(), 20u);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat(made.size(), " recorded calls of graphs keep their memory for backward")));
  EXPECT_THAT(refused.message(), HasSubstr("call backward on what they have made, or free that"));
  made.resize(made.size() - 2);
  bench_.Settle();
  for (const Array& y : made) EXPECT_FLOAT_EQ(Gradient(y), wanted_);
  made.clear();
  EXPECT_FLOAT_EQ(Gradient(Call()), wanted_);
}

TEST_F(CrowdedTest, AGradientThatHasNoRoomToRetainTheTapeChangesNothing) {
  Gradient(Call());
  const Array y = Call();
  bench_.Values(y);
  Array all = Fill(50'000);
  bench_.backward_options.retain_graph = true;
  const absl::Status status = bench_.Status(bench_.Backward({y}).at(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("backward with retain_graph=True"));
  all = Array();
  for (int i = 0; i < 2; ++i) EXPECT_FLOAT_EQ(Gradient(y), wanted_);
}

// Memory that is short ends idle programs, and the gradient's is compiled again.
TEST_F(CrowdedTest, ACallOutlivesItsProgram) {
  const Array y = Call();
  bench_.Values(y);
  const auto compiled = [&] { return bench_.OnLane([&] { return bench_.scheduler().num_compiled(); }); };
  EXPECT_EQ(compiled(), 1);
  bench_.options.recording = false;
  EXPECT_FALSE(bench_.Status(bench_.Call("_zeros", {{"shape", "(1000000,)"}})).ok()) << "more than there is";
  EXPECT_FLOAT_EQ(Gradient(y), wanted_);
  EXPECT_EQ(compiled(), 2);
}

// A dense layer with a norm after it, whose weights are folded and kept by calls that predict.
class KeptGraphTest : public GraphCallTest {
 protected:
  const AllPasses all_passes_;

  KeptGraphTest() {
    std::vector<NodeEntry> inputs;
    for (const char* name : {"x", "w", "b", "gamma", "beta", "mean", "var"}) inputs.push_back(MakeVariable(name));
    const NodeEntry y = Apply("FullyConnected", {inputs[0], inputs[1], inputs[2]}, {{"num_hidden", "2"}});
    const NodeEntry z = Apply("BatchNorm", {y, inputs[3], inputs[4], inputs[5], inputs[6]}, {{"fix_gamma", "False"}});
    graph_ = *CachedGraph::Create({{z}}, {"x", "w", "b", "gamma", "beta", "mean", "var"}, {1, 2, 3, 4, 5, 6});
    unkept_ = *CachedGraph::Create({{z}}, {"x", "w", "b", "gamma", "beta", "mean", "var"});
    bench_.options.recording = false;
    bench_.options.training = false;
    inputs_ = {bench_.Of({0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}, {2, 3}),
               bench_.Of({0.5f, -0.4f, 0.2f, 0.9f, 0.1f, -0.3f}, {2, 3}),
               bench_.Of({0.1f, -0.1f}, {2}),
               bench_.Of({2, 3}, {2}),
               bench_.Of({0.5f, 1}, {2}),
               bench_.Of({0.25f, 0.5f}, {2}),
               bench_.Of({1, 2}, {2})};
  }

  std::vector<float> Predicted() { return bench_.Values(bench_.Graph(*graph_, inputs_)[0]); }
  // Without anything kept, by the same operators.
  std::vector<float> Wanted() { return bench_.Values(bench_.Graph(*unkept_, inputs_)[0]); }

  std::shared_ptr<CachedGraph> graph_, unkept_;
  std::vector<Array> inputs_;
};

TEST_F(KeptGraphTest, CallsHaveTheSameBits) {
  const std::vector<float> first = Predicted();
  EXPECT_THAT(first, Pointwise(FloatNear(1e-5f), Wanted()));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Predicted(), first) << i;
}

TEST_F(KeptGraphTest, EachChangeOfAParameterIsSeen) {
  for (size_t i = 1; i < inputs_.size(); ++i) {
    for (int k = 0; k < 3; ++k) Predicted();
    inputs_[i] = bench_.Call("_mul_scalar", {{"scalar", "1.5"}}, std::move(inputs_[i]));
    EXPECT_THAT(Predicted(), Pointwise(FloatNear(1e-5f), Wanted())) << i;
  }
}

TEST_F(KeptGraphTest, StatesThatTrainingWritesInPlaceAreSeen) {
  for (int i = 0; i < 4; ++i) {
    const std::vector<float> before = Predicted();
    EXPECT_EQ(Predicted(), before);
    bench_.options.training = true;
    std::vector<Array> alone = inputs_;  // The states are the call's alone, which overwrites them.
    inputs_[5] = inputs_[6] = {};
    std::vector<std::pair<uint32_t, ValuePtr>> written;
    bench_.Values(bench_.Graph(*graph_, std::move(alone), &written)[0]);
    for (const auto& [input, value] : written) inputs_[input].value = value;
    bench_.options.training = false;
    EXPECT_NE(Predicted(), before);
    EXPECT_THAT(Predicted(), Pointwise(FloatNear(1e-5f), Wanted()));
  }
}

TEST_F(KeptGraphTest, ArraysThatAreFreedTakeTheirFormsAlong) {
  Predicted();
  const int64_t before = bench_.used();
  for (int i = 0; i < 3; ++i) Predicted();
  EXPECT_GT(bench_.used(), before);
  inputs_.clear();
  bench_.OnLane([&] { bench_.scheduler().DropConstants(); });
  EXPECT_LT(bench_.used(), before);
}

TEST_F(KeptGraphTest, AStateMayBeAnotherInput) {
  inputs_[5] = inputs_[4];  // The mean is the shift.
  EXPECT_THAT(Predicted(), Pointwise(FloatNear(1e-5f), Wanted()));
  const NodeEntry x = MakeVariable("x"), one = MakeVariable("one");
  const NodeEntry norm = Apply("BatchNorm", {x, one, one, one, one});  // Nothing before it takes it in.
  const auto graph = *CachedGraph::Create({{norm}}, {"x", "one"}, {1});
  const Array ones = bench_.Of({1, 1}, {2});
  for (int i = 0; i < 3; ++i) {
    const Array y = bench_.Graph(*graph, {bench_.Of({1, 2, 3, 4}, {2, 2}), ones})[0];
    EXPECT_THAT(bench_.Values(y), Pointwise(FloatNear(1e-2f), std::vector<float>{1, 2, 3, 4}));
  }
}

TEST_F(KeptGraphTest, AnArrayInAnotherShapeIsAnother) {
  const NodeEntry turned = Apply("Reshape", {Apply("transpose", {MakeVariable("w")}) * 2.0}, {{"shape", "(6,)"}});
  const auto graph = *CachedGraph::Create({{MakeVariable("x") + turned}}, {"x", "w"}, {1});
  const Array x = bench_.Of({0, 0, 0, 0, 0, 0}, {6}), w = bench_.Of({1, 2, 3, 4, 5, 6}, {2, 3});
  const Array other = bench_.Call("Reshape", {{"shape", "(3, 2)"}}, w);
  ASSERT_EQ(bench_.Address(other), bench_.Address(w));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(bench_.Values(bench_.Graph(*graph, {x, w})[0]), testing::ElementsAre(2, 8, 4, 10, 6, 12));
    EXPECT_THAT(bench_.Values(bench_.Graph(*graph, {x, other})[0]), testing::ElementsAre(2, 6, 10, 4, 8, 12));
  }
}

TEST_F(KeptGraphTest, DataMarkedAsAParameterIsData) {
  const auto graph = *CachedGraph::Create({{MakeVariable("x") * 2.0 + MakeVariable("w")}}, {"x", "w"}, {0, 1, 1});
  const Array w = bench_.Of({1, 1});
  const int64_t before = bench_.used();
  for (int i = 0; i < 20; ++i) {
    const float value = static_cast<float>(i);
    EXPECT_THAT(bench_.Values(bench_.Graph(*graph, {bench_.Of({value, value}), w})[0]),
                testing::ElementsAre(2 * value + 1, 2 * value + 1));
  }
  EXPECT_LT(bench_.used(), before + 100);
}

TEST_F(KeptGraphTest, ParametersAreInputs) {
  EXPECT_THAT(CachedGraph::Create({{Apply("square", {MakeVariable("x")})}}, {"x"}, {1}).status().message(), HasSubstr("1 inputs"));
}

}  // namespace
}  // namespace gluond
