// Trains a network on another machine to tell two moons apart. Usage: moons HOST:PORT
#include <gluond/gluond.h>

#include <cmath>
#include <iostream>
using namespace gluond;

int main(int argc, char** argv) {
  Client client = Client::Connect(argc > 1 ? argv[1] : "127.0.0.1:50051").value();
  const nn::Sequential net = {nn::Dense({.units = 32, .activation = "relu"}), nn::Dense({.units = 2})};
  Model model = client.DefineModel("moons", net, {Input("data", {-1, 2})}, {.replace = true}).value();
  if (!model.Initialize(initializer::Xavier()).ok()) return 1;
  model
      .CreateTrainer({.loss = Named("SoftmaxCrossEntropyLoss"),
                      .optimizer = optimizer::Adam({.learning_rate = 0.01}),
                      .metrics = {Named("accuracy")}})
      .value();
  std::vector<float> xy, moon;
  for (int i = 0; i < 200; ++i) {  // The first moon opens downwards, the second upwards.
    const float turn = i * M_PI / 100, upper = i < 100;
    xy.insert(xy.end(), {std::cos(turn) + 1 - upper, std::sin(turn) + 0.5f * (1 - upper)});
    moon.push_back(1 - upper);
  }
  Tensors batch{{"data", Tensor::Of({200, 2}, xy)}, {"label", Tensor::Of({200}, moon)}};
  for (int step = 0; step < 200; ++step) model.TrainStep(batch).value();
  std::cout << "accuracy: " << model.Evaluate(batch).value().metrics.at("accuracy") << "\n";
}
