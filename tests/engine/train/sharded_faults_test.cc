// A step in shards that fails, or is dropped, has changed nothing; when and what it hands over; what is refused.

#include <atomic>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/nn/node_spec.h"
#include "engine/train/sharded_step.h"
#include "gmock/gmock.h"
#include "tests/engine/train/sharded_fixture.h"

namespace gluond {
namespace {

using testing::HasSubstr;

std::atomic<int> shard_calls_left = std::numeric_limits<int>::max();

// Adds each view to itself at once, as if another rank had the same.
class EagerReduction final : public GradientReducer {
 public:
  void Start(const View& view) override {
    calls_left_.push_back(shard_calls_left);
    for (int64_t i = 0; i < view.elements; ++i) {
      if (view.dtype == DType::kFloat32) static_cast<float*>(view.data)[i] *= 2;
      if (view.dtype == DType::kFloat64) static_cast<double*>(view.data)[i] *= 2;
    }
  }
  void Finish(std::function<void(absl::Status)> done) override { done(absl::OkStatus()); }
  void Abort() override {}
  // The calls that shard_calls_left allowed still, at each Start.
  const std::vector<int>& calls_left() const { return calls_left_; }

 private:
  std::vector<int> calls_left_;
};

// The identity, of which shard_calls_left calls succeed.
struct ShardFuse {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                          absl::Span<const TBlob> out) {
    if (--shard_calls_left < 0) return absl::UnavailableError("the fuse of shards");
    for (int64_t i = 0; i < out[0].Size(); ++i) {
      float& y = out[0].dptr<float>()[i];
      y = req[0] == kAddTo ? y + in[0].dptr<float>()[i] : in[0].dptr<float>()[i];
    }
    return absl::OkStatus();
  }
};
GLUOND_REGISTER_OP_NAMED(t_shard_fuse, "t_shard_fuse")
    .describe("The identity, whose calls may be made to fail.")
    .set_num_inputs(1)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const Gradients& dy) -> absl::StatusOr<Gradients> {
                           return Gradients{MakeNode("t_shard_fuse", "back", {dy[0]})};
                         })
    .compute<ShardFuse>();

class ShardedFaultsTest : public ShardedStepTest {
 protected:
  ~ShardedFaultsTest() override { shard_calls_left = std::numeric_limits<int>::max(); }
};

TEST_F(ShardedFaultsTest, ADroppedStepHasChangedNothing) {
  for (const GradReq req : {GradReq::kWrite, GradReq::kAdd}) {
    ShardedCase c = Dense();
    c.options = {.optimizer = kAdam, .metrics = {{"accuracy", {}}}};
    c.req = req;
    Group group = MakeGroup(c, 4, 2), straight = MakeGroup(c, 4, 2);
    ShardedSteps(group, BatchOf(c, 1)), ShardedSteps(straight, BatchOf(c, 1));
    const std::string before = StateOf(*group.trainers[0], req == GradReq::kAdd);
    for (const absl::Status& status : Compute(group, BatchOf(c, 2))) ASSERT_OK(status);
    for (const auto& trainer : group.trainers) ASSERT_OK(Drop(*trainer));
    for (const auto& trainer : group.trainers) EXPECT_EQ(StateOf(*trainer, req == GradReq::kAdd), before);
    EXPECT_EQ(Text(ShardedSteps(group, BatchOf(c, 3))), Text(ShardedSteps(straight, BatchOf(c, 3))));
    EXPECT_EQ(StateOf(*group.trainers[1], req == GradReq::kAdd), StateOf(*straight.trainers[0], req == GradReq::kAdd));
  }
}

TEST_F(ShardedFaultsTest, AFailedStepHasChangedNothing) {
  ShardedCase c = Dense();
  c.options = {.optimizer = kAdam};
  Group group = MakeGroup(c, 4, 2);
  ShardedSteps(group, BatchOf(c, 1));
  const std::string before = StateOf(*group.trainers[0], false);
  group.reduction->Fail(absl::UnavailableError("a rank is gone"));
  for (const absl::Status& status : Compute(group, BatchOf(c, 2))) EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  for (const auto& trainer : group.trainers) EXPECT_EQ(StateOf(*trainer, false), before);
  EXPECT_EQ(Apply(*group.trainers[0]).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Drop(*group.trainers[0]).code(), absl::StatusCode::kFailedPrecondition);
  ShardedSteps(group, BatchOf(c, 3));
}

