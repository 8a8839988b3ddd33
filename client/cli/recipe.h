// The networks that `gluond train` knows, and the preparation of their images.

#ifndef GLUOND_CLIENT_CLI_RECIPE_H_
#define GLUOND_CLIENT_CLI_RECIPE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gluond/block.h"
#include "gluond/tensor.h"

namespace gluond::cli {

// Pixels of 0 to 255 become x * kPixelScale + kPixelShift: mean 0 and deviation 1 over
// Fashion-MNIST.
constexpr double kPixelScale = 1 / (255 * 0.3530);
constexpr double kPixelShift = -0.2860 / 0.3530;

struct Recipe {
  client::nn::Sequential network;
  double learning_rate;  // The rate of SGD with momentum 0.9, at the schedule's top.
  int64_t epochs;
};

// "lenet": 20 and 50 filters of 5x5, ReLU, 2x2 max pooling, 500 hidden. "mlp": 128 and 64 hidden.
// INVALID_ARGUMENT lists the names.
absl::StatusOr<Recipe> FindRecipe(const std::string& name, int64_t classes);

// The names of the labels of the files in `folder`: clothes for Fashion-MNIST, else digits.
std::vector<std::string> LabelNames(const std::string& folder);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_RECIPE_H_
