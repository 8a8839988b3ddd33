// The layers of custom_layers.py: one that has no parameters, and one with a weight and a constant.

#include <gluond/gluond.h>

#include <iostream>
using namespace gluond;
using Floats = std::vector<float>;

// One function for both ways of computing: operator by operator, where X is NDArray, and as a graph, where it is Symbol.
struct Normalization : gluon::HybridBlock<Normalization> {
  template <class X>
  X Forward(const X& x) {
    return (x - op::Min(x)) / (op::Max(x) - op::Min(x));
  }
};

// `weights` is trained; its second dimension is unknown until the first batch comes. `scales` is a constant.
struct ScaledNormalization : gluon::HybridBlock<ScaledNormalization> {
  ScaledNormalization(int64_t hidden_units, const Tensor& values)
      : weights(params().Get("weights", {.shape = {hidden_units, 0}})), scales("scales", values) {
    params().Add("scales", scales);
  }
  template <class X>
  X Forward(const X& x) {
    const X weighted = op::FullyConnected(normalize(x), weights.Get<X>(), {.num_hidden = weights.shape()[0], .no_bias = true});
    return weighted * scales.Get<X>();
  }
  Normalization normalize = Register("normalize", Normalization());
  gluon::Parameter weights;
  gluon::Constant scales;
};

int main() {
  const Session session = Session::Current().value();
  session.Seed(4);

  const Normalization layer;
  const NDArray x = NDArray::Of<float>({3}, {1, 2, 3});
  const Floats plain = *layer(x).Values<float>();
  layer.Hybridize();
  if (plain != Floats{0, 0.5, 1} || *layer(x).Values<float>() != plain) return 1;

  const ScaledNormalization scaled(5, Tensor::Of<float>({1}, {2}));
  const nn::Sequential net = {nn::Dense({.units = 5}), scaled, nn::Dense({.units = 1})};
  net.Initialize(initializer::Xavier({.magnitude = 2.24}));
  net.Hybridize();
  for (const auto& [name, parameter] : net.CollectParams()) std::cout << name << " " << ToString(parameter.shape()) << "\n";

  // The values of `weights` are there with the first batch. After a step they have changed, and those of `scales` have not.
  const NDArray batch = op::random::Uniform({.low = -10, .high = 10, .shape = {5, 2}});
  const NDArray label = op::random::Uniform({.low = -1, .high = 1, .shape = {5, 1}});
  const loss::L2Loss loss_of;
  gluon::Trainer trainer(net.CollectParams(), optimizer::Sgd({.learning_rate = 0.1, .momentum = 0.9}));
  const auto step = [&] {
    NDArray loss;
    {
      autograd::Record record;
      loss = loss_of(net(batch), label);
    }
    loss.Backward();
    trainer.Step(5);
    return loss.Mean();
  };
  if (!net(batch).Wait().ok()) return 2;
  const Floats before = *scaled.weights.data().Values<float>();
  const float first = *step().Item();
  if (*scaled.weights.data().Values<float>() == before || *scaled.scales.data().Item() != 2) return 3;

  // A few hundred steps fit the five points.
  NDArray last;
  for (int i = 0; i < 300; ++i) last = step();
  std::cout << "loss: " << first << " at first, " << *last.Item() << " at last\n";
  return *last.Item() < 0.1f * first ? 0 : 4;
}
