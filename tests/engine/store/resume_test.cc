// A run that is stopped, saved and resumed by fresh objects equals, bit for bit, the run that was not.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/store/checkpoint.h"
#include "engine/store/state_json.h"
#include "tests/engine/store/store_fixture.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

struct Recipe {
  const char* name;
  Spec optimizer;
  Spec lr_schedule;
};

class ResumeTest : public TrainerTest, public testing::WithParamInterface<Recipe> {
 protected:
  static constexpr int64_t kSteps = 24;  // Of 7 in an epoch, so that the cut lies in the middle of one.

  static std::optional<DatasetPosition> Start() { return DatasetPosition{/*seed=*/5, 0, 0}; }

  ResumeTest() : dataset_(MakeImages(250, 3)) {}

  std::shared_ptr<Trainer> Begin() {
    const auto model = MakeModel(Net(), {{"data", {-1, 1, 28, 28}}});
    EXPECT_OK(Initialize(*model, {{"Xavier", {}}, false}));
    return MakeTrainer(model, {.optimizer = GetParam().optimizer,
                               .lr_schedule = GetParam().lr_schedule,
                               .metrics = {{"accuracy", {}}},
                               .clip_global_norm = 1.5,
                               .report_norm = false});
  }
  static BlockSpec Net() {
    return {"HybridSequential",
            "",
            {},
            {{"Flatten", "", {}, {}},
             {"Dense", "", {{"units", "32"}, {"activation", "relu"}}, {}},
             {"BatchNorm", "", {}, {}},
             {"Dropout", "", {{"rate", "0.3"}}, {}},
             {"Dense", "", {{"units", "10"}}, {}}}};
  }

  StepReport Train(Trainer& trainer, int64_t steps, std::optional<DatasetPosition> from = {}) {
    const absl::StatusOr<StepReport> report = TrainSteps(trainer, {dataset_, 32, steps, from});
    EXPECT_OK(report);
    return report.ok() ? *report : StepReport();
  }

  static Checkpoint Snapshot(Trainer& trainer) {
    using State = absl::StatusOr<std::pair<ModelState, TrainerState>>;
    State state = Await<State>([&](auto done) { trainer.Snapshot(done); });
    EXPECT_OK(state);
    return {std::move(state->first), std::move(state->second)};
  }
  // Trains half of the way, saves, and throws everything away.
  void TrainHalfAndSave() {
    const auto trainer = Begin();
    Train(*trainer, kSteps / 2, Start());
    ASSERT_OK(OpenStore()->Save("half", Snapshot(*trainer)));
  }
  std::unique_ptr<CheckpointStore> OpenStore() const { return *CheckpointStore::Open(LocalFileSystem(), directory_.path()); }

  std::shared_ptr<Trainer> Resume(Checkpoint checkpoint) {
    const auto model = *Model::Create(checkpoint.model.definition, Options(/*seed=*/99));
    const auto trainer = MakeTrainer(model, checkpoint.trainer->options);
    EXPECT_OK(Await<absl::Status>(
        [&](auto done) { model->Restore(checkpoint.model, done, [&] { return trainer->RestoreNow(*checkpoint.trainer); }); }));
    return trainer;
  }

  static std::string BytesOf(const NamedTensors& tensors) {
    std::string text;
    for (const NamedTensor& named : tensors) absl::StrAppend(&text, named.name, "=", Bytes(named.tensor), ";");
    return text;
  }

  const std::shared_ptr<Dataset> dataset_;
  const TemporaryDirectory directory_;
};

TEST_P(ResumeTest, EqualsTheRunThatWasNotStopped) {
  const auto straight = Begin();
  const StepReport expected_first = Train(*straight, kSteps / 2, Start());
  const StepReport expected_report = Train(*straight, kSteps / 2);
  const Checkpoint expected = Snapshot(*straight);

  TrainHalfAndSave();
  const auto resumed = Resume(*OpenStore()->Load("half", *memory_));
  EXPECT_EQ(resumed->step(), kSteps / 2);
  const StepReport report = Train(*resumed, kSteps / 2);
  const Checkpoint got = Snapshot(*resumed);

  EXPECT_EQ(report.step, kSteps);
  EXPECT_EQ(report.loss, expected_report.loss);
  EXPECT_NE(report.loss, expected_first.loss);
  EXPECT_EQ(report.gradient_norm, expected_report.gradient_norm);
  EXPECT_EQ(report.learning_rate, expected_report.learning_rate);
  EXPECT_EQ(report.metrics[0].value, expected_report.metrics[0].value);
  EXPECT_EQ(report.next_row, expected_report.next_row);
  EXPECT_EQ(BytesOf(got.model.parameters), BytesOf(expected.model.parameters));
  EXPECT_EQ(BytesOf(got.trainer->states), BytesOf(expected.trainer->states));
  EXPECT_EQ(TrainerToJson(*got.trainer).Dump(), TrainerToJson(*expected.trainer).Dump());
  EXPECT_EQ(RandomToJson(got.model.random).Dump(), RandomToJson(expected.model.random).Dump());
  EXPECT_EQ(DefinitionToJson(got.model.definition).Dump(), DefinitionToJson(expected.model.definition).Dump());
}

// Each piece of the state matters: without it the same run ends with other bits. So the test above can fail.
TEST_P(ResumeTest, NoPieceOfTheStateIsIdle) {
  const auto straight = Begin();
  Train(*straight, kSteps, Start());
  const std::string expected = BytesOf(Snapshot(*straight).model.parameters);
  TrainHalfAndSave();
  const std::vector<std::pair<const char*, std::function<void(Checkpoint*)>>> losses = {
      {"random state", [](Checkpoint* c) { c->model.random.runs = 0; }},
      {"position", [](Checkpoint* c) { c->trainer->position.row = 0; }},
      {"order of the rows", [](Checkpoint* c) { c->trainer->position.seed = 6; }},
      {"optimizer", [](Checkpoint* c) { c->trainer->states.clear(); }},
      {"step number",
       [](Checkpoint* c) {
         c->trainer->step = 0;
         for (auto& [name, updates] : c->trainer->updates) updates = 0;
       }},
      {"running means", [](Checkpoint* c) {
         for (NamedTensor& p : c->model.parameters) {
           if (p.name.find("running") != std::string::npos) p.tensor.data<float>()[0] += 1;
         }
       }}};
  for (const auto& [what, lose] : losses) {
    Checkpoint checkpoint = *OpenStore()->Load("half", *memory_);
    lose(&checkpoint);
    const auto resumed = Resume(std::move(checkpoint));
    Train(*resumed, kSteps / 2);
    EXPECT_NE(BytesOf(Snapshot(*resumed).model.parameters), expected) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, ResumeTest,
    testing::Values(Recipe{"MomentumAndCosine",
                           {"sgd", {{"learning_rate", "0.1"}, {"momentum", "0.9"}, {"wd", "0.001"}}},
                           {"cosine", {{"max_update", "40"}, {"warmup_steps", "5"}}}},
                    Recipe{"AdamAndFactor", {"adam", {{"learning_rate", "0.01"}}}, {"factor", {{"step", "5"}, {"factor", "0.7"}}}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gluond
