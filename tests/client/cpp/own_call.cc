// Calls the operator `shift_in_python`, which a Python program computes, at the server given.

#include <iostream>

#include "gluond/gluond.h"

int main(int argc, char** argv) {
  using gluond::NDArray;
  const auto session = gluond::Session::Connect(argc > 1 ? argv[1] : "");
  if (!session.ok()) return std::cerr << session.status() << "\n", 1;
  NDArray x = NDArray::Of<float>({2}, {1, 2});
  x.AttachGrad();
  NDArray y;
  {
    const gluond::autograd::Record record;
    y = gluond::Custom({x}, "shift_in_python");
  }
  y.Backward();
  const auto values = y.Values<float>();
  const auto gradients = x.grad().Values<float>();
  if (!values.ok() || !gradients.ok()) return std::cerr << values.status() << gradients.status() << "\n", 1;
  std::cout << (*values)[0] << " " << (*values)[1] << " " << (*gradients)[0] << " " << (*gradients)[1] << "\n";
}
