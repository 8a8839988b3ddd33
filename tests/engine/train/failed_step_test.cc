// A step that failed has changed nothing, whatever failed in it: the n-th request for memory or the n-th call of an
// operator, for each n until the step succeeds, and each way to step.

#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/nn/node_spec.h"
#include "engine/train/gradient_reducer.h"
#include "engine/train/sharded_step.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

// Lets some uses pass and refuses the next one.
class Fuse {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();
  void Set(int passing) { left_ = passing; }
  // Whether the use is refused.
  bool Burns() { return left_ != kNever && left_-- == 0; }
  // Whether a use was refused since Set.
  bool burnt() const { return left_ < 0; }
  // The uses that have passed since Set(passing).
  int passed(int passing) const { return passing - left_; }

 private:
  std::atomic<int> left_ = kNever;
};

Fuse memory_fuse, operator_fuse;

class FragileMemory final : public Allocator {
 public:
  explicit FragileMemory(std::shared_ptr<Allocator> memory) : memory_(std::move(memory)) {}
  Device device() const override { return memory_->device(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    if (memory_fuse.Burns()) return absl::ResourceExhaustedError("the fuse of memory");
    return memory_->Allocate(bytes);
  }

 private:
  const std::shared_ptr<Allocator> memory_;
};

// y = x, and dx = dy.
struct Fragile {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                          absl::Span<const TBlob> out) {
    if (operator_fuse.Burns()) return absl::UnavailableError("the fuse of operators");
    for (int64_t i = 0; i < out[0].Size(); ++i) {
      float& y = out[0].dptr<float>()[i];
      y = req[0] == kAddTo ? y + in[0].dptr<float>()[i] : in[0].dptr<float>()[i];
    }
    return absl::OkStatus();
  }
};

GLUOND_REGISTER_OP_NAMED(t_fragile, "t_fragile")
    .describe("The identity, which operator_fuse may refuse.")
    .set_num_inputs(1)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const Gradients& dy) -> absl::StatusOr<Gradients> {
                           return Gradients{MakeNode("t_fragile", "back", {dy[0]})};
                         })
    .compute<Fragile>();

// A trainer on a lane of its own, which has no scratch space yet.
struct Bench {
  std::shared_ptr<Lane> lane;
  std::shared_ptr<Model> model;
  std::shared_ptr<Trainer> trainer;
};

struct Way {
  const char* name;
  std::function<absl::Status(Bench&)> prepare, step;
};

class FailedStepTest : public TrainerTest {
 protected:
  ~FailedStepTest() override { Mend(); }

  Bench MakeBench(const std::string& optimizer, GradReq req) {
    Bench bench;
    bench.lane = *Lane::Create(Device(), {.threads = 1}, *fragile_);
    const absl::StatusOr<ModelDefinition> definition =
        ExpandNodes({{"t_fragile", "begin", {{"data"}}},
                     {"BatchNorm", "bn", {{"begin"}}, {{"axis", "1"}, {"fix_gamma", "False"}}},
                     {"FullyConnected", "fc1", {{"bn"}}, {{"num_hidden", "8"}}},
                     {"t_fragile", "middle", {{"fc1"}}},
                     {"Dropout", "drop", {{"middle"}}, {{"p", "0.5"}}},
                     {"FullyConnected", "fc2", {{"drop"}}, {{"num_hidden", "3"}}},
                     {"t_fragile", "end", {{"fc2"}}}},
                    {{"data", {-1, 4}}}, {{"end"}});
    EXPECT_OK(definition.status());
    bench.model = *Model::Create(*definition, {"test", 1, bench.lane.get(), fragile_, fragile_});
    EXPECT_OK(Initialize(*bench.model, {{"Xavier", {}}}));
    for (const Parameter& p : bench.model->parameters().List()) {
      if (p.auxiliary) continue;
      EXPECT_OK(Await<absl::Status>([&](auto done) { bench.model->Configure(p.name, {req, {}, {}}, done); }));
    }
    bench.trainer = MakeTrainer(bench.model, {.optimizer = {optimizer, {{"learning_rate", "0.1"}}}, .metrics = {{"accuracy", {}}}});
    return bench;
  }

