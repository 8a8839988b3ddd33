// Blocks, layers, losses and parameters of the C++ client against a real server.

#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "gluond/gluond.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

using gluon::Layer;
using gluon::Parameter;

class BlockTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("GLUOND_SERVER", "server/gluond-server", 0);
    session_ = new Session(Session::StartServer().value());
  }
  static void TearDownTestSuite() {
    delete session_;
    session_ = nullptr;
  }
  void SetUp() override { session_->Seed(3); }

  static Session* session_;
};

Session* BlockTest::session_ = nullptr;

using Floats = std::vector<float>;

NDArray Ramp(const Shape& shape) {
  int64_t size = 1;
  for (const int64_t each : shape) size *= each;
  return (NDArray::Arange(0, static_cast<double>(size)) / static_cast<double>(size)).Reshape(shape);
}

TEST_F(BlockTest, ALayerLearnsItsShapesFromTheFirstBatch) {
  const Layer dense = nn::Dense({.units = 3});
  dense.Initialize(Named("Xavier"));
  EXPECT_EQ(dense.params().Find("weight").shape(), (Shape{3, 0}));
  EXPECT_FALSE(dense.params().Find("weight").is_initialized());
  const NDArray x = Ramp({2, 4});
  const NDArray y = dense(x);
  EXPECT_EQ(*y.shape(), (Shape{2, 3}));
  const Parameter weight = dense.params().Find("weight");
  EXPECT_EQ(weight.shape(), (Shape{3, 4}));
  EXPECT_EQ(*dense.params().Find("bias").data().Values<float>(), (Floats{0, 0, 0}));
  const NDArray expected = Invoke1("dot", {x, weight.data().T()});
  const Floats a = *y.Values<float>(), b = *expected.Values<float>();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
}

TEST_F(BlockTest, ValuesAreThoseOfAModelWithThisSeed) {
  const nn::Sequential net = {nn::Dense({.units = 8, .activation = "relu"}), nn::Dense({.units = 2})};
  net.Initialize(initializer::Xavier());
  ASSERT_TRUE(net(Ramp({2, 5})).Wait().ok());
  const Client client = session_->client().value();
  const Model model = client.DefineModel("same", net, {Input("data", {-1, 5})}, {.seed = 3}).value();
  ASSERT_TRUE(model.Initialize(Named("Xavier")).ok());
  const Tensors parameters = model.GetParameters().value();
  for (const auto& [path, parameter] : net.CollectParams()) {
    EXPECT_TRUE(*parameter.data().ToTensor() == parameters.at(path)) << path;
  }
  EXPECT_EQ(parameters.size(), net.CollectParams().size());
}

// One function for both modes, with parameters of its own, several outputs and a vector.
struct Net : gluon::HybridBlock<Net> {
  Layer hidden = Register("hidden", nn::Dense({.units = 4, .activation = "tanh"}));
  Layer output = Register("output", nn::Dense({.units = 2}));
  Parameter weight = params().Get("weight", {{4, 0}});

  template <class X>
  std::pair<X, std::vector<X>> Forward(const X& x, const std::vector<X>& more) {
    const X h = Invoke1("FullyConnected", {hidden(x + more[0]), weight.Get<X>()}, {{"num_hidden", 4}, {"no_bias", true}});
    return {output(h) + more[1], {h, h * 2}};
  }
};

TEST_F(BlockTest, BothModesAreEqual) {
  Net net;
  net.Initialize(Named("Xavier"));
  const NDArray x = Ramp({3, 5});
  // The shape of `weight` follows from the first batch.
  const auto run = [&] {
    NDArray loss;
    {
      const autograd::Record record;
      auto [y, more] = net(x, std::vector<NDArray>{x * 2, NDArray::Ones({3, 2})});
      EXPECT_EQ(more.size(), 2u);
      loss = (y * y).Sum() + more[1].Sum();
    }
    loss.Backward();
    std::vector<Floats> values = {*loss.Values<float>()};
    for (const auto& [path, parameter] : net.CollectParams()) values.push_back(*parameter.grad().Values<float>());
    return values;
  };
  const std::vector<Floats> plain = run();
  EXPECT_EQ(net.weight.shape(), (Shape{4, 4}));
  ASSERT_EQ(plain.size(), 6u);
  net.Hybridize();
  const std::vector<Floats> graph = run();
  for (size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(plain[i].size(), graph[i].size());
    for (size_t j = 0; j < plain[i].size(); ++j) EXPECT_NEAR(plain[i][j], graph[i][j], 1e-5);
  }
  EXPECT_EQ(run(), graph);
}

