// The loss layer of custom_softmax.py: a softmax with its cross entropy's gradient, trained beside the library's own.

#include <gluond/gluond.h>

#include <cmath>
#include <iostream>
#include <random>
using namespace gluond;
using Floats = std::vector<float>;

struct Softmax : CustomOp {
  absl::Status Forward(const ForwardCall& call) override {
    const NDArray& x = call.in_data[0];
    const NDArray y = op::Exp(x - op::Max(x, {.axis = {1}, .keepdims = true}));
    Assign(call.out_data[0], call.req[0], y / op::Sum(y, {.axis = {1}, .keepdims = true}));
    return absl::OkStatus();
  }
  absl::Status Backward(const BackwardCall& call) override {
    const NDArray& y = call.out_data[0];
    Assign(call.in_grad[0], call.req[0], y - op::OneHot(call.in_data[1], {.depth = (*y.shape())[1]}));
    return absl::OkStatus();
  }
};

// It is a loss: it needs no gradient from above. InferShape tells the label's shape from the data's.
struct SoftmaxProp : CustomOpProp {
  SoftmaxProp() : CustomOpProp(/*need_top_grad=*/false) {}
  std::vector<std::string> ListArguments() const override { return {"data", "label"}; }
  absl::StatusOr<Shapes> InferShape(const std::vector<MaybeShape>& in) const override {
    if (!in[0]) return absl::InvalidArgumentError("the data's shape is wanted");
    return Shapes{{in[0], Shape{(*in[0])[0]}}, {in[0]}};
  }
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Softmax>(); }
};

// A small network below a loss, of one's own or the library's.
struct Net : gluon::HybridBlock<Net> {
  explicit Net(bool own) : own(own) {}
  template <class X>
  X Forward(const X& x, const X& label) {
    const X scores = body(x);
    return own ? Custom({scores, label}, "softmax") : op::SoftmaxOutput(scores, label);
  }
  const bool own;
  nn::Sequential body = Register("body", nn::Sequential{nn::Dense({.units = 32, .activation = "relu"}), nn::Dense({.units = 4})});
};

// Four clouds of points.
struct Clouds {
  Floats points, labels;
};

Clouds SomeClouds() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Floats centres(4 * 8);
  for (float& each : centres) each = 2 * normal(random);
  Clouds clouds;
  for (int i = 0; i < 512; ++i) {
    const int label = static_cast<int>(random() % 4);
    clouds.labels.push_back(static_cast<float>(label));
    for (int j = 0; j < 8; ++j) clouds.points.push_back(centres[8 * label + j] + normal(random));
  }
  return clouds;
}

float Accuracy(const Net& net, const NDArray& x, const NDArray& label) {
  return *(op::Argmax(net(x, label), {.axis = 1}) == label).Mean().Item();
}

std::pair<float, Floats> Train(bool own, const Session& session) {
  const Clouds clouds = SomeClouds();
  const NDArray x = NDArray::Of({512, 8}, clouds.points), label = NDArray::Of({512}, clouds.labels);
  session.Seed(5);
  const Net net(own);
  net.Initialize(initializer::Uniform({.scale = 0.3}));
  net.Hybridize();
  gluon::Trainer trainer(net.CollectParams(), optimizer::Sgd({.learning_rate = 0.1}));
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (int begin = 0; begin < 512; begin += 64) {
      NDArray y;
      {
        autograd::Record record;
        y = net(x[Range{begin, begin + 64}], label[Range{begin, begin + 64}]);
      }
      y.Backward();
      trainer.Step(64);
    }
    std::cout << "epoch " << epoch << ": accuracy " << Accuracy(net, x, label) << "\n";
  }
  return {Accuracy(net, x, label), *net.CollectParams().Find("body.0.weight").data().Values<float>()};
}

int main() {
  const Session session = Session::Current().value();  // With the server at GLUOND_ADDRESS, or with one of its own.
  if (!Register<SoftmaxProp>("softmax").ok()) return 1;
  const auto [own, own_weight] = Train(true, session);
  const auto [library, library_weight] = Train(false, session);
  if (own < 0.9 || own != library) return 2;
  for (size_t i = 0; i < own_weight.size(); ++i) {
    if (std::abs(own_weight[i] - library_weight[i]) > 1e-3) return 3;
  }
}
