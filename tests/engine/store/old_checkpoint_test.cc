// Checkpoints that earlier servers wrote still load, and the training goes on from them. testdata/format_<version> is a
// store with one checkpoint, `small`, after three steps of the training below.

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/store/checkpoint.h"
#include "tests/engine/store/store_fixture.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

class OldCheckpointTest : public TrainerTest, public testing::WithParamInterface<int> {
 protected:
  // The files of a test may be links, and the store follows none: it gets copies.
  OldCheckpointTest() {
    namespace fs = std::filesystem;
    const fs::path from = absl::StrCat("tests/engine/store/testdata/format_", GetParam());
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from)) {
      const fs::path to = fs::path(directory_.path()) / entry.path().lexically_relative(from);
      fs::create_directories(entry.is_directory() ? to : to.parent_path());
      if (!entry.is_directory()) WriteFileBytes(to, ReadFileBytes(entry.path()));
    }
    store_ = *CheckpointStore::Open(LocalFileSystem(), directory_.path());
  }

  // Step `i`'s batch: six rows of three kinds.
  NamedTensors Batch(int i) {
    std::vector<float> data;
    std::vector<int32_t> label;
    for (int row = 0; row < 6; ++row) {
      label.push_back((row + i) % 3);
      for (int j = 0; j < 4; ++j) data.push_back(static_cast<float>(label.back() == j) + 0.125f * static_cast<float>(row));
    }
    return {{"data", Make<float>({6, 4}, data)}, {"label", Make<int32_t>({6}, label)}};
  }

  const TemporaryDirectory directory_;
  std::unique_ptr<CheckpointStore> store_;
};

TEST_P(OldCheckpointTest, LoadsAndTheTrainingGoesOn) {
  absl::StatusOr<Checkpoint> checkpoint = store_->Load("small", *memory_);
  ASSERT_OK(checkpoint.status());
  EXPECT_EQ(checkpoint->model.random.seed, 7u);
  EXPECT_EQ(checkpoint->model.random.runs, 3u);
  ASSERT_TRUE(checkpoint->trainer.has_value());
  EXPECT_EQ(checkpoint->trainer->step, 3);
  EXPECT_EQ(checkpoint->trainer->options.clip_global_norm, 1.5);
  const auto model = *Model::Create(checkpoint->model.definition, Options(/*seed=*/7));
  const auto trainer = MakeTrainer(model, checkpoint->trainer->options);
  ASSERT_OK(Await<absl::Status>(
      [&](auto done) { model->Restore(checkpoint->model, done, [&] { return trainer->RestoreNow(*checkpoint->trainer); }); }));
  const double losses[] = {1.8737313747406006, 1.5390089750289917};  // The server's that wrote it.
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<StepReport> report = TrainStep(*trainer, Batch(4 + i));
    ASSERT_OK(report.status());
    EXPECT_NEAR(report->loss, losses[i], 1e-5);
    EXPECT_EQ(report->learning_rate, i == 0 ? 0.025 : 0.0125);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, OldCheckpointTest, testing::Values(1));

}  // namespace
}  // namespace gluond
