// Gradients of what was recorded: what they are. tape_test.cc has what the tape keeps for them, and when it is gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/engine/imperative/imperative_bench.h"

namespace gluond {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pointwise;
using testing::SizeIs;

class AutogradTest : public RecordingTest {};

// By a value that waits, by unequal head gradients, and by a graph of the gradient's own.
TEST_F(AutogradTest, IsTheSameBesideTheLane) {
  std::vector<std::vector<std::vector<float>>> found;
  for (const bool beside : {false, true}) {
    bench_.beside = beside;
    bench_.backward_options = {};
    std::vector<std::vector<float>>& values = found.emplace_back();
    const Array x = Marked({0.5, -1, 2}), head = bench_.Of({1, 2, 3});
    const auto network = [&] {
      Array y = x;
      for (int i = 0; i < 50; ++i) y = Call("tanh", Call("elemwise_add", y, x));
      return y;
    };
    values.push_back(bench_.Values(bench_.Grad({network()}, {x}, {head})[0]));
    values.push_back(bench_.Values(bench_.Backward({network()}, {Call("square", head)}).at(1)));
    bench_.backward_options.create_graph = true;
    const Array first = bench_.Grad({network()}, {x}, {head})[0];
    bench_.backward_options = {};
    values.push_back(bench_.Values(bench_.Grad({first}, {x}, {head})[0]));
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_THAT(found[0][2], testing::Not(Contains(0)));
}

// A small network: dense, tanh, dense, softmax cross-entropy, with every operator's gradient behind it.
TEST_F(AutogradTest, AgreesWithFiniteDifferences) {
  const std::vector<float> x = {0.5, -1, 2, 0.1, 0.7, -0.3};
  std::vector<std::vector<float>> parameters = {{0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 0.2, 0.1, 0.3},
                                                {0.1, 0.2, -0.3, 0.1},
                                                {0.3, -0.1, 0.2, 0.5, -0.4, 0.2, 0.6, -0.3},
                                                {0.05, -0.05}};
  const std::vector<Shape> shapes = {{4, 3}, {4}, {2, 4}, {2}};
  const auto loss = [&](std::vector<Array>* variables) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      variables->push_back(bench_.Marked(bench_.Of(parameters[i], shapes[i]), i + 1));
    }
    const std::vector<Array>& p = *variables;
    const Array data = bench_.Of(x, {2, 3});
    const Array h = Call("tanh", bench_.Call("FullyConnected", {{"num_hidden", "4"}}, data, p[0], p[1]));
    const Array y = bench_.Call("FullyConnected", {{"num_hidden", "2"}}, h, p[2], p[3]);
    const Array picked = bench_.Call("pick", {}, Call("log_softmax", y), bench_.Of({1, 0}));
    return Call("negative", Call("sum", picked));
  };
  std::vector<Array> variables;
  auto gradients = bench_.Backward({loss(&variables)});
  ASSERT_THAT(gradients, SizeIs(4));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<float> gradient = bench_.Values(gradients[i + 1]);
    ASSERT_EQ(gradient.size(), parameters[i].size());
    for (size_t k = 0; k < parameters[i].size(); ++k) {
      const float at = parameters[i][k], step = 1e-2f;
      const auto moved = [&](float by) {
        parameters[i][k] = at + by;
        std::vector<Array> unused;
        const float value = bench_.Values(loss(&unused))[0];
        parameters[i][k] = at;
        return value;
      };
      EXPECT_NEAR(gradient[k], (moved(step) - moved(-step)) / (2 * step), 2e-3) << i << ", " << k;
    }
  }
}

