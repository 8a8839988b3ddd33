// What tests of trainers share: two small nets, batches for them, and calls that wait.

#ifndef TESTS_ENGINE_TRAIN_TRAINER_FIXTURE_H_
#define TESTS_ENGINE_TRAIN_TRAINER_FIXTURE_H_

#include <memory>
#include <utility>
#include <vector>

#include "engine/train/trainer.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {

class TrainerTest : public ModelTest {
 protected:
  static BlockSpec LeNet(int filters1 = 20, int filters2 = 50, int hidden = 500) {
    const auto conv = [](int channels) {
      return BlockSpec{"Conv2D", "", {{"channels", absl::StrCat(channels)}, {"kernel_size", "5"}, {"activation", "relu"}}, {}};
    };
    const BlockSpec pool = {"MaxPool2D", "", {{"pool_size", "2"}, {"strides", "2"}}, {}};
    return {"HybridSequential",
            "",
            {},
            {conv(filters1),
             pool,
             conv(filters2),
             pool,
             {"Dense", "", {{"units", absl::StrCat(hidden)}, {"activation", "relu"}}, {}},
             {"Dense", "", {{"units", "10"}}, {}}}};
  }
  static BlockSpec Mlp(int hidden, int classes, double dropout = 0) {
    return {"HybridSequential",
            "",
            {},
            {{"Dense", "", {{"units", absl::StrCat(hidden)}, {"activation", "relu"}}, {}},
             {"BatchNorm", "", {}, {}},
             {"Dropout", "", {{"rate", absl::StrCat(dropout)}}, {}},
             {"Dense", "", {{"units", absl::StrCat(classes)}}, {}}}};
  }

  std::shared_ptr<Trainer> MakeTrainer(std::shared_ptr<Model> model, TrainerOptions options) {
    absl::StatusOr<std::shared_ptr<Trainer>> trainer = Trainer::Create(std::move(model), std::move(options));
    EXPECT_OK(trainer.status());
    return *std::move(trainer);
  }

  static absl::StatusOr<StepReport> TrainStep(Trainer& trainer, NamedTensors inputs, TrainStepOptions options = {}) {
    return Await<absl::StatusOr<StepReport>>([&](auto done) { trainer.TrainStep(inputs, options, nullptr, done); });
  }
  static absl::StatusOr<StepReport> TrainSteps(Trainer& trainer, DatasetSteps steps) {
    return Await<absl::StatusOr<StepReport>>([&](auto done) { trainer.TrainSteps(steps, nullptr, done); });
  }
  static absl::StatusOr<StepReport> Step(Trainer& trainer, int64_t batch_size, bool ignore_stale_grad = false,
                                         std::shared_ptr<Cancellation> cancellation = nullptr) {
    return Await<absl::StatusOr<StepReport>>([&](auto done) { trainer.Step(batch_size, ignore_stale_grad, cancellation, done); });
  }
  static absl::StatusOr<EvaluateReport> Evaluate(Trainer& trainer, std::shared_ptr<const Dataset> dataset, int64_t batch_size,
                                                 int64_t first = 0, int64_t count = 0) {
    return Await<absl::StatusOr<EvaluateReport>>(
        [&](auto done) { trainer.Evaluate(dataset, batch_size, first, count, nullptr, done); });
  }

  // The states that a checkpoint keeps.
  using States = std::pair<ModelState, TrainerState>;
  static States SnapshotOf(Trainer& trainer) {
    auto states = Await<absl::StatusOr<States>>([&](auto done) { trainer.Snapshot(done); });
    EXPECT_OK(states.status());
    return *std::move(states);
  }
  static absl::Status Restore(Trainer& trainer, Model& model, const States& states) {
    return Await<absl::Status>(
        [&](auto done) { model.Restore(states.first, done, [&] { return trainer.RestoreNow(states.second); }); });
  }

  // `rows` samples of noise with a bright square whose place tells the class, one of ten; pixels are bytes.
  std::shared_ptr<Dataset> MakeImages(int64_t rows, uint64_t seed) {
    auto dataset = *Dataset::Create({{"data", {1, 28, 28}, DType::kUint8, 1 / 255.0}, {"label", Shape::Scalar(), DType::kUint8}},
                                    rows, *memory_);
    const Philox random = {seed, 1, 1};
    std::string pixels, labels;
    for (int64_t r = 0; r < rows; ++r) {
      const int label = static_cast<int>(r % 10);
      labels.push_back(static_cast<char>(label));
      for (int i = 0; i < 784; ++i) {
        const int x = i % 28, y = i / 28, x0 = 2 + 5 * (label % 5), y0 = 4 + 12 * (label / 5);
        const bool lit = x >= x0 && x < x0 + 5 && y >= y0 && y < y0 + 6;
        const uint32_t noise = random.Word(static_cast<uint64_t>(r * 784 + i)) >> 25;  // 0 to 127.
        pixels.push_back(static_cast<char>(lit ? 128 + noise : noise));
      }
    }
    EXPECT_OK(dataset->Append("data", pixels));
    EXPECT_OK(dataset->Append("label", labels));
    EXPECT_OK(dataset->Commit());
    return dataset;
  }
};

}  // namespace gluond

#endif  // TESTS_ENGINE_TRAIN_TRAINER_FIXTURE_H_