TEST_F(ShardedFaultsTest, AShardThatFailsChangesNothing) {
  ShardedCase c = Dense();
  const absl::StatusOr<ModelDefinition> definition = ExpandNodes({{"t_shard_fuse", "begin", {{"data"}}},
                                                                  {"BatchNorm", "bn", {{"begin"}}, {{"axis", "1"}}},
                                                                  {"FullyConnected", "fc", {{"bn"}}, {{"num_hidden", "3"}}},
                                                                  {"t_shard_fuse", "end", {{"fc"}}}},
                                                                 {{"data", {-1, 5}}}, {{"end"}});
  ASSERT_OK(definition.status());
  const auto model = *Model::Create(*definition, Options());
  ASSERT_OK(Initialize(*model));
  Group group{{}, {model}, {MakeTrainer(model, {.optimizer = kAdam})}, std::make_shared<FakeReduction>(1), 4, 1};
  ShardedSteps(group, BatchOf(c, 1));
  const std::string before = StateOf(*group.trainers[0], false);
  constexpr int kCalls = 4 * 3;  // A shard calls it twice forward and once backward.
  for (int n = 0; n < kCalls; ++n) {
    shard_calls_left = n;
    const absl::Status status = Compute(group, BatchOf(c, 2))[0];
    EXPECT_THAT(status.message(), HasSubstr("the fuse of shards")) << n;
    EXPECT_EQ(StateOf(*group.trainers[0], false), before) << n;
  }
  shard_calls_left = kCalls;
  ShardedSteps(group, BatchOf(c, 2));
}

// The last shard hands gradients over before it fails.
TEST_F(ShardedFaultsTest, ARankThatFailsLateEndsTheRing) {
  ShardedCase c = Dense();
  c.options.metrics = {{"pcc", {}}};
  Group group = MakeGroup(c, 2, 2);
  ShardedSteps(group, BatchOf(c, 1));
  EXPECT_GE(group.reduction->views(), 2u) << "gradients, and the message";
  const std::string before = StateOf(*group.trainers[0], false);
  NamedTensors batch = BatchOf(c, 2);
  batch[1].tensor.data<float>()[11] = 7;  // No class: of the metric alone, since samples have weights.
  batch.push_back({"sample_weight", Make<float>({12, 1}, std::vector<float>(12, 1))});
  const std::vector<absl::Status> statuses = Compute(group, batch);
  ASSERT_TRUE(absl::IsUnavailable(statuses[0])) << statuses[0];
  ASSERT_TRUE(absl::IsInvalidArgument(statuses[1])) << statuses[1];
  EXPECT_EQ(group.reduction->aborts(), 1);
  for (const auto& trainer : group.trainers) EXPECT_EQ(StateOf(*trainer, false), before);
  ShardedSteps(group, BatchOf(c, 3));
}

TEST_F(ShardedFaultsTest, ACancelledStepHasChangedNothing) {
  ShardedCase c = Dense();
  Group group = MakeGroup(c, 4, 1);
  ShardedSteps(group, BatchOf(c, 1));
  const std::string before = StateOf(*group.trainers[0], false);
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  EXPECT_TRUE(absl::IsCancelled(Compute(group, BatchOf(c, 2), cancellation)[0]));
  EXPECT_EQ(StateOf(*group.trainers[0], false), before);
}

TEST_F(ShardedFaultsTest, OtherCallsWaitForTheWord) {
  ShardedCase c = Dense();
  Group group = MakeGroup(c, 2, 1);
  for (const absl::Status& status : Compute(group, BatchOf(c, 1))) ASSERT_OK(status);
  std::promise<int64_t> runs;
  group.models[0]->Snapshot([&](absl::StatusOr<ModelState> state) { runs.set_value(state->random.runs); });
  ASSERT_OK(Apply(*group.trainers[0]).status());
  EXPECT_EQ(runs.get_future().get(), 1);
}