TEST_F(AutogradTest, HeadGradientsWeighHeads) {
  const Array x = Marked({1, 2});
  const Array y = Call("square", x), z = Times(x, 5);
  bench_.backward_options.retain_graph = true;
  EXPECT_THAT(Grad(y, x), ElementsAre(2, 4)) << "ones by default";
  EXPECT_THAT(bench_.Values(bench_.Grad({y}, {x}, {bench_.Of({10, 1})})[0]), ElementsAre(20, 4));
  EXPECT_THAT(bench_.Values(bench_.Grad({y, z}, {x})[0]), ElementsAre(7, 9));
  EXPECT_THAT(bench_.Values(bench_.Grad({y, z}, {x}, {{}, bench_.Of({0, 1})})[0]), ElementsAre(2, 9));
  EXPECT_THAT(bench_.Values(bench_.Grad({y, y}, {x})[0]), ElementsAre(4, 8)) << "twice the same head";
  EXPECT_THAT(bench_.Values(bench_.Grad({y}, {x}, {y})[0]), ElementsAre(2, 16)) << "an array of the tape";
}

TEST_F(AutogradTest, AHeadGradientHasItsHeadsShape) {
  const Array x = Marked({1, 2});
  bench_.backward_options.retain_graph = true;
  EXPECT_EQ(bench_.BackwardStatus({Times(x, 5)}, {x}, {bench_.Of({1})}).code(), absl::StatusCode::kInvalidArgument);
  const Array slow = Call("t_wait", x);
  const Array gradient = bench_.Grad({Times(slow, 2)}, {x}, {bench_.Of({1})})[0];
  WaitingCalls::Get().Next().Complete();
  EXPECT_THAT(bench_.Status(gradient).message(), HasSubstr("head gradient"));
}

TEST_F(AutogradTest, DifferentiatesByIntermediateVariables) {
  const Array x = Marked({3});
  const Array h = Call("square", x);
  const Array y = Call("square", h);
  bench_.backward_options.retain_graph = true;
  const std::vector<Array> gradients = bench_.Grad({y}, {h, x});
  EXPECT_THAT(bench_.Values(gradients[0]), ElementsAre(18));
  EXPECT_THAT(bench_.Values(gradients[1]), ElementsAre(108));
  EXPECT_THAT(Grad(y, y), ElementsAre(1));
}

// No operator on the way has kept its value.
TEST_F(AutogradTest, ZerosWhereTheGradientStops) {
  const Array x = Marked({3, 4});
  const Array h = Times(x, 2);
  const Array y = Call("elemwise_add", Call("BlockGrad", h), Times(x, 3));
  EXPECT_THAT(bench_.Values(bench_.Grad({y}, {h})[0]), ElementsAre(0, 0));
}

// Losses have gradients of their own, whatever comes from above: also nothing.
TEST_F(AutogradTest, ALossBehindABlockHasItsGradient) {
  const std::vector<std::pair<std::string, AttrDict>> losses = {{"SoftmaxOutput", {}},
                                                                {"LinearRegressionOutput", {}},
                                                                {"LogisticRegressionOutput", {}},
                                                                {"MAERegressionOutput", {}},
                                                                {"SVMOutput", {}},
                                                                {"MakeLoss", {{"grad_scale", "3"}}},
                                                                {"make_loss", {}}};
  for (const auto& [op, attrs] : losses) {
    const bool has_label = absl::EndsWith(op, "Output"), has_class = op == "SoftmaxOutput" || op == "SVMOutput";
    const Array x = bench_.Marked(bench_.Of({1, 2, 3, 0.5f, 1, -1}, {2, 3}));
    const Array label = has_class ? bench_.Of({2, 0}) : bench_.Of({2, 0, 1, 1, 1, 3}, {2, 3});
    const auto loss = [&] { return has_label ? bench_.Call(op, attrs, x, label) : bench_.Call(op, attrs, x); };
    const std::vector<float> own = Grad(loss(), x);
    EXPECT_THAT(own, Contains(testing::Ne(0))) << op;
    EXPECT_EQ(Grad(Call("BlockGrad", loss()), x), own) << op;
    EXPECT_EQ(Grad(Call("BlockGrad", Times(loss(), 5)), x), own) << op;
    std::vector<float> more = own;
    for (float& g : more) g += 2;
    EXPECT_EQ(Grad(Call("elemwise_add", Call("BlockGrad", loss()), Times(x, 2)), x), more) << op;
  }
  const Array x = bench_.Marked(bench_.Of({1, 2}, {1, 2}));
  const Array y = bench_.Call("SoftmaxOutput", {{"out_grad", "True"}}, x, bench_.Of({1}));
  EXPECT_THAT(Grad(Call("BlockGrad", y), x), ElementsAre(0, 0)) << "this one's gradient comes from above";
}

