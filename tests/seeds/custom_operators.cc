// The operators of custom_operators.py: sigmoid, and a dense one with a weight and a block around it.

#include <gluond/gluond.h>

#include <cmath>
#include <iostream>
using namespace gluond;
using Floats = std::vector<float>;

struct Sigmoid : CustomOp {
  absl::Status Forward(const ForwardCall& call) override {
    Assign(call.out_data[0], call.req[0], 1.0 / (1.0 + op::Exp(-call.in_data[0])));
    return absl::OkStatus();
  }
  absl::Status Backward(const BackwardCall& call) override {
    const NDArray& y = call.out_data[0];
    Assign(call.in_grad[0], call.req[0], call.out_grad[0] * (1.0 - y) * y);
    return absl::OkStatus();
  }
};

// One argument `data`, one output `output`, and shapes that are equal need no words.
struct SigmoidProp : CustomOpProp {
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Sigmoid>(); }
};

// Two inputs, data and weight, and a constant bias that comes as an attribute.
struct Dense : CustomOp {
  explicit Dense(double bias) : bias(bias) {}
  absl::Status Forward(const ForwardCall& call) override {
    Assign(call.out_data[0], call.req[0], op::Dot(call.in_data[0], call.in_data[1].T()) + bias);
    return absl::OkStatus();
  }
  absl::Status Backward(const BackwardCall& call) override {
    const NDArray &x = call.in_data[0], &weight = call.in_data[1], &dy = call.out_grad[0];
    Assign(call.in_grad[0], call.req[0], op::Dot(dy, weight));
    Assign(call.in_grad[1], call.req[1], op::Dot(dy.T(), x));
    return absl::OkStatus();
  }
  const double bias;
};

// Attributes arrive as text, whatever they were.
struct DenseProp : CustomOpProp {
  explicit DenseProp(const KeywordArguments& attributes) : bias(std::stod(attributes.at("bias"))) {}
  std::vector<std::string> ListArguments() const override { return {"data", "weight"}; }
  absl::StatusOr<Shapes> InferShape(const std::vector<MaybeShape>& in) const override {
    if (!in[0] || !in[1]) return absl::InvalidArgumentError("both shapes are wanted");
    return Shapes{in, {Shape{(*in[0])[0], (*in[1])[0]}}};
  }
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Dense>(bias); }
  const double bias;
};

// A block holds the weight and uses the operator.
struct DenseBlock : gluon::HybridBlock<DenseBlock> {
  DenseBlock(int64_t in_channels, int64_t channels, double bias)
      : bias(bias), weight(params().Get("weight", {.shape = {channels, in_channels}})) {}
  template <class X>
  X Forward(const X& x) {
    return Custom({x, weight.Get<X>()}, "dense", {{"bias", bias}});
  }
  const double bias;
  gluon::Parameter weight;
};

int main() {
  const Session session = Session::Current().value();
  if (!Register<SigmoidProp>("sigmoid").ok() || !Register<DenseProp>("dense").ok()) return 1;

  NDArray x = NDArray::Of<float>({4}, {0, 1, 2, 3});
  x.AttachGrad();
  NDArray y;
  {
    autograd::Record record;
    y = Custom({x}, "sigmoid");
  }
  y.Backward();
  const Floats values = *y.Values<float>(), gradients = *x.grad().Values<float>();
  for (int i = 0; i < 4; ++i) {
    const double expected = 1 / (1 + std::exp(-i));
    std::cout << values[i] << " has the gradient " << gradients[i] << "\n";
    if (std::abs(values[i] - expected) > 1e-5 || std::abs(gradients[i] - expected * (1 - expected)) > 1e-5) return 2;
  }

  // The block trains like any other layer: here towards a matrix that is known.
  session.Seed(7);
  const NDArray truth = NDArray::Arange(0, 15).Reshape({5, 3}) / 10;
  const DenseBlock dense(3, 5, 0.1);
  dense.Initialize();
  gluon::Trainer trainer(dense.CollectParams(), optimizer::Sgd({.learning_rate = 0.5}));
  const loss::L2Loss loss_of;
  std::vector<NDArray> losses;
  for (int step = 0; step < 100; ++step) {
    const NDArray data = op::random::Uniform({.low = -1, .high = 1, .shape = {32, 3}});
    NDArray loss;
    {
      autograd::Record record;
      loss = loss_of(dense(data), op::Dot(data, truth.T()) + 0.1);
    }
    loss.Backward();
    trainer.Step(32);
    losses.push_back(loss.Mean());
  }
  const float first = *losses.front().Item(), last = *losses.back().Item();
  std::cout << "loss: " << first << " at first, " << last << " at last\n";
  return last < 0.01f * first ? 0 : 3;
}