// One number a step, one unit: h' = tanh(w x + u h + b + c).
TEST_F(BlockTest, ARecurrentLayerTakesStatesAndGivesThem) {
  const rnn::RNN layer({.hidden_size = 1, .activation = rnn::RNNActivation::kTanh});
  layer.Initialize(Named("Normal", {{"sigma", 1}}));
  const NDArray x = NDArray::Of<float>({3, 2, 1}, {0.1f, -0.2f, 0.3f, 0.4f, -0.5f, 0.6f});
  const NDArray h0 = NDArray::Of<float>({1, 2, 1}, {0.5f, -1});
  const auto [y, states] = layer(x, std::vector<NDArray>{h0});
  ASSERT_EQ(states.size(), 1u);
  const auto value = [&](const char* name) { return layer.params().Find(name).data().Values<float>()->front(); };
  const float w = value("l0_i2h_weight"), u = value("l0_h2h_weight"), b = value("l0_i2h_bias") + value("l0_h2h_bias");
  const Floats inputs = *x.Values<float>(), outputs = *y.Values<float>();
  Floats h = *h0.Values<float>();
  for (size_t t = 0; t < 3; ++t) {
    for (size_t n = 0; n < 2; ++n) {
      h[n] = std::tanh(w * inputs[2 * t + n] + u * h[n] + b);
      EXPECT_NEAR(outputs[2 * t + n], h[n], 1e-6);
    }
  }
  const Floats last = *states[0].Values<float>();
  for (size_t n = 0; n < 2; ++n) EXPECT_NEAR(last[n], h[n], 1e-6);
  EXPECT_NE(*layer(x).Values<float>(), outputs) << "begins with zeros";
}

struct Sequence : gluon::HybridBlock<Sequence> {
  rnn::LSTM lstm =
      Register("lstm", rnn::LSTM({.hidden_size = 4, .num_layers = 2, .layout = rnn::LSTMLayout::kNTC, .bidirectional = true}));

  template <class X>
  std::pair<X, std::vector<X>> Forward(const X& x, const std::vector<X>& states) {
    return lstm(x, states);
  }
};

TEST_F(BlockTest, StatesPassThroughBothModesAndDirections) {
  Sequence net;
  net.Initialize(Named("Xavier"));
  const NDArray x = Ramp({3, 5, 6});
  const std::vector<NDArray> zeros = net.lstm.BeginState(3);
  ASSERT_EQ(zeros.size(), 2u);
  EXPECT_EQ(*zeros[1].shape(), (Shape{4, 3, 4}));
  const auto [plain, after] = net(x, zeros);
  EXPECT_EQ(*plain.shape(), (Shape{3, 5, 8}));
  EXPECT_EQ(*plain.Values<float>(), *net.lstm(x).Values<float>());
  ASSERT_EQ(after.size(), 2u);
  net.Hybridize();
  const auto [graph, states] = net(x, zeros);
  EXPECT_EQ(*graph.Values<float>(), *plain.Values<float>());
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(*states[i].Values<float>(), *after[i].Values<float>());
  const absl::Status one = net(x, std::vector<NDArray>{zeros[0]}).first.Wait();
  EXPECT_NE(one.message().find("LSTM has 2 recurrent state(s), got 1"), std::string::npos) << one;
}

