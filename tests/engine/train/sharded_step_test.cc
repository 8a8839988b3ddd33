// A step in shards: the same bits for every number of processes.

#include <limits>
#include <string>

#include "engine/train/sharded_step.h"
#include "gtest/gtest.h"
#include "tests/engine/train/sharded_fixture.h"

namespace gluond {
namespace {

struct Nets : TrainerTest {
  using TrainerTest::LeNet;
  using TrainerTest::Mlp;
};

class EqualBitsTest : public ShardedStepTest, public testing::WithParamInterface<ShardedCase> {};

TEST_P(EqualBitsTest, ForEveryNumberOfProcesses) {
  const ShardedCase& c = GetParam();
  for (const int64_t shards : {1, 2, 8}) {
    const std::string alone = ResultOf(c, shards, 1);
    for (size_t size = 2; static_cast<int64_t>(size) <= shards; size *= 2) {
      EXPECT_EQ(ResultOf(c, shards, size), alone) << shards << " shards, " << size << " processes";
      if (HasFailure()) return;
    }
  }
}

// One shard is the same as none, within rounding.
TEST_P(EqualBitsTest, AsAStepWithoutShards) {
  const ShardedCase& c = GetParam();
  if (c.options.optimizer.type == "sgld") return;  // Its noise is that of an update alone.
  Group one = MakeGroup(c, 1, 1), plain = MakeGroup(c, 1, 1), four = MakeGroup(c, 4, 2);
  for (uint64_t t = 3; t < 6; ++t) {
    const StepReport in_one = ShardedSteps(one, BatchOf(c, t));
    const absl::StatusOr<StepReport> report = TrainStep(*plain.trainers[0], BatchOf(c, t));
    ASSERT_OK(report.status());
    EXPECT_NEAR(in_one.loss, report->loss, 1e-5);
    EXPECT_NEAR(in_one.gradient_norm, report->gradient_norm, 1e-3 * report->gradient_norm + 1e-6);
    EXPECT_EQ(in_one.metrics.size(), report->metrics.size());
    EXPECT_EQ(in_one.samples, report->samples);
    EXPECT_EQ(ShardedSteps(four, BatchOf(c, t)).samples, report->samples);
  }
  const States a = SnapshotOf(*one.trainers[0]), b = SnapshotOf(*plain.trainers[0]);
  ASSERT_EQ(a.first.parameters.size(), b.first.parameters.size());
  for (size_t i = 0; i < a.first.parameters.size(); ++i) {
    const Tensor &x = a.first.parameters[i].tensor, &y = b.first.parameters[i].tensor;
    if (x.dtype() != DType::kFloat32) continue;
    for (int64_t k = 0; k < x.Size(); ++k) ASSERT_NEAR(x.data<float>()[k], y.data<float>()[k], 1e-4) << c.name;
  }
}

BlockSpec Convolutions() {
  return {"HybridSequential",
          "",
          {},
          {{"Conv2D", "", {{"channels", "4"}, {"kernel_size", "3"}}, {}},
           {"BatchNorm", "", {}, {}},
           {"Activation", "", {{"activation", "relu"}}, {}},
           {"MaxPool2D", "", {{"pool_size", "2"}, {"strides", "2"}}, {}},
           {"Dense", "", {{"units", "3"}}, {}}}};
}
BlockSpec Words() {
  return {"HybridSequential",
          "",
          {},
          {{"Embedding", "", {{"input_dim", "7"}, {"output_dim", "4"}}, {}}, {"Dense", "", {{"units", "3"}}, {}}}};
}
BlockSpec Halves() {
  return {"HybridSequential",
          "",
          {},
          {{"Dense", "", {{"units", "6"}, {"activation", "relu"}, {"dtype", "float16"}}, {}},
           {"Dense", "", {{"units", "3"}, {"dtype", "float16"}}, {}}}};
}

INSTANTIATE_TEST_SUITE_P(
    Nets, EqualBitsTest,
    testing::ValuesIn<ShardedCase>({
        {"Dense", Nets::Mlp(8, 3), {{"data", {-1, 5}}}, 16, {.optimizer = kMomentum, .metrics = {{"accuracy", {}}}}},
        {"Dropout", Nets::Mlp(8, 3, 0.5), {{"data", {-1, 5}}}, 16, {.optimizer = kAdam}},
        {"Unequal", Nets::Mlp(8, 3, 0.5), {{"data", {-1, 5}}}, 13, {.optimizer = kAdam, .metrics = {{"loss", {}}}}},
        {"FewRows",
         Nets::Mlp(8, 3, 0.2),
         {{"data", {-1, 5}}},
         3,
         {.optimizer = kMomentum, .metrics = {{"accuracy", {}}, {"pcc", {}}}}},
        {"Deferred", Nets::Mlp(8, 3, 0.2), {{"data", {-1, -1}}}, 3, {.optimizer = kAdam}},
        {"Convolution", Convolutions(), {{"data", {-1, 2, 8, 8}}}, 10, {.optimizer = kMomentum, .metrics = {{"accuracy", {}}}}},
        {"LeNet", Nets::LeNet(), {{"data", {-1, 1, 28, 28}}}, 37, {.optimizer = kMomentum}},
        {"Wide", Nets::Mlp(700, 3, 0.3), {{"data", {-1, 300}}}, 150, {.optimizer = kMomentum}},
        {"Embedding", Words(), {{"data", {-1, 6}}}, 11, {.optimizer = kAdam}, GradReq::kWrite, true},
        {"Half",
         Halves(),
         {{"data", {-1, 5}, DType::kFloat16}},
         16,
         {.optimizer = {"sgd", {{"learning_rate", "0.05"}, {"multi_precision", "True"}}}}},
        {"Add", Nets::Mlp(8, 3), {{"data", {-1, 5}}}, 13, {.optimizer = kMomentum}, GradReq::kAdd},
        {"Clip", Nets::Mlp(8, 3), {{"data", {-1, 5}}}, 13, {.optimizer = kAdam, .clip_global_norm = 0.01}},
        {"NoNorm", Nets::Mlp(8, 3), {{"data", {-1, 5}}}, 13, {.optimizer = {"sgld", {}}, .report_norm = false}},
    }),
    [](const auto& info) { return info.param.name; });

TEST_F(ShardedStepTest, ASumIsThatOfTheSlices) {
  // A linear net without rounding: gradients of all rows, whatever the number of shards.
  ShardedCase c{"Linear",
                {"Dense", "", {{"units", "1"}, {"use_bias", "0"}}},
                {{"data", {-1, 2}}},
                5,
                {.loss = {"L2Loss", {}}, .optimizer = {"sgd", {{"learning_rate", "1"}}}}};
  Group group = MakeGroup(c, 4, 2);
  for (const auto& model : group.models) ASSERT_OK(Set(*model, {{"weight", Make<float>({1, 2}, {1, 1})}}));
  const StepReport report = ShardedSteps(
      group, {{"data", Make<float>({5, 2}, {1, 2, 3, 4, 1, 0, 0, 1, 2, 2})}, {"label", Make<float>({5}, {0, 0, 0, 0, 0})}});
  // y = {3, 7, 1, 1, 4}; the gradient is y' x / 5 = {33, 43} / 5.
  EXPECT_EQ(Values((*Get(*group.models[0]))[0].tensor), (std::vector<float>{1 - 33.0f * 0.2f, 1 - 43.0f * 0.2f}));
  EXPECT_DOUBLE_EQ(report.loss, (9 + 49 + 1 + 1 + 16) / 2.0 / 5);
  EXPECT_EQ(report.samples, 5);
  EXPECT_EQ(report.step, 1);
}

// The gradients of grad_req add go on from step to step until somebody zeroes them, as without shards.
TEST_F(ShardedStepTest, WhatIsNewIsAddedToTheSums) {
  ShardedCase c = {"Add", Mlp(8, 3), {{"data", {-1, 5}}}, 13, {.optimizer = kMomentum}, GradReq::kAdd};
  Group one = MakeGroup(c, 1, 1), four = MakeGroup(c, 4, 4), plain = MakeGroup(c, 1, 1);
  const auto values = [](Group& group, bool sums) {
    const absl::StatusOr<NamedTensors> tensors = sums ? Gradients(*group.models[0]) : Get(*group.models[0]);
    EXPECT_OK(tensors.status());
    return *tensors;
  };
  for (uint64_t t = 0; t < 4; ++t) {
    if (t == 2) {
      for (Group* group : {&one, &four, &plain}) {
        for (const auto& model : group->models) {
          ASSERT_OK(Await<absl::Status>([&](auto done) { model->ZeroGradients(done); }));
        }
      }
    }
    ShardedSteps(one, BatchOf(c, t)), ShardedSteps(four, BatchOf(c, t));
    ASSERT_OK(TrainStep(*plain.trainers[0], BatchOf(c, t)).status());
    for (const bool sums : {true, false}) {
      const NamedTensors expected = values(plain, sums), in_one = values(one, sums);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(Bytes(in_one[i].tensor), Bytes(expected[i].tensor)) << expected[i].name << ", step " << t;
      }
      if (!sums) continue;
      for (const auto& trainer : four.trainers) EXPECT_EQ(StateOf(*trainer, true), StateOf(*four.trainers[0], true));
    }
  }
}

// A leader sends the sums that a member lacks while they are as they were.
TEST_F(ShardedStepTest, SumsThatSomebodyHoldsStayAsTheyAre) {
  ShardedCase c = {"Add", Mlp(8, 3), {{"data", {-1, 5}}}, 13, {.optimizer = kMomentum, .skip_nonfinite = true}, GradReq::kAdd};
  Group group = MakeGroup(c, 2, 1);
  const auto held = [&group] { return group.models[0]->parameters()[0].grad; };
  for (int change = 0; change < 3; ++change) {
    ShardedSteps(group, BatchOf(c, 1));
    const Tensor sum = held();
    const std::string before = Bytes(sum);
    NamedTensors batch = BatchOf(c, 2);
    if (change == 1) batch[0].tensor.data<float>()[0] = std::numeric_limits<float>::infinity();  // Skips, which zeroes.
    if (change < 2) {
      ShardedSteps(group, batch);
    } else {
      ASSERT_OK(Await<absl::Status>([&](auto done) { group.models[0]->ZeroGradients(done); }));
    }
    EXPECT_EQ(Bytes(sum), before) << change;
    EXPECT_NE(Bytes(held()), before) << change;
    EXPECT_EQ(Bytes(held()) == std::string(before.size(), '\0'), change > 0) << change;
  }
}

TEST_F(ShardedStepTest, RunningMeansAreWeighedByRows) {
  ShardedCase c{"Norm", {"BatchNorm", "", {{"momentum", "0"}}}, {{"data", {-1, 1}}}, 3, {.loss = {}}};
  Group group = MakeGroup(c, 2, 2);  // Shards of one row and of two.
  ShardedSteps(group, {{"data", Make<float>({3, 1}, {6, 1, 2})}});
  for (const auto& model : group.models) {
    EXPECT_NEAR(Values((*Get(*model, {"running_mean"}))[0].tensor)[0], (6 * 1 + 1.5 * 2) / 3, 1e-6);
  }
}

TEST_F(ShardedStepTest, ASkippedStepIsSkippedByAll) {
  ShardedCase c = Dense();
  c.options = {.optimizer = kAdam, .skip_nonfinite = true};
  Group group = MakeGroup(c, 4, 4);
  ShardedSteps(group, BatchOf(c, 1));
  const std::string before = StateOf(*group.trainers[0], false);
  NamedTensors batch = BatchOf(c, 2);
  batch[0].tensor.data<float>()[0] = std::numeric_limits<float>::infinity();  // The first rank's alone.
  for (const absl::Status& status : Compute(group, batch)) ASSERT_OK(status);
  for (const auto& trainer : group.trainers) {
    const absl::StatusOr<StepReport> report = Apply(*trainer);
    ASSERT_OK(report.status());
    EXPECT_TRUE(report->nonfinite);
    EXPECT_EQ(report->skipped, 1);
    EXPECT_EQ(report->step, 1);
  }
  const std::string after = StateOf(*group.trainers[0], false);
  EXPECT_EQ(after.substr(after.find('\n')), before.substr(before.find('\n'))) << "random numbers alone go on";
  for (const auto& trainer : group.trainers) EXPECT_EQ(StateOf(*trainer, false), after);
}

}  // namespace
}  // namespace gluond