TEST_F(AutogradTest, OutputsWithoutAGradientCountAsZeros) {
  const Array x = Marked({1, 2, 3, 4});
  const auto parts = bench_.Outputs("SliceChannel", {{"num_outputs", "2"}, {"axis", "0"}}, {x});
  EXPECT_THAT(Grad(Call("square", parts[1]), x), ElementsAre(0, 0, 6, 8));
}

TEST_F(AutogradTest, SumsOverTheValuesOfOneArray) {
  const Array x = Marked({2});
  Array later = bench_.Of({5});
  later.mark = x.mark;  // The same array with another value.
  auto gradients = bench_.Backward({Call("elemwise_add", Call("square", x), Call("square", later))});
  ASSERT_THAT(gradients, SizeIs(1));
  EXPECT_THAT(bench_.Values(gradients[1]), ElementsAre(4 + 10));
}

TEST_F(AutogradTest, RecordsOnlyWhereAGradientIsWanted) {
  EXPECT_FALSE(Call("square", bench_.Of({1})).entry);
  EXPECT_TRUE(Call("square", Marked({1})).entry);
  bench_.options.recording = false;
  EXPECT_FALSE(Call("square", Marked({1})).entry);
}

TEST_F(AutogradTest, SaysWhatCannotBeDifferentiated) {
  const Array x = Marked({1}), other = Marked({1});
  bench_.backward_options.retain_graph = true;
  EXPECT_THAT(bench_.BackwardStatus({bench_.Of({1})}).message(), HasSubstr(kNotRecorded));
  EXPECT_FALSE(bench_.BackwardStatus({}).ok());
  const absl::Status status = bench_.BackwardStatus({Call("square", x)}, {x, other});
  EXPECT_THAT(status.message(), HasSubstr("2-th variable"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const Array best = bench_.Call("one_hot", {{"depth", "2"}}, x);
  if (bench_.Status(best).ok()) (void)bench_.BackwardStatus({best}, {x});
}

TEST_F(AutogradTest, AFailedValueFailsItsGradients) {
  const Array x = Marked({1, 2});
  const Array y = Call("square", Call("elemwise_add", x, bench_.Of({1, 2, 3})));
  const Array gradient = Grad1(y, x);
  EXPECT_THAT(bench_.Status(gradient).message(), HasSubstr("elemwise_add"));
}

// Whatever the head gradient is: the gradient's operators trust shapes that the forward pass has accepted.
TEST_F(AutogradTest, AFailedHeadFailsItsGradients) {
  const Array x = bench_.Marked(bench_.Of({1, 2, 3}, {3, 1})), indices = bench_.Of({0, 7});
  bench_.backward_options.retain_graph = true;
  const Array y = Call("batch_take", x, indices);
  const Array gradient = bench_.Grad({y}, {x}, {bench_.Of({1, 1, 1, 1, 1})})[0];
  EXPECT_THAT(bench_.Status(gradient).message(), HasSubstr("batch_take"));
  const Array slow = Call("elemwise_add", Call("t_wait", x), indices);
  const Array later = bench_.Grad({slow}, {x}, {bench_.Of({1})})[0];
  WaitingCalls::Get().Next().Complete();
  EXPECT_THAT(bench_.Status(later).message(), HasSubstr("elemwise_add"));
}

TEST_F(AutogradTest, WaitsForValues) {
  const Array x = Marked({3});
  const Array slow = Call("t_wait", x);
  const Array gradient = Grad1(Call("square", slow), x);
  WaitingCalls::Get().Next().Complete();
  WaitingCalls::Get().Next().Complete();  // The gradient's.
  EXPECT_THAT(bench_.Values(gradient), ElementsAre(2 * 6 * 2));
}

TEST_F(AutogradTest, CompilesGradientsThatWaitOnce) {
  const Array x = Marked({3});
  const PreparedOpPtr wait = *PrepareOp("t_wait", {}, 1);
  for (int i = 0; i < 5; ++i) {
    const Array y = bench_.OnLane([&] { return bench_.imperative().Invoke(wait, {x}, bench_.options).outputs[0]; });
    const Array gradient = Grad1(y, x);
    for (int k = 0; k < 2; ++k) WaitingCalls::Get().Next().Complete();
    EXPECT_THAT(bench_.Values(gradient), ElementsAre(2));
  }
  EXPECT_EQ(bench_.OnLane([&] { return bench_.scheduler().num_compiled(); }), 2) << "forward and backward";
}

// Gradients of gradients.

TEST_F(AutogradTest, DifferentiatesAgain) {
  bench_.backward_options.create_graph = true;
  const Array x = Marked({0.5, -2});
  Array d = Call("sin", x);
  for (const auto& f : std::vector<std::function<float(float)>>{
           [](float v) { return std::cos(v); }, [](float v) { return -std::sin(v); }, [](float v) { return -std::cos(v); }}) {
    d = Grad1(d, x);
    EXPECT_THAT(bench_.Values(d), Pointwise(FloatNear(1e-5f), {f(0.5f), f(-2)}));
  }
  d = Call("exp", x);
  for (int i = 0; i < 3; ++i) {
    d = Grad1(d, x);
    EXPECT_THAT(bench_.Values(d), Pointwise(FloatNear(1e-4f), {std::exp(0.5f), std::exp(-2.0f)}));
  }
  d = Call("elemwise_mul", x, Call("square", x));
  d = Grad1(d, x);
  EXPECT_THAT(bench_.Values(d), ElementsAre(0.75f, 12));
  d = Grad1(d, x);
  EXPECT_THAT(bench_.Values(d), ElementsAre(3, -12));
  d = Grad1(d, x);
  EXPECT_THAT(bench_.Values(d), ElementsAre(6, 6));
}

// The gradient of |dy/dx|^2 by the weight of a dense layer with tanh, as a penalty on gradients wants it.
TEST_F(AutogradTest, DifferentiatesTheGradientOfALayer) {
  const std::vector<float> x = {0.3, -0.7}, w = {0.5, -0.4, 0.2, 0.9};
  const auto penalty = [&](const std::vector<float>& weight, Array* variable) {
    *variable = bench_.Marked(bench_.Of(weight, {2, 2}));
    const Array data = bench_.Marked(bench_.Of(x, {1, 2}), 2);
    bench_.backward_options.create_graph = true;
    const AttrDict attrs = {{"num_hidden", "2"}, {"no_bias", "True"}};
    const Array y = Call("sum", Call("tanh", bench_.Call("FullyConnected", attrs, data, *variable)));
    return Call("sum", Call("square", Grad1(y, data)));
  };
  Array variable;
  const Array loss = penalty(w, &variable);
  bench_.backward_options = {};
  const std::vector<float> gradient = Grad(loss, variable);
  for (size_t i = 0; i < w.size(); ++i) {
    std::vector<float> up = w, down = w;
    up[i] += 1e-2f, down[i] -= 1e-2f;
    Array unused;
    const float difference = bench_.Values(penalty(up, &unused))[0] - bench_.Values(penalty(down, &unused))[0];
    EXPECT_NEAR(gradient[i], difference / 2e-2f, 1e-3) << i;
  }
}

// The gradient of a linear function does not depend on its variable; that of this gradient is zeros.
TEST_F(AutogradTest, DifferentiatesTheGradientOfALinearFunction) {
  for (const auto& [op, attrs] : std::vector<std::pair<std::string, AttrDict>>{{"radians", {}},
                                                                               {"_mul_scalar", {{"scalar", "2"}}},
                                                                               {"sum", {}},
                                                                               {"_copy", {}},
                                                                               {"relu", {}},
                                                                               {"floor", {}},
                                                                               {"Reshape", {{"shape", "(2, 1)"}}},
                                                                               {"BlockGrad", {}},
                                                                               {"make_loss", {}}}) {
    const Array x = Marked({3, -4});
    bench_.backward_options.create_graph = true;
    const Array d = Grad1(bench_.Call(op, attrs, x), x);
    EXPECT_THAT(bench_.Values(Grad1(d, x)), ElementsAre(0, 0)) << op;
    bench_.backward_options.create_graph = false;
    auto gradients = bench_.Backward({Call("elemwise_add", Call("square", d), x)});
    EXPECT_THAT(bench_.Values(gradients[1]), ElementsAre(1, 1)) << op;
    bench_.backward_options.create_graph = true;
    const Array again = Grad1(bench_.Call(op, attrs, x), x);
    bench_.backward_options.create_graph = false;
    EXPECT_THAT(bench_.Values(bench_.Backward({again})[1]), ElementsAre(0, 0)) << op;
  }
}

TEST_F(AutogradTest, DifferentiatesTheGradientOfAnIntermediateLinearFunction) {
  const Array x = Marked({3, -4});
  const Array h = Times(x, 2);
  bench_.backward_options.create_graph = true;
  const Array d = Grad1(Times(h, 5), h);
  EXPECT_THAT(bench_.Values(d), ElementsAre(5, 5));
  bench_.backward_options.create_graph = false;
  EXPECT_THAT(bench_.Values(bench_.Backward({d})[1]), ElementsAre(0, 0));
}

TEST_F(AutogradTest, AGradientsHistoryIsNotItsHeads) {
  const Array x = Marked({0.5});
  const Array y = Call("sin", x);
  bench_.backward_options.create_graph = true;
  const Array d = Grad1(y, x);
  bench_.backward_options.create_graph = false;
  EXPECT_THAT(Grad(d, x), ElementsAre(FloatNear(-std::sin(0.5f), 1e-6f)));
  EXPECT_THAT(Grad(y, x), ElementsAre(FloatNear(std::cos(0.5f), 1e-6f)));
}

// A head gradient with a history of its own, which the heads know nothing of.
TEST_F(AutogradTest, DifferentiatesByHeadGradients) {
  bench_.backward_options.create_graph = true;
  const Array x = Marked({3}), a = Marked({5}, 2);
  const Array head = Call("square", a);
  const Array d = bench_.Grad({Call("square", x)}, {x}, {head})[0];  // 2 x a^2.
  EXPECT_THAT(bench_.Values(d), ElementsAre(150));
  bench_.backward_options.create_graph = false;
  auto gradients = bench_.Backward({d});
  EXPECT_THAT(bench_.Values(gradients[1]), ElementsAre(50));
  EXPECT_THAT(bench_.Values(gradients[2]), ElementsAre(60));
}

// Operators with something of their own.

TEST_F(AutogradTest, DropoutsMaskIsTheSameBackward) {
  const Array x = Marked(std::vector<float>(200, 1));
  const Array y = bench_.Call("Dropout", {{"p", "0.5"}}, x);
  const std::vector<float> forward = bench_.Values(y);
  EXPECT_THAT(forward, testing::Contains(0));
  EXPECT_THAT(forward, testing::Contains(2));
  EXPECT_EQ(Grad(y, x), forward);
}

// The gradient is dy times the mask, and the mask does not depend on x.
TEST_F(AutogradTest, DifferentiatesDropoutAgain) {
  for (const char* axes : {"()", "(0,)"}) {
    const Array x = Marked({1, 2}), w = Marked({3, 4}, 2);
    const Array y = Call("square", bench_.Call("Dropout", {{"mode", "always"}, {"axes", axes}}, Call("elemwise_mul", x, w)));
    bench_.backward_options.create_graph = true;
    const Array dx = Grad1(y, x);
    bench_.backward_options.create_graph = false;
    const std::vector<float> dw = Grad(dx, w);  // d/dw of 2 m^2 x w^2.
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(dw[i] == 0 || dw[i] == 4 * 4 * (i + 1.0f) * (i + 3.0f)) << dw[i];
  }
}

TEST_F(AutogradTest, DifferentiatesTheGradientOfDropoutAlone) {
  const Array x = Marked({1, 2});
  bench_.backward_options.create_graph = true;
  const Array dx = Grad1(bench_.Call("Dropout", {{"mode", "always"}}, x), x);
  bench_.backward_options.create_graph = false;
  EXPECT_THAT(Grad(dx, x), ElementsAre(0, 0));
}

TEST_F(AutogradTest, BatchNormUpdatesItsStatesOnce) {
  const Array x = bench_.Marked(bench_.Of({1, 3}, {2, 1}));
  const Array one = bench_.Marked(bench_.Of({1}), 2), zero = bench_.Marked(bench_.Of({0}), 3);
  std::vector<std::pair<uint32_t, ValuePtr>> written;
  const Array y = bench_.Outputs("BatchNorm", {{"momentum", "0.5"}, {"fix_gamma", "False"}},
                                 {x, one, zero, bench_.Of({0}), bench_.Of({1})}, &written)[0];
  EXPECT_THAT(bench_.Values(written[0].second), ElementsAre(1));
  auto gradients = bench_.Backward({y}, {bench_.Of({1, 3}, {2, 1})});
  EXPECT_THAT(bench_.Values(written[0].second), ElementsAre(1));
  EXPECT_THAT(bench_.Values(gradients[1]), Each(FloatNear(0, 1e-2f)));
  EXPECT_THAT(bench_.Values(gradients[2])[0], FloatNear(2, 1e-2f));
  EXPECT_THAT(bench_.Values(gradients[3]), ElementsAre(4));
}

// What was recorded in predict mode took the running means, which do not depend on x: whatever mode backward says, so does
// its gradient.
TEST_F(AutogradTest, AGradientHasTheModeOfItsCall) {
  const AttrDict attrs = {{"eps", "0"}, {"fix_gamma", "False"}};
  const std::vector<std::string> names = {"x", "gamma", "beta", "mean", "var"};
  std::vector<NodeEntry> variables;
  for (const std::string& name : names) variables.push_back(MakeVariable(name));
  Graph batch_norm;
  batch_norm.outputs = {MakeNode("BatchNorm", "bn", variables, attrs)};
  const auto graph = *CachedGraph::Create(std::move(batch_norm), names);
  for (const bool recorded : {false, true}) {
    for (const bool backward : {false, true}) {
      for (const bool is_graph : {false, true}) {
        bench_.options.training = recorded;
        bench_.backward_options.training = backward;
        const Array x = bench_.Marked(bench_.Of({1, 3}, {2, 1}));
        std::vector<Array> inputs = {x, bench_.Of({1}), bench_.Of({0}), bench_.Of({0}), bench_.Of({1})};
        const Array y = is_graph ? bench_.Graph(*graph, inputs)[0] : bench_.Outputs("BatchNorm", attrs, inputs)[0];
        const auto dx = bench_.Values(bench_.Backward({y}, {bench_.Of({1, 0}, {2, 1})}).at(1));
        if (recorded) {  // Both elements are at the distance 1 from their mean: no direction changes y.
          EXPECT_THAT(dx, Each(FloatNear(0, 1e-5f))) << backward << is_graph;
        } else {
          EXPECT_THAT(dx, ElementsAre(1, 0)) << backward << is_graph;
        }
      }
    }
  }
}

// History goes with the value from one device to another, and the gradient comes back.
TEST_F(AutogradTest, FollowsCopiesBetweenDevices) {
  const Array x = Marked({3});
  const Array h = Call("square", x);
  const Array there = bench_.OnLane([&] {
    Imperative::Options options;
    options.recording = true;
    return bench_.imperative().CopyTo(h, {DeviceType::kCpu, 1}, options);
  });
  const Array y = Call("square", there);
  EXPECT_THAT(bench_.Values(y), ElementsAre(81));
  EXPECT_EQ(y.value->tensor().device(), (Device{DeviceType::kCpu, 1}));
  const Array gradient = Grad1(y, x);
  EXPECT_THAT(bench_.Values(gradient), ElementsAre(2 * 9 * 6));
  EXPECT_EQ(gradient.value->tensor().device(), Device());
}

}  // namespace
}  // namespace gluond
