#include "client/cli/recipe.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gluond::cli {
namespace {

using client::Conv2D;
using client::Dense;
using client::MaxPool2D;
using client::Sequential;

const client::Attributes& Relu() {
  static const auto* relu = new client::Attributes{{"activation", "relu"}};
  return *relu;
}

client::BlockTree LeNet(int64_t classes) {
  return Sequential({Conv2D(20, 5, Relu()), MaxPool2D(2), Conv2D(50, 5, Relu()), MaxPool2D(2), Dense(500, Relu()), Dense(classes)});
}

client::BlockTree Mlp(int64_t classes) { return Sequential({Dense(128, Relu()), Dense(64, Relu()), Dense(classes)}); }

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