TEST_F(BlockTest, AuxiliaryStatesFollow) {
  const nn::Sequential net = {Layer("Conv2D", {{"channels", 2}, {"kernel_size", Value::Tuple{Value(3), Value(3)}}}),
                              Layer("BatchNorm"), Layer("Flatten"), nn::Dense({.units = 2})};
  net.Initialize();
  for (const bool hybrid : {false, true}) {
    net.Hybridize(hybrid);
    NDArray loss;
    {
      const autograd::Record record;
      loss = net(Ramp({2, 1, 6, 6})).Sum();
    }
    loss.Backward();
    ASSERT_TRUE(loss.Wait().ok()) << loss.Wait();
  }
  const NDArray mean = net.CollectParams().Find("1.running_mean").data();
  EXPECT_NE((*mean.Values<float>())[0], 0);
  EXPECT_FALSE(mean.grad().is_defined());
  EXPECT_TRUE(net.CollectParams().Find("1.gamma").grad().Wait().ok());
}

TEST_F(BlockTest, LossesAreTheServers) {
  const gluon::Loss loss("SoftmaxCrossEntropyLoss");
  const NDArray prediction = NDArray::Of<float>({2, 2}, {0, 0, 0, 0}), label = NDArray::Of<float>({2}, {0, 1});
  const Floats values = *loss(prediction, label).Values<float>();
  for (const float value : values) EXPECT_NEAR(value, 0.6931472f, 1e-6);
  const NDArray weights = NDArray::Of<float>({2, 1}, {1, 0});
  EXPECT_EQ((*loss(prediction, label, weights).Values<float>())[1], 0);
  const gluon::Loss half("L2Loss", {{"weight", 0.5}});
  EXPECT_EQ(*half(NDArray::Of<float>({1, 2}, {1, 3}), NDArray::Zeros({1, 2})).Values<float>(), (Floats{1.25}));
}

TEST_F(BlockTest, ErrorsComeWithTheValue) {
  const absl::Status unknown = Layer("Desne", {{"units", 2}})(Ramp({1, 2})).Wait();
  EXPECT_NE(unknown.message().find("Dense"), absl::string_view::npos) << unknown;
  const absl::Status misspelt = Layer("Dense", {{"unit", 2}})(Ramp({1, 2})).Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(misspelt)) << misspelt;
  const absl::Status early = nn::Dense({.units = 2})(Ramp({1, 2})).Wait();
  EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;
  const Layer dense = nn::Dense({.units = 2});
  dense.Initialize();
  EXPECT_TRUE(dense(Ramp({1, 2})).Wait().ok());
  const absl::Status narrow = dense(Ramp({1, 3})).Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(narrow)) << narrow;
  EXPECT_NE(narrow.message().find("block_test.cc:"), absl::string_view::npos) << narrow;
  EXPECT_FALSE(gluon::Loss("NoLoss")(Ramp({1, 2}), Ramp({1})).Wait().ok());
  EXPECT_FALSE(nn::Dense({.units = 2})(NDArray()).Wait().ok());
}

TEST_F(BlockTest, ParametersAreShared) {
  const Layer a = nn::Dense({.units = 3});
  Layer b = nn::Dense({.units = 3});
  b.Share(a);
  a.Initialize(Named("Xavier"));
  const NDArray x = Ramp({2, 4});
  EXPECT_EQ(*a(x).Values<float>(), *b(x).Values<float>());
  const nn::Sequential both = {a, b};
  EXPECT_EQ(both.CollectParams().size(), 2u);
}

// Points of two moons-like halves: the label says on which side of a line they are.
struct Points {
  NDArray data, label;
};

Points SomePoints() {
  Floats data, label;
  for (int i = 0; i < 64; ++i) {
    const float x = static_cast<float>(i * 37 % 64) / 32 - 1, y = static_cast<float>(i * 11 % 64) / 32 - 1;
    data.push_back(x), data.push_back(y);
    label.push_back(x + y > 0 ? 1 : 0);
  }
  return {NDArray::Of<float>({64, 2}, data), NDArray::Of<float>({64}, label)};
}

