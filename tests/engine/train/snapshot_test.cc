// A snapshot holds the memory of a model and its trainer: whoever writes that next writes to other memory.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

class SnapshotTest : public TrainerTest {
 protected:
  std::shared_ptr<Trainer> Begin(const BlockSpec& net) {
    const auto model = MakeModel(net, {{"data", {-1, 4}}});
    EXPECT_OK(Initialize(*model, {{"Xavier", {}}}));
    return MakeTrainer(model, {.optimizer = {"adam", {{"learning_rate", "0.1"}}}});
  }
  absl::Status Train(Trainer& trainer) { return TrainStep(trainer, batch_).status(); }

  static std::vector<Tensor> TensorsOf(const States& states) {
    std::vector<Tensor> tensors;
    for (const NamedTensor& each : states.first.parameters) tensors.push_back(each.tensor);
    for (const NamedTensor& each : states.second.states) tensors.push_back(each.tensor);
    return tensors;
  }
  static std::string BytesOf(const States& states) {
    std::string bytes;
    for (const Tensor& tensor : TensorsOf(states)) bytes += Bytes(tensor);
    return bytes;
  }
  // Running means have two places, which take turns.
  static std::vector<const void*> PlacesOf(const States& states) {
    std::vector<const void*> places;
    for (const NamedTensors* tensors : {&states.first.parameters, &states.second.states}) {
      for (const NamedTensor& each : *tensors) {
        if (!absl::StrContains(each.name, "running_")) places.push_back(each.tensor.data());
      }
    }
    return places;
  }

  const NamedTensors batch_ = {{"data", MakeNoise({6, 4}, 3)}, {"label", Make<float>({6}, {0, 1, 2, 0, 1, 2})}};
};

TEST_F(SnapshotTest, StaysAsItIsWhileStepsGoOn) {
  const auto straight = Begin(Mlp(8, 3)), disturbed = Begin(Mlp(8, 3));
  for (int i = 0; i < 4; ++i) ASSERT_OK(Train(*straight));
  ASSERT_OK(Train(*disturbed));
  const int64_t used = budget_->used();
  {
    const States held = SnapshotOf(*disturbed);
    const std::string bytes = BytesOf(held);
    EXPECT_EQ(budget_->used(), used);
    for (int i = 0; i < 3; ++i) ASSERT_OK(Train(*disturbed));
    EXPECT_EQ(BytesOf(held), bytes);
    EXPECT_EQ(budget_->used(), used + static_cast<int64_t>(bytes.size()));
  }
  EXPECT_EQ(budget_->used(), used);
  EXPECT_EQ(BytesOf(SnapshotOf(*disturbed)), BytesOf(SnapshotOf(*straight)));
}

// Graphs that predict and evaluate are around; between two runs they hold nothing.
TEST_F(SnapshotTest, WithoutOneStepsAreInPlace) {
  const auto trainer = Begin(Mlp(8, 3));
  ASSERT_OK(Predict(*trainer->model(), {{"data", MakeNoise({6, 4}, 3)}}));
  ASSERT_OK(Train(*trainer));
  std::optional<States> held = SnapshotOf(*trainer);
  const std::vector<const void*> first = PlacesOf(*held);
  ASSERT_OK(Train(*trainer));
  const std::vector<const void*> second = PlacesOf(SnapshotOf(*trainer));
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NE(second[i], first[i]) << i;
  ASSERT_OK(Train(*trainer));
  EXPECT_EQ(PlacesOf(SnapshotOf(*trainer)), second);
  held.reset();
  ASSERT_OK(Train(*trainer));
  EXPECT_EQ(PlacesOf(SnapshotOf(*trainer)), second);
}

TEST_F(SnapshotTest, AStepThatFindsNoOtherMemoryChangesNothing) {
  const auto straight = Begin(Mlp(8, 3, /*dropout=*/0.5)), disturbed = Begin(Mlp(8, 3, /*dropout=*/0.5));
  for (int i = 0; i < 2; ++i) ASSERT_OK(Train(*straight));
  ASSERT_OK(Train(*disturbed));
  {
    const States held = SnapshotOf(*disturbed);
    const std::string bytes = BytesOf(held);
    std::optional<Tensor> rest =
        *Tensor::Empty(*memory_, {budget_->limit() - budget_->used() - static_cast<int64_t>(bytes.size() / 2)}, DType::kUint8);
    EXPECT_EQ(Train(*disturbed).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(BytesOf(SnapshotOf(*disturbed)), bytes);
    EXPECT_EQ(disturbed->step(), 1);
    rest.reset();
    ASSERT_OK(Train(*disturbed));
  }
  EXPECT_EQ(BytesOf(SnapshotOf(*disturbed)), BytesOf(SnapshotOf(*straight)));
}

TEST_F(SnapshotTest, AStepByHandThatFindsNoOtherMemoryCanBeRepeated) {
  const auto trainer = Begin(Mlp(8, 3));
  ASSERT_OK(Train(*trainer));
  for (int i = 0; i < 2; ++i) {  // The first step makes its program.
    if (i > 0) {
      ASSERT_OK(Step(*trainer, 6).status());
    }
    ASSERT_OK(Forward(*trainer->model(), {{"data", MakeNoise({6, 4}, 5)}}));
    ASSERT_OK(Backward(*trainer->model()));
  }
  const States held = SnapshotOf(*trainer);
  std::optional<Tensor> rest = *Tensor::Empty(*memory_, {budget_->limit() - budget_->used()}, DType::kUint8);
  const absl::Status refused = Step(*trainer, 6).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("a checkpoint being saved"), absl::string_view::npos) << refused;
  rest.reset();
  EXPECT_OK(Step(*trainer, 6).status());
}

TEST_F(SnapshotTest, StaysAsItIsWhateverWrites) {
  const auto trainer = Begin(Mlp(8, 3));
  Model& model = *trainer->model();
  ASSERT_OK(Train(*trainer));
  const States at_first = SnapshotOf(*trainer);
  const Tensor x = MakeNoise({6, 4}, 5);
  const std::vector<std::pair<const char*, std::function<absl::Status()>>> writers = {
      {"forward",
       [&] {
         return Forward(model, {{"data", x}}).status();
       }},
      {"backward", [&] { return Backward(model).status(); }},
      {"step", [&] { return Step(*trainer, 6).status(); }},
      {"initialize",
       [&] {
         return Initialize(model, {{"Uniform", {}}, /*force_reinit=*/true});
       }},
      {"set parameters", [&] { return Set(model, at_first.first.parameters); }},
      {"set states",
       [&] {
         NamedTensors states = at_first.second.states;
         for (NamedTensor& each : states) each.tensor = MakeNoise(each.tensor.shape(), 7);
         return Await<absl::Status>([&](auto done) { trainer->SetStates(states, {}, done); });
       }},
      {"restore", [&] {
         return Await<absl::Status>(
             [&](auto done) { model.Restore(at_first.first, done, [&] { return trainer->RestoreNow(at_first.second); }); });
       }}};
  std::vector<std::pair<States, std::string>> snapshots;
  for (const auto& [name, write] : writers) {
    const States before = SnapshotOf(*trainer);
    snapshots.emplace_back(before, BytesOf(before));
    ASSERT_OK(write()) << name;
    EXPECT_EQ(BytesOf(SnapshotOf(*trainer)) == snapshots.back().second, name == std::string("backward")) << name;
    for (const auto& [held, bytes] : snapshots) EXPECT_EQ(BytesOf(held), bytes) << name;
  }
  EXPECT_EQ(BytesOf(SnapshotOf(*trainer)), BytesOf(at_first));
}

}  // namespace
}  // namespace gluond
