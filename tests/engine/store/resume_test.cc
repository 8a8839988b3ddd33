// A run that is stopped, saved, and resumed in another model equals, bit for bit, the run that was not.

#include <unistd.h>

#include "engine/store/checkpoint.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

struct ResumeCase {
  const char* name;
  Spec optimizer;
};

class ResumeTest : public TrainerTest, public testing::WithParamInterface<ResumeCase> {
 protected:
  ResumeTest() : directory_(absl::StrCat(testing::TempDir(), "/resume_", getpid())) {
    EXPECT_OK(LocalFileSystem().RemoveTree(directory_));
  }
  ~ResumeTest() override { LocalFileSystem().RemoveTree(directory_).IgnoreError(); }

  const std::string directory_;
};

TEST_P(ResumeTest, EqualsTheRunThatWasNotStopped) {
  auto images = MakeImages(100, /*seed=*/5);
  // Dropout, running means, momentum, a schedule, clipping by the global norm, epochs that end within a call.
  const TrainerOptions options = {.optimizer = GetParam().optimizer,
                                  .lr_schedule = {"cosine", {{"max_update", "40"}, {"warmup_steps", "5"}}},
                                  .metrics = {{"accuracy", {}}},
                                  .clip_global_norm = 0.5};
  const DatasetSteps steps = {.dataset = images, .batch_size = 16, .steps = 11};
  const auto make = [&] {
    auto model = MakeModel(Mlp(24, 10, /*dropout=*/0.3), {{"data", {-1, 1, 28, 28}}}, /*seed=*/9);
    EXPECT_OK(Initialize(*model, {{"Xavier", {}}}));
    return MakeTrainer(model, options);
  };

  auto straight = make();
  ASSERT_OK(TrainSteps(*straight, steps).status());
  const auto expected = TrainSteps(*straight, steps);
  ASSERT_OK(expected.status());

  auto stopped = make();
  ASSERT_OK(TrainSteps(*stopped, steps).status());
  auto store = *CheckpointStore::Open(LocalFileSystem(), directory_);
  auto state = Await<absl::StatusOr<std::pair<ModelState, TrainerState>>>(
      [&](auto done) { stopped->Snapshot(done); });
  ASSERT_OK(state.status());
  ASSERT_OK(store->Save("halfway", {state->first, state->second}).status());
  stopped.reset();

  auto loaded = store->Load("halfway", *memory_);
  ASSERT_OK(loaded.status());
  auto model = Model::Create(loaded->model.definition, Options(/*seed=*/12345));
  ASSERT_OK(model.status());
  ASSERT_OK(Await<absl::Status>([&](auto done) { (*model)->Restore(loaded->model, done); }));
  auto resumed = MakeTrainer(*model, loaded->trainer->options);
  ASSERT_OK(Await<absl::Status>([&](auto done) { resumed->Restore(*loaded->trainer, done); }));
  EXPECT_EQ(resumed->step(), 11);
  const auto got = TrainSteps(*resumed, steps);
  ASSERT_OK(got.status());

  EXPECT_EQ(got->step, expected->step);
  EXPECT_EQ(got->loss, expected->loss);
  EXPECT_EQ(got->gradient_norm, expected->gradient_norm);
  EXPECT_EQ(got->learning_rate, expected->learning_rate);
  EXPECT_EQ(got->epoch, expected->epoch);
  EXPECT_EQ(got->next_row, expected->next_row);
  EXPECT_EQ(got->metrics[0].value, expected->metrics[0].value);
  auto want = *Get(*straight->model()), have = *Get(*resumed->model());
  ASSERT_EQ(want.size(), have.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(want[i].name, have[i].name);
    EXPECT_EQ(Bytes(want[i].tensor), Bytes(have[i].tensor)) << want[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ResumeTest, testing::ValuesIn<ResumeCase>({
    {"SgdMomentum", {"sgd", {{"learning_rate", "0.1"}, {"momentum", "0.9"}, {"wd", "0.001"}}}},
    {"Nag", {"nag", {{"learning_rate", "0.1"}, {"momentum", "0.9"}}}},
    {"Adam", {"adam", {{"learning_rate", "0.01"}}}},
    {"AdamW", {"adamw", {{"learning_rate", "0.01"}, {"wd", "0.01"}}}},
    {"RmsPropCentered", {"rmsprop", {{"learning_rate", "0.01"}, {"centered", "True"}}}},
}), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gluond