TEST_F(BlockTest, ModelsAreDefinedByBlocksAndBySymbols) {
  const Client client = session_->client().value();
  const nn::Sequential net = {nn::Residual({nn::Dense({.units = 3})}), nn::Dense({.units = 1})};
  EXPECT_TRUE(client.DefineModel("residual", net, {Input("data", {-1, 3})}).ok());
  const Net own;
  const absl::Status unknown = client.DefineModel("own", nn::Sequential{nn::Concurrent({}, {own.hidden, own})}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown)) << unknown;
  const Symbol x = Symbol::Variable("x"), more = Symbol::Variable("more"), shift = Symbol::Variable("shift");
  own.Initialize(initializer::Xavier());  // Gives the parameters their paths.
  const auto [y, others] = own(x, std::vector<Symbol>{more, shift});
  const Model model =
      client.DefineModel("own", {y, others[1]}, {Input("x", {-1, 5}), Input("more", {-1, 5}), Input("shift", {-1, 2})}, {.seed = 3})
          .value();
  ASSERT_TRUE(model.Initialize(initializer::Xavier()).ok());
  const NDArray one = NDArray::Ones({1, 5}), two = NDArray::Ones({1, 2});
  const auto here = own(one, std::vector<NDArray>{one, two});
  const Tensors there = model.Predict({{"x", *one.ToTensor()}, {"more", *one.ToTensor()}, {"shift", *two.ToTensor()}}).value();
  ASSERT_EQ(there.size(), 2u);
  std::vector<Floats> values;
  for (const auto& [name, tensor] : there) values.push_back(*tensor.Values<float>());
  const Floats a = *here.first.Values<float>();
  EXPECT_TRUE(values[0] == a || values[1] == a);
}

TEST_F(BlockTest, ANetworkBecomesAModel) {
  const nn::Sequential net = {nn::Dense({.units = 3, .activation = "relu"}), nn::BatchNorm(), nn::Dense({.units = 2})};
  net.Initialize(initializer::Xavier());
  EXPECT_TRUE(absl::IsFailedPrecondition(net.SaveAsModel("saved").status()));
  net.Hybridize();
  const NDArray x = NDArray(*Ramp({4, 5}).ToTensor());
  const Floats expected = *net(x).Values<float>();
  const Model model = net.SaveAsModel("saved").value();
  const Tensors outputs = model.Predict({{"data", *x.ToTensor()}}).value();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(*outputs.begin()->second.Values<float>(), expected);
  EXPECT_EQ(model.GetParameters()->count("0.weight"), 1u);
  EXPECT_EQ(model.Describe()->inputs[0].shape, (Shape{-1, 5}));
  EXPECT_TRUE(absl::IsAlreadyExists(net.SaveAsModel("saved").status()));
  EXPECT_TRUE(net.SaveAsModel("saved", {.replace = true}).ok());
  // Published, it serves other rows, too.
  ASSERT_TRUE(model.Publish().ok());
  const Tensors seven = {{"data", *NDArray::Ones({7, 5}).ToTensor()}};
  EXPECT_EQ(model.Infer(seven)->begin()->second.shape(), (Shape{7, 2}));
  std::vector<PendingInference> pending;
  for (int i = 0; i < 8; ++i) pending.push_back(model.InferAsync(seven));
  for (const PendingInference& each : pending) EXPECT_TRUE(*each.Wait() == *model.Infer(seven));
  EXPECT_TRUE(pending[0].Wait().ok());  // Again and again.
  EXPECT_TRUE(absl::IsInvalidArgument(model.InferAsync({{"data", Tensor::Of<float>({1}, {1})}}).Wait().status()));
  EXPECT_TRUE(absl::IsNotFound(model.InferAsync(seven, "77").Wait().status()));
  // A call that is cancelled at once may have ended before.
  const PendingInference cancelled = model.InferAsync(seven);
  cancelled.Cancel();
  const absl::Status end = cancelled.Wait().status();
  EXPECT_TRUE(end.ok() || absl::IsCancelled(end)) << end;
}