  // All that a step changes. Without `sums`: but for the gradients.
  static std::string StateOf(Bench& bench, bool sums) {
    const States states = SnapshotOf(*bench.trainer);
    std::string text = absl::StrCat("step ", states.second.step, ", random ", states.first.random.runs, "\n");
    for (const auto& [name, updates] : states.second.updates) absl::StrAppend(&text, name, " ", updates, "\n");
    for (const NamedTensors* tensors : {&states.first.parameters, &states.second.states}) {
      for (const auto& [name, tensor] : *tensors) absl::StrAppend(&text, name, ": ", Bytes(tensor), "\n");
    }
    if (!sums) return text;
    const absl::StatusOr<NamedTensors> gradients = Gradients(*bench.model);
    EXPECT_OK(gradients.status());
    for (const auto& [name, tensor] : *gradients) absl::StrAppend(&text, name, ": ", Bytes(tensor), "\n");
    return text;
  }

  static void Mend() {
    memory_fuse.Set(Fuse::kNever);
    operator_fuse.Set(Fuse::kNever);
  }

  // Steps on with the n-th use refused, until none is refused. Returns how many were.
  int RefuseEachUse(const Way& way, Fuse& fuse, const std::string& optimizer, GradReq req) {
    const bool sums = req == GradReq::kAdd;
    Bench begun = MakeBench(optimizer, req);
    EXPECT_OK(TrainStep(*begun.trainer, Batch()).status());
    const States at_first = SnapshotOf(*begun.trainer);
    std::string wanted;
    {
      Bench straight = Begin(at_first, way, optimizer, req);
      EXPECT_OK(way.step(straight));
      wanted = StateOf(straight, sums);
    }
    for (int n = 0;; ++n) {
      Bench bench = Begin(at_first, way, optimizer, req);
      const std::string before = StateOf(bench, sums);
      fuse.Set(n);
      const absl::Status status = way.step(bench);
      const bool refused = fuse.burnt();
      Mend();
      if (!refused) {
        EXPECT_OK(status);
        return n;
      }
      if (!status.ok()) {
        EXPECT_EQ(StateOf(bench, sums), before) << way.name << " " << optimizer << ", use " << n << ": " << status;
        EXPECT_OK(way.step(bench));
      }
      EXPECT_EQ(StateOf(bench, sums), wanted) << way.name << " " << optimizer << ", use " << n << ": " << status;
      if (HasFailure()) return n;
    }
  }

  Bench Begin(const States& at_first, const Way& way, const std::string& optimizer, GradReq req) {
    Bench bench = MakeBench(optimizer, req);
    EXPECT_OK(Restore(*bench.trainer, *bench.model, at_first));
    EXPECT_OK(way.prepare(bench));
    return bench;
  }

  NamedTensors Batch() { return {{"data", MakeNoise({6, 4}, 3)}, {"label", Make<float>({6}, {0, 1, 2, 0, 1, 2})}}; }
  absl::Status ForwardOnce(Bench& bench) { return Forward(*bench.model, {{"data", MakeNoise({6, 4}, 3)}}).status(); }

  absl::Status ShardedStepOnce(Trainer& trainer) {
    RETURN_IF_ERROR(Await<absl::Status>(
        [&](auto done) { trainer.ComputeStep(Batch(), {.rows = 6, .shards = 4, .count = 4}, nullptr, nullptr, done); }));
    EXPECT_OK(Await<absl::StatusOr<StepReport>>([&](auto done) { trainer.ApplyStep(done); }).status());
    return absl::OkStatus();
  }

  std::vector<Way> Ways() {
    const auto nothing = [](Bench&) { return absl::OkStatus(); };
    const auto forward = [this](Bench& bench) { return ForwardOnce(bench); };
    const auto backward = [](Bench& bench) { return Backward(*bench.model, {}, {"fc1_weight"}).status(); };
    return {
        {"TrainStep", nothing, [this](Bench& bench) { return TrainStep(*bench.trainer, Batch()).status(); }},
        {"TrainSteps", nothing,
         [this](Bench& bench) { return TrainSteps(*bench.trainer, {.dataset = Table(), .batch_size = 6}).status(); }},
        {"ShardedStep", nothing, [this](Bench& bench) { return ShardedStepOnce(*bench.trainer); }},
        {"Forward", nothing, forward},
        {"Backward", forward, backward},
        {"Step",
         [=](Bench& bench) {
           const absl::Status status = forward(bench);
           return status.ok() ? backward(bench) : status;
         },
         [](Bench& bench) { return Step(*bench.trainer, 6).status(); }},
    };
  }