TEST_F(ShardedFaultsTest, SparesFollow) {
  ShardedCase c = Dense();
  c.options = {.optimizer = kAdam, .metrics = {{"accuracy", {}}}};
  Group group = MakeGroup(c, 4, 2, /*spares=*/1);
  for (uint64_t t = 0; t < 3; ++t) {
    for (const absl::Status& status : Compute(group, BatchOf(c, t))) ASSERT_OK(status);
    std::vector<std::string> reports;
    for (const auto& trainer : group.trainers) reports.push_back(Text(*Apply(*trainer)));
    EXPECT_THAT(reports, testing::Each(reports[0]));
  }
  for (const auto& trainer : group.trainers) EXPECT_EQ(StateOf(*trainer, false), StateOf(*group.trainers[0], false));
  const absl::Status alone = Await<absl::Status>([&](auto done) {
    group.trainers[2]->ComputeStep({{"data", MakeNoise({0, 5}, 1)}, {"label", Make<float>({0}, {})}}, {12, 4, 0, 0}, nullptr,
                                   nullptr, done);
  });
  EXPECT_THAT(std::string(alone.message()), HasSubstr("without shards and without others"));
}

// Backward still reads the gradient of w1 when that is handed over.
TEST_F(ShardedFaultsTest, AGradientIsHandedOverWhenNobodyReadsIt) {
  const NodeEntry both = MakeNode("elemwise_add", "both", {MakeNode("tanh", "bend", {MakeVariable("w2")}), MakeVariable("w1")});
  ModelDefinition definition{
      .inputs = {{"data", {-1, 512}}},
      .outputs = {MakeNode("FullyConnected", "fc", {MakeVariable("data"), both}, {{"num_hidden", "512"}, {"no_bias", "True"}})},
      .output_names = {"fc"},
      .parameters = {}};
  for (const char* name : {"w2", "w1"}) {
    Parameter& p = definition.parameters.emplace_back();
    p.name = name;
    p.shape = {512, 512};
  }
  std::vector<std::string> states;
  for (const bool eager : {false, true}) {
    std::vector<std::shared_ptr<Trainer>> trainers;
    for (int r = 0; r < 2; ++r) {
      const auto model = *Model::Create(definition, Options());
      ASSERT_OK(Set(*model, {{"w1", MakeNoise({512, 512}, 1)}, {"w2", MakeNoise({512, 512}, 2)}}));
      trainers.push_back(MakeTrainer(model, {.loss = {}, .optimizer = {"sgd", {{"learning_rate", "0.5"}}}}));
    }
    const auto reduction = std::make_shared<FakeReduction>(2);
    std::vector<std::promise<absl::Status>> ends(eager ? 1 : 2);
    for (size_t r = 0; r < ends.size(); ++r) {
      const std::shared_ptr<GradientReducer> reducer = eager ? std::make_shared<EagerReduction>() : reduction->Rank(r);
      trainers[r]->ComputeStep({{"data", MakeNoise({2, 512}, 3)}}, {4, 2, static_cast<int64_t>(r), 1}, reducer, nullptr,
                               [&end = ends[r]](absl::Status status) { end.set_value(std::move(status)); });
    }
    for (auto& end : ends) ASSERT_OK(end.get_future().get());
    for (size_t r = 0; r < ends.size(); ++r) ASSERT_OK(Apply(*trainers[r]).status());
    states.push_back(StateOf(*trainers[0], false));
  }
  EXPECT_TRUE(states[0] == states[1]) << "texts too long to be shown";
}

TEST_F(ShardedFaultsTest, GradientsAreHandedOverWhileBackwardGoesOn) {
  const absl::StatusOr<ModelDefinition> definition = ExpandNodes({{"FullyConnected", "fc1", {{"data"}}, {{"num_hidden", "600"}}},
                                                                  {"t_shard_fuse", "middle", {{"fc1"}}},
                                                                  {"FullyConnected", "fc2", {{"middle"}}, {{"num_hidden", "600"}}}},
                                                                 {{"data", {-1, 600}}}, {{"fc2"}});
  ASSERT_OK(definition.status());
  const auto model = *Model::Create(*definition, Options());
  ASSERT_OK(Initialize(*model));
  const auto trainer = MakeTrainer(model, {.loss = {}});
  const auto reduction = std::make_shared<EagerReduction>();
  shard_calls_left = 2;  // Once forward and once backward.
  ASSERT_OK(Await<absl::Status>([&](auto done) {
    trainer->ComputeStep({{"data", MakeNoise({2, 600}, 3)}}, {4, 2, 0, 1}, reduction, nullptr, done);
  }));
  ASSERT_OK(Apply(*trainer).status());
  EXPECT_THAT(reduction->calls_left(), testing::ElementsAre(1, 0, 0)) << "fc2's, fc1's, and the message";
}

