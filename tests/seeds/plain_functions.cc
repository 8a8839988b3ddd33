// The functions of plain_functions.py, with a derivative by each argument.

#include <gluond/gluond.h>

#include <cmath>
#include <iostream>
using namespace gluond;
using Arrays = std::vector<NDArray>;

int main() {
  const Session session = Session::Current().value();

  const Function my_softmax([](const Arrays& in) { return -op::Log(op::Pick(op::Softmax(in[0]), in[1])).Mean(); });
  // The derivative takes the gradient of the result, the result and the arguments.
  my_softmax.DefGrad([](const NDArray& g, const NDArray&, const Arrays& in) {
    const Shape shape = *in[0].shape();
    return g * (op::Softmax(in[0]) - op::OneHot(in[1], {.depth = shape[1]})) / static_cast<double>(shape[0]);
  });

  NDArray x = NDArray::Of<float>({2, 3}, {1, 2, 3, 1, 0, -1});
  const NDArray labels = NDArray::Of<float>({2}, {2, 0});
  const auto gradient_of = [&](auto loss_of) {
    x.AttachGrad();
    NDArray loss;
    {
      autograd::Record record;
      loss = loss_of();
    }
    loss.Backward();
    std::cout << "loss " << *loss.Item() << "\n";
    return *x.grad().Values<float>();
  };
  const auto own = gradient_of([&] { return my_softmax({x, labels}); });
  const auto library = gradient_of([&] { return -op::Pick(op::LogSoftmax(x), labels).Mean(); });
  for (size_t i = 0; i < own.size(); ++i) {
    if (std::abs(own[i] - library[i]) > 1e-6) return 1;
  }

  // Several arguments have a derivative each. One that has none is an error only where its gradient is wanted.
  const Function scaled([](const Arrays& in) { return in[0] * in[1]; });
  scaled.DefGrad([](const NDArray& g, const NDArray&, const Arrays& in) { return g * in[1]; });
  scaled.DefGrad([](const NDArray& g, const NDArray&, const Arrays& in) { return (g * in[0]).Sum(); }, 1);
  NDArray y = NDArray::Of<float>({2}, {1, 2}), factor = NDArray::Of<float>({1}, {3});
  y.AttachGrad();
  factor.AttachGrad();
  NDArray z;
  {
    autograd::Record record;
    z = scaled({y, factor}).Sum();
  }
  z.Backward();
  return *y.grad().Values<float>() == std::vector<float>{3, 3} && *factor.grad().Item() == 3 ? 0 : 2;
}
