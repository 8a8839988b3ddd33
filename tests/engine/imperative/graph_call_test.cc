// Graphs called like operators: the same values and gradients as op by op, compiled once for each signature.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/graph.h"
#include "tests/engine/compile/all_passes.h"
#include "tests/engine/imperative/graph_call_fixture.h"

namespace gluond {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pointwise;
using testing::SizeIs;

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

// So that a client that asks for the loss sends its next batch while a long gradient is computed.
TEST_F(GraphCallTest, ALongGradientLetsOtherWorkOfTheLanePass) {
  const auto graph = Cached({Apply("sin", {Apply("sin", {MakeVariable("x")})})}, {"x"});
  for (const size_t size : {size_t{2}, size_t{1} << 21}) {
    const Array x = Marked(std::vector<float>(size, 0.5f), {static_cast<int64_t>(size)}, 1);
    for (int i = 0; i < 3; ++i) {  // The first compiles.
      const Array y = bench_.Graph(*graph, {x})[0];
      bench_.Values(y);
      bool is_known = true;
      const Array gradient = bench_.OnLane([&] {
        const auto gradients = bench_.imperative().Backward({y}, {}, {}, {});
        EXPECT_TRUE(gradients.ok()) << gradients.status();
        is_known = (*gradients)[0].array.value->known();
        return (*gradients)[0].array;
      });
      EXPECT_TRUE(size == 2 || !is_known) << "it takes milliseconds";
      EXPECT_FLOAT_EQ(bench_.Values(gradient)[0], std::cos(std::sin(0.5f)) * std::cos(0.5f));
    }
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

TEST_F(GraphCallTest, SomebodyPaysForItsGradientAsLongAsAnythingHasIt) {
  std::atomic<int64_t> paid = 0;
  std::atomic<bool> refuses = true;
  const auto pay = [&](int64_t nodes) -> absl::StatusOr<std::shared_ptr<const void>> {
    if (refuses) return absl::ResourceExhaustedError("too much");
    paid += nodes;
    return std::shared_ptr<const void>(&paid, [&paid, nodes](const void*) { paid -= nodes; });
  };
  const auto graph = *CachedGraph::Create({{Apply("sin", {MakeVariable("x")})}}, {"x"}, {}, pay);
  const Array v = Marked({0.5}, {1}, 1);
  Array y = bench_.Graph(*graph, {v})[0];
  EXPECT_THAT(bench_.Values(y), ElementsAre(std::sin(0.5f)));
  const absl::Status refused = bench_.BackwardStatus({y});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  refuses = false;
  y = bench_.Graph(*graph, {v})[0];
  EXPECT_GE(paid, 2);
  const int64_t of_one = paid;
  EXPECT_THAT(bench_.Values(bench_.Backward({y})[1]), ElementsAre(FloatNear(std::cos(0.5f), 1e-6f)));
  y = bench_.Graph(*graph, {v})[0];
  bench_.OnLane([&] { graph->ForgetCalls(); });
  EXPECT_EQ(paid, of_one) << "the tape has it";
  EXPECT_THAT(bench_.Values(bench_.Backward({y})[1]), ElementsAre(FloatNear(std::cos(0.5f), 1e-6f)));
  y = {};
  bench_.Settle();
  EXPECT_EQ(paid, of_one) << "an executor has it";
  bench_.OnLane([&] {
    bench_.imperative().ForgetPlans();
    bench_.scheduler().ForgetExecutors();
  });
  EXPECT_EQ(paid, 0);
}

TEST_F(GraphCallTest, GraphsThatAreDeepOrDenseHaveGradients) {
  NodeEntry deep = MakeVariable("x");
  for (int i = 0; i < 100'000; ++i) deep = Apply("negative", {deep});
  std::vector<NodeEntry> last = {MakeVariable("x")};  // Each mean is of the 64 before it, and is read by 64.
  for (int i = 0; i < 5000; ++i) {
    last.push_back(
        Apply("_mul_scalar", {Apply("add_n", last)}, {{"scalar", absl::StrCat(1.0 / static_cast<double>(last.size()))}}));
    if (last.size() > 64) last.erase(last.begin());
  }
  for (const NodeEntry& y : {deep, last.back()}) {
    const Array x = Marked({2}, {1}, 1);
    const Array value = bench_.Graph(*Cached({y}, {"x"}), {x})[0];
    EXPECT_THAT(bench_.Values(value), ElementsAre(FloatNear(2, 1e-2f)));
    EXPECT_THAT(bench_.Values(bench_.Backward({value}).at(1)), ElementsAre(FloatNear(1, 1e-2f)));
  }
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

// As a model's predictions (predict_test.cc): memory to compile and for a run, and not for what the run would keep.
TEST_F(KeptGraphTest, WithoutMemoryForConstantsACallPredictsTheSame) {
  constexpr int64_t kWidth = 256;
  NodeEntry y = MakeVariable("x");
  std::vector<std::string> names = {"x"};
  std::vector<uint32_t> parameters;
  std::vector<Array> inputs = {bench_.Of(std::vector<float>(2 * kWidth, 0.5f), {2, kWidth})};
  for (int layer = 0; layer < 4; ++layer) {
    std::vector<NodeEntry> entries = {y};
    for (const char* name : {"w", "b", "gamma", "beta", "mean", "var"}) {
      parameters.push_back(static_cast<uint32_t>(names.size()));
      entries.push_back(MakeVariable(names.emplace_back(absl::StrCat(name, layer))));
      const int64_t rows = name[0] == 'w' ? kWidth : 1;
      std::vector<float> values(static_cast<size_t>(rows * kWidth));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = (rows > 1 ? 0.0025f : 0.01f) * static_cast<float>(1 + (i * 7 + layer) % 13);
      inputs.push_back(rows > 1 ? bench_.Of(values, {kWidth, kWidth}) : bench_.Of(values, {kWidth}));
    }
    y = Apply("FullyConnected", {entries[0], entries[1], entries[2]}, {{"num_hidden", absl::StrCat(kWidth)}});
    y = Apply("BatchNorm", {y, entries[3], entries[4], entries[5], entries[6]}, {{"fix_gamma", "False"}});
  }
  const auto graph = *CachedGraph::Create({{y}}, names, parameters), plain = *CachedGraph::Create({{y}}, names);
  const std::vector<float> want = bench_.Values(bench_.Graph(*plain, inputs)[0]);
  const int64_t left = bench_.budget().limit() - bench_.used() - (640 << 10);  // Folded, the four weights take 1 MiB.
  ASSERT_TRUE(bench_.budget().Charge(left).ok());
  for (int i = 0; i < 3; ++i) {
    const Array got = bench_.Graph(*graph, inputs)[0];
    ASSERT_EQ(bench_.failures().size(), 0u) << bench_.failures()[0]->status;
    EXPECT_THAT(bench_.Values(got), Pointwise(FloatNear(1e-3f), want));
  }
  bench_.budget().Refund(left);
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
  int64_t before = 0;
  for (int i = 0; i < 20; ++i) {
    const float value = static_cast<float>(i);
    EXPECT_THAT(bench_.Values(bench_.Graph(*graph, {bench_.Of({value, value}), w})[0]),
                testing::ElementsAre(2 * value + 1, 2 * value + 1));
    if (i == 0) before = bench_.used();  // With the program.
  }
  EXPECT_LT(bench_.used(), before + 100);
}

TEST_F(KeptGraphTest, ParametersAreInputs) {
  EXPECT_THAT(CachedGraph::Create({{Apply("square", {MakeVariable("x")})}}, {"x"}, {1}).status().message(), HasSubstr("1 inputs"));
}

}  // namespace
}  // namespace gluond