TEST_F(ShardedFaultsTest, APositionIsTakenOver) {
  ShardedCase c = Dense();
  Group group = MakeGroup(c, 1, 1);
  const DatasetPosition position = {.seed = 3, .epoch = 2, .row = 9};
  const ShardedStep step = {.rows = c.rows, .position = position};
  ASSERT_OK(Await<absl::Status>([&](auto done) { group.trainers[0]->ComputeStep(BatchOf(c, 1), step, nullptr, nullptr, done); }));
  const absl::StatusOr<StepReport> report = Apply(*group.trainers[0]);
  ASSERT_OK(report.status());
  EXPECT_EQ(report->epoch, 2u);
  EXPECT_EQ(report->next_row, 9);
}

TEST_F(ShardedFaultsTest, WhatDoesNotFitIsRefusedByName) {
  const auto why = [&](BlockSpec net, std::vector<ModelInput> inputs, TrainerOptions options) {
    return std::string(MakeTrainer(MakeModel(net, inputs), std::move(options))->CheckSharded().message());
  };
  const BlockSpec dense = {"Dense", "", {{"units", "3"}}};
  EXPECT_EQ(why(dense, {{"data", {-1, 5}}}, {}), "");
  EXPECT_THAT(why(dense, {{"data", {4, 5}}}, {}), HasSubstr("input 'data' has shape [4,5]"));
  EXPECT_THAT(why(dense, {{"data", {-1, 5}}}, {.loss = {"PoissonNLLLoss", {}}}), HasSubstr("PoissonNLLLoss is one number"));
  EXPECT_THAT(why(dense, {{"data", {-1, 5}}}, {.loss = {"L2Loss", {{"batch_axis", "1"}}}}), HasSubstr("has batch_axis 1"));
  const absl::StatusOr<ModelDefinition> definition =
      ExpandNodes({{"SoftmaxOutput", "softmax", {{"data"}, {"target"}}, {{"normalization", "valid"}}}},
                  {{"data", {-1, 5}}, {"target", {-1}}}, {{"softmax"}});
  ASSERT_OK(definition.status());
  const auto trainer = MakeTrainer(*Model::Create(*definition, Options()), {.loss = {}});
  EXPECT_THAT(std::string(trainer->CheckSharded().message()), HasSubstr("(SoftmaxOutput) has normalization valid"));
}

TEST_F(ShardedFaultsTest, ShardsAreChecked) {
  for (const ShardedStep& step : std::vector<ShardedStep>{
           {0, 1, 0, 1}, {4, 3, 0, 1}, {4, 4, 0, 3}, {4, 4, 1, 2}, {4, 4, 4, 1}, {4, 4, -1, 1}, {4, 4, -1, 0}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(step.Check()));
  }
  const ShardedStep step = {7, 4, 2, 2};
  EXPECT_OK(step.Check());
  EXPECT_EQ(step.begin(), 3);
  EXPECT_EQ(step.end(), 7);
  ShardedCase c = Dense();
  Group group = MakeGroup(c, 1, 1);
  const absl::Status status =
      Await<absl::Status>([&](auto done) { group.trainers[0]->ComputeStep(BatchOf(c, 1), {c.rows + 1}, nullptr, nullptr, done); });
  EXPECT_THAT(std::string(status.message()), HasSubstr("want 13 rows in axis 0"));
}

