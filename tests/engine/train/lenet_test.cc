// The whole path inside the engine: a LeNet from a tree of blocks, trained on rows of a dataset.

#include <chrono>
#include <cstdio>

#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

using LeNetTest = TrainerTest;

TEST_F(LeNetTest, LearnsWhereTheSquareIs) {
  auto model = MakeModel(LeNet(8, 16, 32), {{"data", {-1, 1, 28, 28}}});
  ASSERT_OK(Initialize(*model, {{"Xavier", {}}}));
  auto trainer =
      MakeTrainer(model, {.optimizer = {"sgd", {{"learning_rate", "0.05"}, {"momentum", "0.9"}}}, .metrics = {{"accuracy", {}}}});
  auto images = MakeImages(640, /*seed=*/3);
  auto first = TrainSteps(*trainer, {.dataset = images, .batch_size = 32, .steps = 1});
  ASSERT_OK(first.status());
  EXPECT_NEAR(first->loss, 2.3, 0.5);
  auto later = TrainSteps(*trainer, {.dataset = images, .batch_size = 32, .steps = 40});
  ASSERT_OK(later.status());
  EXPECT_EQ(later->step, 41);
  EXPECT_EQ(later->samples, 40 * 32);
  EXPECT_EQ(later->epoch, 2u);
  EXPECT_EQ(later->next_row, 32);
  auto evaluated = Evaluate(*trainer, MakeImages(200, /*seed=*/4), 64);
  ASSERT_OK(evaluated.status());
  EXPECT_EQ(evaluated->samples, 200);
  EXPECT_GT(evaluated->metrics[0].value, 0.95);
}

}  // namespace
}  // namespace gluond