TEST_F(BlockTest, ATrainerStepsByEachOptimizer) {
  const Points points = SomePoints();
  const loss::SoftmaxCrossEntropyLoss loss_of;
  const Component optimizers[] = {optimizer::Sgd({.learning_rate = 0.5, .momentum = 0.9}), optimizer::Adam({.learning_rate = 0.05}),
                                  optimizer::Nag({.learning_rate = 0.5}), optimizer::Rmsprop({.learning_rate = 0.02})};
  for (const Component& optimizer : optimizers) {
    for (const bool hybrid : {false, true}) {
      session_->Seed(3);
      const nn::Sequential net = {nn::Dense({.units = 8, .activation = "tanh"}), nn::Dense({.units = 2})};
      net.Initialize(initializer::Xavier());
      net.Hybridize(hybrid);
      gluon::Trainer trainer(net.CollectParams(), optimizer);
      std::vector<float> losses;
      for (int step = 0; step < 30; ++step) {
        NDArray loss;
        {
          const autograd::Record record;
          loss = loss_of(net(points.data), points.label);
        }
        loss.Backward();
        trainer.Step(64);
        if (step % 29 == 0) losses.push_back(*loss.Mean().Item());
      }
      EXPECT_LT(losses[1], 0.5f * losses[0]) << optimizer.name;
    }
  }
}

TEST_F(BlockTest, AStaleGradientIsRefusedOrLeftOut) {
  const Points points = SomePoints();
  const nn::Dense dense({.units = 2});
  dense.Initialize();
  gluon::Trainer trainer(dense.CollectParams(), optimizer::Sgd());
  ASSERT_TRUE(dense(points.data).Wait().ok());
  const Floats before = *dense.params().Find("weight").data().Values<float>();
  trainer.Step(1);
  const absl::Status stale = session_->WaitAll();
  EXPECT_TRUE(absl::IsFailedPrecondition(stale)) << stale;
  trainer.Step(1, /*ignore_stale_grad=*/true);
  EXPECT_TRUE(session_->WaitAll().ok());
  EXPECT_EQ(*dense.params().Find("weight").data().Values<float>(), before);
  const nn::Dense early({.units = 1});
  gluon::Trainer none(early.CollectParams(), optimizer::Sgd());
  none.Step(1);
  const absl::Status uninitialized = session_->WaitAll();
  EXPECT_TRUE(absl::IsFailedPrecondition(uninitialized)) << uninitialized;
  EXPECT_NE(uninitialized.message().find("block_test.cc:"), absl::string_view::npos) << uninitialized;
  EXPECT_TRUE(session_->WaitAll().ok());
}

TEST_F(BlockTest, ParametersAreSavedAndLoaded) {
  const std::string path = testing::TempDir() + "/net.params";
  const NDArray x = Ramp({2, 3});
  const auto make = [] { return nn::Sequential{nn::Dense({.units = 4}), nn::BatchNorm(), nn::Dense({.units = 1})}; };
  const nn::Sequential net = make(), same = make();
  net.Initialize(initializer::Xavier());
  const Floats expected = *net(x).Values<float>();
  ASSERT_TRUE(net.SaveParameters(path).ok());
  ASSERT_TRUE(same.LoadParameters(path).ok());
  EXPECT_EQ(*same(x).Values<float>(), expected);
  const nn::Sequential other = {nn::Dense({.units = 5}), nn::BatchNorm(), nn::Dense({.units = 1})};
  const absl::Status unfit = other.LoadParameters(path);
  EXPECT_TRUE(absl::IsInvalidArgument(unfit)) << unfit;
  EXPECT_FALSE(nn::Sequential{nn::Dense({.units = 4})}.LoadParameters(path).ok());
  EXPECT_TRUE(absl::IsNotFound(net.LoadParameters("/nowhere/at/all")));
  EXPECT_FALSE(net.SaveParameters("/nowhere/at/all").ok());
}

TEST_F(BlockTest, LongGraphsAreTracedWithoutRecursion) {
  Symbol x = Symbol::Variable("x");
  for (int i = 0; i < 100000; ++i) x = x + 1;
}

}  // namespace
}  // namespace gluond::client