  std::shared_ptr<Dataset> Table() {
    auto table = *Dataset::Create({{"data", {4}, DType::kFloat32}, {"label", Shape::Scalar(), DType::kFloat32}}, 18, *memory_);
    EXPECT_OK(table->Append("data", Bytes(MakeNoise({18, 4}, 5))));
    EXPECT_OK(table->Append("label", Bytes(Make<float>({18}, {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}))));
    EXPECT_OK(table->Commit());
    return table;
  }

  const std::shared_ptr<Allocator> fragile_ = std::make_shared<FragileMemory>(memory_);
};

TEST_F(FailedStepTest, WithoutMemoryNoOptimizerChangesAnything) {
  for (const Way& way : Ways()) {
    const bool sharded = way.name == std::string("ShardedStep");  // Makes the most requests.
    if (way.name != std::string("TrainStep") && way.name != std::string("Step") && !sharded) continue;
    for (const OptimizerCatalog::Entry& optimizer : Optimizers().entries()) {
      if (optimizer.name == "groupadagrad") continue;  // Matrices only.
      if (sharded && optimizer.name != "lamb" && optimizer.name != "sgd") continue;
      EXPECT_GT(RefuseEachUse(way, memory_fuse, optimizer.name, GradReq::kWrite), 0) << way.name << " " << optimizer.name;
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_F(FailedStepTest, WithoutMemoryItChangesNothing) {
  for (const Way& way : Ways()) {
    for (const GradReq req : {GradReq::kWrite, GradReq::kAdd}) {
      EXPECT_GT(RefuseEachUse(way, memory_fuse, "adam", req), 0) << way.name;
      ASSERT_FALSE(HasFailure());
    }
  }
}

// A step that is taken asks for nothing that one which is skipped has not asked for: the verdict comes last.
TEST_F(FailedStepTest, AllMemoryIsThereBeforeTheVerdict) {
  for (const OptimizerCatalog::Entry& entry : Optimizers().entries()) {
    const std::string& optimizer = entry.name;
    if (optimizer == "groupadagrad") continue;  // Matrices only.
    int uses[2];
    for (const bool finite : {false, true}) {
      Bench bench = MakeBench(optimizer, GradReq::kWrite);
      bench.trainer = MakeTrainer(bench.model, {.optimizer = {optimizer, {}}, .skip_nonfinite = true});
      NamedTensors batch = Batch();
      if (!finite) batch[0].tensor.data<float>()[5] = std::numeric_limits<float>::infinity();
      constexpr int kMany = 1 << 20;
      memory_fuse.Set(kMany);
      const absl::StatusOr<StepReport> report = TrainStep(*bench.trainer, batch);
      uses[finite] = memory_fuse.passed(kMany);
      Mend();
      ASSERT_OK(report.status());
      EXPECT_EQ(report->skipped, finite ? 0 : 1);
    }
    EXPECT_EQ(uses[true], uses[false]) << optimizer;
    EXPECT_GT(uses[false], 0);
  }
}

// The same of a matrix that is larger than what a lane keeps for operators, of 32 and of 16 bits: no update asks for more.
TEST_F(FailedStepTest, NoUpdateOfALargeParameterAsksForMemory) {
  constexpr int64_t kRows = 3, kColumns = 300;
  for (const OptimizerCatalog::Entry& entry : Optimizers().entries()) {
    for (const DType type : {DType::kFloat32, DType::kFloat16}) {
      int uses[2];
      for (const bool finite : {false, true}) {
        Bench bench;
        bench.lane = *Lane::Create(Device(), {.threads = 1}, *fragile_);
        const AttrDict dense = {{"units", "512"}, {"use_bias", "0"}, {"dtype", std::string(Name(type))}};
        const absl::StatusOr<ModelDefinition> definition = ExpandBlock({"Dense", "", dense, {}}, {{"data", {-1, kColumns}, type}});
        ASSERT_OK(definition.status());
        bench.model = *Model::Create(*definition, {"test", 1, bench.lane.get(), fragile_, fragile_});
        ASSERT_OK(Initialize(*bench.model, {{"Xavier", {}}}));
        AttrDict attrs = {{"multi_precision", type == DType::kFloat16 ? "True" : "False"}};
        bench.trainer = MakeTrainer(bench.model, {.loss = {}, .optimizer = {entry.name, attrs}, .skip_nonfinite = true});
        Tensor data = MakeNoise({kRows, kColumns}, 3);
        if (!finite) data.data<float>()[5] = std::numeric_limits<float>::infinity();
        constexpr int kMany = 1 << 20;
        memory_fuse.Set(kMany);
        const absl::StatusOr<StepReport> report = TrainStep(*bench.trainer, {{"data", data}});
        uses[finite] = memory_fuse.passed(kMany);
        Mend();
        ASSERT_OK(report.status());
        EXPECT_EQ(report->skipped, finite ? 0 : 1);
      }
      EXPECT_EQ(uses[true], uses[false]) << entry.name << " " << Name(type);
      EXPECT_GT(uses[false], 0);
    }
  }
}

TEST_F(FailedStepTest, ByAnOperatorItChangesNothing) {
  for (const Way& way : Ways()) {
    for (const GradReq req : {GradReq::kWrite, GradReq::kAdd}) {
      const int uses = RefuseEachUse(way, operator_fuse, "adam", req);
      EXPECT_EQ(uses > 0, way.name != std::string("Step")) << way.name;
      ASSERT_FALSE(HasFailure());
    }
  }
}

// Nobody waits for the graph of the update.
TEST_F(FailedStepTest, AStepThatIsGivenUpChangesNothing) {
  Bench bench = MakeBench("adam", GradReq::kWrite);
  ASSERT_OK(ForwardOnce(bench));
  ASSERT_OK(Backward(*bench.model, {}, {"fc1_weight"}).status());
  const std::string before = StateOf(bench, true);
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  const absl::Status status = Step(*bench.trainer, 6, false, cancellation).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(StateOf(bench, true), before);
  EXPECT_OK(Step(*bench.trainer, 6).status());
  // Graph and executor are there now: the run alone is left to give up.
  ASSERT_OK(ForwardOnce(bench));
  ASSERT_OK(Backward(*bench.model, {}, {"fc1_weight"}).status());
  const std::string between = StateOf(bench, true);
  const absl::Status run = Step(*bench.trainer, 6, false, cancellation).status();
  EXPECT_TRUE(absl::IsCancelled(run)) << run;
  EXPECT_EQ(StateOf(bench, true), between);
  EXPECT_OK(Step(*bench.trainer, 6).status());
}

TEST_F(FailedStepTest, ByAMetricItChangesNothing) {
  for (const GradReq req : {GradReq::kWrite, GradReq::kAdd}) {
    Bench bench = MakeBench("adam", req);
    ASSERT_OK(TrainStep(*bench.trainer, Batch()).status());
    const std::string before = StateOf(bench, req == GradReq::kAdd);
    const auto trainer = MakeTrainer(bench.model, {.metrics = {{"accuracy", {}}, {"mse", {}}}});
    const absl::Status status = TrainStep(*trainer, Batch()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << "it wants one label for each prediction";
    EXPECT_EQ(StateOf(bench, req == GradReq::kAdd), before) << status;
  }
}

// Running means of a batch that is not finite would not be finite themselves.
TEST_F(FailedStepTest, ASkippedStepLeavesTheRunningMeans) {
  Bench bench = MakeBench("adam", GradReq::kWrite);
  ASSERT_OK(TrainStep(*bench.trainer, Batch()).status());
  const auto means = [&] { return Bytes((*Get(*bench.model, {"bn_moving_mean"}))[0].tensor); };
  const std::string before = means();
  const auto trainer = MakeTrainer(bench.model, {.skip_nonfinite = true});
  NamedTensors batch = Batch();
  batch[0].tensor.data<float>()[5] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(TrainStep(*trainer, batch)->skipped, 1);
  EXPECT_EQ(means(), before);
  ASSERT_OK(TrainStep(*trainer, Batch()).status());
  EXPECT_NE(means(), before);
}

// A call of several steps keeps those that it has taken, and says how many.
TEST_F(FailedStepTest, AfterSomeStepsTheCallSaysHowMany) {
  Bench straight = MakeBench("adam", GradReq::kWrite), disturbed = MakeBench("adam", GradReq::kWrite);
  ASSERT_OK(TrainSteps(*straight.trainer, {.dataset = Table(), .batch_size = 6, .steps = 2}).status());
  operator_fuse.Set(2 * 5 + 1);  // A step calls three of them, and two gradients: nothing is learned before the first.
  const absl::StatusOr<StepReport> report = TrainSteps(*disturbed.trainer, {.dataset = Table(), .batch_size = 6, .steps = 3});
  Mend();
  ASSERT_OK(report.status());
  EXPECT_EQ(report->samples, 12);
  EXPECT_EQ(report->step, 2);
  EXPECT_EQ(StateOf(disturbed, false), StateOf(straight, false));
}

}  // namespace
}  // namespace gluond