TEST_F(ShardedFaultsTest, TheSumsAreCharged) {
  ShardedCase c{"Wide", {"Dense", "", {{"units", "1000"}, {"use_bias", "0"}}}, {{"data", {-1, 1000}}}, 8, {.loss = {}}};
  Group group = MakeGroup(c, 8, 1);
  const absl::StatusOr<int64_t> one = group.trainers[0]->ShardedBytes(1), eight = group.trainers[0]->ShardedBytes(8);
  ASSERT_OK(one.status());
  ASSERT_OK(eight.status());
  EXPECT_NEAR(static_cast<double>(*one), 4e6, 1e3);
  EXPECT_EQ(*eight, 4 * *one);
  ASSERT_OK(TrainStep(*group.trainers[0], {{"data", MakeNoise({8, 1000}, 1)}}).status());
  const int64_t before = budget_->used();
  ShardedSteps(group, {{"data", MakeNoise({8, 1000}, 1)}});
  EXPECT_GE(budget_->used() - before, *eight);
}

TEST_F(ShardedFaultsTest, TheSumsAreReservedAndThenChargedOnce) {
  ShardedCase c{"Wide", {"Dense", "", {{"units", "1000"}, {"use_bias", "0"}}}, {{"data", {-1, 1000}}}, 8, {.loss = {}}};
  const auto used = [&](bool reserved) {
    const int64_t before = budget_->used();
    Group group = MakeGroup(c, 8, 1);
    int64_t after = 0;
    if (reserved) {
      const int64_t made = budget_->used();
      EXPECT_OK(group.trainers[0]->ReserveShards(8));
      EXPECT_GE(budget_->used() - made, *group.trainers[0]->ShardedBytes(8));
    }
    for (const int64_t first : {0, 1}) {  // All eight, as a group of one, and then half of them.
      const ShardedStep step = {8, 8, 0, first == 0 ? 8 : 4};
      const std::shared_ptr<GradientReducer> reducer = first == 0 ? nullptr : std::make_shared<EagerReduction>();
      EXPECT_OK(Await<absl::Status>([&](auto done) {
        group.trainers[0]->ComputeStep({{"data", MakeNoise({step.end(), 1000}, 1)}}, step, reducer, nullptr, done);
      }));
      EXPECT_OK(Apply(*group.trainers[0]).status());
      if (reserved && first == 1) {
        EXPECT_EQ(budget_->used() - before, after) << "what half of the shards leave is kept";
      }
      after = budget_->used() - before;
    }
    return after;
  };
  const int64_t by_need = used(false), reserved = used(true);
  const int64_t level = *MakeGroup(c, 8, 1).trainers[0]->ShardedBytes(1), scratch = level / 2;
  EXPECT_NEAR(static_cast<double>(reserved - by_need), static_cast<double>(level + scratch), 1e6);
}

TEST_F(ShardedFaultsTest, SumsThatDoNotFitAreRefusedBeforeAStep) {
  ShardedCase c{"Wide", {"Dense", "", {{"units", "1000"}, {"use_bias", "0"}}}, {{"data", {-1, 1000}}}, 8, {.loss = {}}};
  Group group = MakeGroup(c, 8, 1);
  Reservation others(budget_);
  ASSERT_OK(others.Grow(budget_->limit() - budget_->used() - *group.trainers[0]->ShardedBytes(8)));
  const int64_t before = budget_->used();
  const absl::Status refused = group.trainers[0]->ReserveShards(8);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a group's steps in 8 shards"));
  EXPECT_EQ(budget_->used(), before);
  EXPECT_OK(group.trainers[0]->ReserveShards(4));
  // A shape that the first batch tells is charged then.
  const auto model = MakeModel({"Dense", "", {{"units", "3"}}}, {{"data", {-1, -1}}});
  EXPECT_OK(MakeTrainer(model, {})->ReserveShards(8));
}

TEST_F(ShardedFaultsTest, GradientsAreHandedOverInBuckets) {
  ShardedCase c{
      "Wide",
      {"HybridSequential",
       "",
       {},
       {{"Dense", "", {{"units", "600"}}, {}}, {"Dense", "", {{"units", "600"}}, {}}, {"Dense", "", {{"units", "3"}}, {}}}},
      {{"data", {-1, 600}}},
      8};
  Group group = MakeGroup(c, 2, 2);
  ShardedSteps(group, BatchOf(c, 1));
  EXPECT_EQ(group.reduction->views(), 3u) << "two of 1 MiB and more, and the message";
}

}  // namespace
}  // namespace gluond
