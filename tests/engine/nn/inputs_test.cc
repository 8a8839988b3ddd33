#include "engine/nn/inputs.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

// Input by input that would be 2e10 comparisons of names.
TEST(Inputs, ManyAreFoundByName) {
  constexpr int kInputs = 200'000;
  const auto memory = *DeviceAllocator::Create(Device(), std::make_shared<Budget>("the test", int64_t{1} << 30, "--none"));
  const Tensor value = *Tensor::Empty(*memory, {1}, DType::kFloat32);
  std::vector<ModelInput> inputs;
  NamedTensors given;
  for (int i = 0; i < kInputs; ++i) {
    inputs.push_back({absl::StrCat("an_input_", i), {1}});
    given.push_back({absl::StrCat("an_input_", kInputs - 1 - i), value});
  }
  const absl::StatusOr<std::vector<Tensor>> tensors = MatchInputs(inputs, std::move(given));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->size(), size_t{kInputs});
}

TEST(Inputs, OneThatIsGivenTwiceIsRefused) {
  const auto memory = *DeviceAllocator::Create(Device(), std::make_shared<Budget>("the test", int64_t{1} << 30, "--none"));
  const Tensor value = *Tensor::Empty(*memory, {1}, DType::kFloat32);
  const std::vector<ModelInput> inputs = {{"x", {1}}};
  EXPECT_TRUE(absl::IsInvalidArgument(MatchInputs(inputs, {{"x", value}, {"x", value}}).status()));
}

TEST(Inputs, RowsOfABatchAreViews) {
  const auto memory = *DeviceAllocator::Create(Device(), std::make_shared<Budget>("the test", int64_t{1} << 20, "--none"));
  const Tensor batch = *Tensor::Empty(*memory, {5, 3}, DType::kFloat32);
  const Tensor rows = RowsView(RowsView(batch, 1, 4), 2, 2);  // A view of a view.
  EXPECT_EQ(rows.shape(), Shape({2, 3}));
  EXPECT_EQ(rows.data<float>(), batch.data<float>() + 9);
  EXPECT_EQ(RowsView(batch, 5, 0).Size(), 0);
  EXPECT_EQ(RowsView(*Tensor::Empty(*memory, {0, 3}, DType::kFloat32), 0, 0).shape(), Shape({0, 3}));
}

}  // namespace
}  // namespace gluond
