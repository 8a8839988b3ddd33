#include "client/cli/recipe.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gluond/nn.h"

namespace gluond::cli {
namespace {

using client::nn::Conv2D;
using client::nn::Dense;
using client::nn::MaxPool2D;
using client::nn::Sequential;

Sequential LeNet(int64_t classes) {
  return {Conv2D({.channels = 20, .kernel_size = {5, 5}, .activation = "relu"}),
          MaxPool2D({.pool_size = {2, 2}}),
          Conv2D({.channels = 50, .kernel_size = {5, 5}, .activation = "relu"}),
          MaxPool2D({.pool_size = {2, 2}}),
          Dense({.units = 500, .activation = "relu"}),
          Dense({.units = classes})};
}

Sequential Mlp(int64_t classes) {
  return {Dense({.units = 128, .activation = "relu"}), Dense({.units = 64, .activation = "relu"}), Dense({.units = classes})};
}

}  // namespace

absl::StatusOr<Recipe> FindRecipe(const std::string& name, int64_t classes) {
  if (name == "lenet") return Recipe{LeNet(classes), 0.05, 5};
  if (name == "mlp") return Recipe{Mlp(classes), 0.05, 10};
  return absl::InvalidArgumentError(absl::StrCat("there is no recipe '", name, "'; the recipes are lenet and mlp."));
}

std::vector<std::string> LabelNames(const std::string& folder) {
  if (absl::StrContains(folder, "fashion")) {
    return {"T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"};
  }
  return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

}  // namespace gluond::cli
