// A step in shards: the same bits for every number of processes, which are trainers of one process here, and a ring without a
// network. A step that fails, or is dropped, has changed nothing.

#include <atomic>
#include <bit>
#include <cmath>
#include <future>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/elementwise.h"
#include "engine/core/mutex.h"
#include "engine/core/op.h"
#include "engine/nn/node_spec.h"
#include "engine/train/gradient_reducer.h"
#include "engine/train/sharded_step.h"
#include "gmock/gmock.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

using testing::HasSubstr;

// Adds up over `size` ranks in the tree of a ring, in the thread that comes last. Spares receive the sums.
class FakeReduction {
 public:
  explicit FakeReduction(size_t size, size_t spares = 0) : size_(size), views_(size + spares), done_(size + spares) {}

  std::shared_ptr<GradientReducer> Rank(size_t rank) { return std::make_shared<Member>(this, rank); }
  // The next sum ends with this error.
  void Fail(absl::Status status) { failure_ = std::move(status); }
  size_t views() const { return num_views_; }
  int aborts() const { return aborts_; }

 private:
  using Done = std::function<void(absl::Status)>;

  class Member final : public GradientReducer {
   public:
    Member(FakeReduction* all, size_t rank) : all_(all), rank_(rank) {}
    void Start(const View& view) override {
      MutexLock lock(all_->mu_);
      all_->views_[rank_].push_back(view);
    }
    void Finish(Done done) override { all_->Finish(rank_, std::move(done)); }
    void Abort() override {
      MutexLock lock(all_->mu_);
      ++all_->aborts_;
      all_->failure_ = absl::UnavailableError("a rank has ended the ring");
    }

   private:
    FakeReduction* const all_;
    const size_t rank_;
  };

  void Finish(size_t rank, Done done) {
    std::vector<Done> all;
    absl::Status status;
    {
      MutexLock lock(mu_);
      done_[rank] = std::move(done);
      if (++finished_ < done_.size()) return;
      finished_ = 0;
      status = std::exchange(failure_, absl::OkStatus());
      if (status.ok()) Add();
      num_views_ = views_[0].size();
      for (auto& views : views_) views.clear();
      all = std::exchange(done_, std::vector<Done>(done_.size()));
    }
    for (const Done& each : all) each(status);
  }

  void Add() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (size_t k = 0; k < views_[0].size(); ++k) {
      for (const auto& views : views_) {
        ASSERT_EQ(views.size(), views_[0].size());
        ASSERT_EQ(views[k].elements, views_[0][k].elements);
        ASSERT_EQ(views[k].dtype, views_[0][k].dtype);
      }
      views_[0][k].dtype == DType::kFloat32 ? AddView<float>(k) : AddView<double>(k);
    }
  }
  template <class T>
  void AddView(size_t k) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const int64_t n = views_[0][k].elements;
    const auto at = [&](size_t rank) ABSL_NO_THREAD_SAFETY_ANALYSIS { return static_cast<T*>(views_[rank][k].data); };
    for (size_t stride = 1; stride < size_; stride *= 2) {
      for (size_t r = 0; r < size_; r += 2 * stride) {
        for (int64_t i = 0; i < n; ++i) at(r)[i] += at(r + stride)[i];
      }
    }
    for (size_t r = 1; r < views_.size(); ++r) std::copy_n(at(0), n, at(r));
  }

  const size_t size_;
  Mutex mu_;
  std::vector<std::vector<GradientReducer::View>> views_ ABSL_GUARDED_BY(mu_);
  std::vector<Done> done_ ABSL_GUARDED_BY(mu_);
  size_t finished_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status failure_;
  std::atomic<size_t> num_views_ = 0;
  std::atomic<int> aborts_ = 0;
};

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
  // What shard_calls_left was at each Start.
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

struct ShardedCase {
  const char* name;
  BlockSpec net;
  std::vector<ModelInput> inputs;
  int64_t rows;
  TrainerOptions options = {};
  GradReq req = GradReq::kWrite;
  bool integers = false;  // Data are class numbers.
};

class ShardedStepTest : public TrainerTest {
 protected:
  ~ShardedStepTest() override { shard_calls_left = std::numeric_limits<int>::max(); }

  // Trainers that compute steps together, each with threads of its own.
  struct Group {
    std::vector<std::shared_ptr<Lane>> lanes;
    std::vector<std::shared_ptr<Model>> models;
    std::vector<std::shared_ptr<Trainer>> trainers;
    std::shared_ptr<FakeReduction> reduction;
    int64_t shards;
    size_t size;  // Trainers that are no spares.
  };

  std::shared_ptr<Model> MakeOne(const ShardedCase& c, Lane& lane) {
    absl::StatusOr<ModelDefinition> definition = ExpandBlock(c.net, c.inputs);
    EXPECT_OK(definition.status());
    auto model = *Model::Create(*std::move(definition), {"test", 1, &lane, memory_, memory_});
    EXPECT_OK(Initialize(*model, {{"Xavier", {}}}));
    for (const Parameter& p : model->parameters().List()) {
      if (p.auxiliary) continue;
      EXPECT_OK(Await<absl::Status>([&](auto done) { model->Configure(p.name, {c.req, {}, {}}, done); }));
    }
    return model;
  }
  Group MakeGroup(const ShardedCase& c, int64_t shards, size_t size, size_t spares = 0) {
    Group group{{}, {}, {}, std::make_shared<FakeReduction>(size, spares), shards, size};
    for (size_t r = 0; r < size + spares; ++r) {
      group.lanes.push_back(*Lane::Create(Device(), {.threads = 1 + static_cast<int>(r % 2)}, *memory_));
      group.models.push_back(MakeOne(c, *group.lanes.back()));
      group.trainers.push_back(MakeTrainer(group.models.back(), c.options));
    }
    return group;
  }

  Tensor RowsOf(const Tensor& all, int64_t begin, int64_t end) {
    Shape shape = all.shape();
    const size_t row = all.bytes() / static_cast<size_t>(shape[0]);
    shape[0] = end - begin;
    Tensor part = *Tensor::Empty(*memory_, shape, all.dtype());
    std::copy_n(all.data<char>() + static_cast<size_t>(begin) * row, part.bytes(), part.data<char>());
    return part;
  }

  // The ranks' statuses of ComputeStep.
  std::vector<absl::Status> Compute(Group& group, const NamedTensors& batch, std::shared_ptr<Cancellation> cancellation = nullptr) {
    std::vector<std::promise<absl::Status>> ends(group.trainers.size());
    const auto count = group.shards / static_cast<int64_t>(group.size);
    for (size_t r = 0; r < ends.size(); ++r) {
      ShardedStep step = {batch[0].tensor.shape()[0], group.shards, static_cast<int64_t>(r) * count, count};
      if (r >= group.size) step.first = step.count = 0;
      NamedTensors part;
      for (const NamedTensor& each : batch) part.push_back({each.name, RowsOf(each.tensor, step.begin(), step.end())});
      group.trainers[r]->ComputeStep(part, step, ends.size() == 1 ? nullptr : group.reduction->Rank(r), cancellation,
                                     [&end = ends[r]](absl::Status status) { end.set_value(std::move(status)); });
    }
    std::vector<absl::Status> statuses;
    for (auto& end : ends) statuses.push_back(end.get_future().get());
    return statuses;
  }
  static absl::StatusOr<StepReport> Apply(Trainer& trainer) {
    return Await<absl::StatusOr<StepReport>>([&](auto done) { trainer.ApplyStep(done); });
  }
  static absl::Status Drop(Trainer& trainer) {
    return Await<absl::Status>([&](auto done) { trainer.DropStep(done); });
  }
  // Computes and applies; the first rank's report.
  StepReport ShardedSteps(Group& group, const NamedTensors& batch) {
    for (const absl::Status& status : Compute(group, batch)) EXPECT_OK(status);
    StepReport first;
    for (size_t r = 0; r < group.trainers.size(); ++r) {
      absl::StatusOr<StepReport> report = Apply(*group.trainers[r]);
      EXPECT_OK(report.status());
      if (report.ok() && r == 0) first = *std::move(report);
    }
    return first;
  }

  static std::string Bits(double value) { return absl::StrCat(std::bit_cast<uint64_t>(value)); }
  static std::string Text(const StepReport& report) {
    std::string text = absl::StrCat("step ", report.step, " loss ", Bits(report.loss), " norm ", Bits(report.gradient_norm),
                                    " nonfinite ", report.nonfinite, " skipped ", report.skipped, " samples ", report.samples);
    for (const MetricValue& metric : report.metrics) absl::StrAppend(&text, " ", metric.name, " ", Bits(metric.value));
    return text + "\n";
  }
  // All that a step changes.
  static std::string StateOf(Trainer& trainer, bool sums) {
    const States states = SnapshotOf(trainer);
    std::string text = absl::StrCat("step ", states.second.step, ", random ", states.first.random.runs, "\n");
    for (const auto& [name, updates] : states.second.updates) absl::StrAppend(&text, name, " ", updates, "\n");
    for (const NamedTensors* tensors : {&states.first.parameters, &states.second.states}) {
      for (const auto& [name, tensor] : *tensors) absl::StrAppend(&text, name, ": ", Bytes(tensor), "\n");
    }
    if (!sums) return text;
    const absl::StatusOr<NamedTensors> gradients = Gradients(*trainer.model());
    EXPECT_OK(gradients.status());
    for (const auto& [name, tensor] : *gradients) absl::StrAppend(&text, name, ": ", Bytes(tensor), "\n");
    return text;
  }

  NamedTensors BatchOf(const ShardedCase& c, uint64_t seed) {
    NamedTensors batch;
    for (const ModelInput& input : c.inputs) {
      Shape shape = input.shape;
      for (int axis = 1; axis < shape.ndim(); ++axis) shape[axis] = std::max<int64_t>(shape[axis], -shape[axis] * 5);
      shape[0] = c.rows;
      Tensor noise = MakeNoise(shape, seed);
      if (c.integers) {
        for (float& x : absl::MakeSpan(noise.data<float>(), static_cast<size_t>(noise.Size()))) x = std::floor(3 * (x + 1));
      }
      batch.push_back({input.name, noise});
    }
    std::vector<float> labels;
    for (int64_t i = 0; i < c.rows; ++i) labels.push_back(static_cast<float>((i * 7 + static_cast<int64_t>(seed)) % 3));
    batch.push_back({"label", Make<float>({c.rows}, labels)});
    return batch;
  }

  // What `steps` steps report and leave, in every rank alike.
  std::string ResultOf(const ShardedCase& c, int64_t shards, size_t size, int steps = 3) {
    Group group = MakeGroup(c, shards, size);
    std::string text;
    for (int t = 0; t < steps; ++t) text += Text(ShardedSteps(group, BatchOf(c, static_cast<uint64_t>(t) + 3)));
    const std::string state = StateOf(*group.trainers[0], c.req == GradReq::kAdd);
    for (const auto& trainer : group.trainers) EXPECT_EQ(StateOf(*trainer, c.req == GradReq::kAdd), state) << c.name;
    return text + state;
  }

  static ShardedCase Dense() { return {"Dense", Mlp(8, 3, 0.5), {{"data", {-1, 5}}}, 12}; }
};

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
const Spec kMomentum = {"sgd", {{"learning_rate", "0.05"}, {"momentum", "0.9"}}};
const Spec kAdam = {"adam", {{"learning_rate", "0.01"}}};

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

TEST_F(ShardedStepTest, ADroppedStepHasChangedNothing) {
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

TEST_F(ShardedStepTest, AFailedStepHasChangedNothing) {
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

TEST_F(ShardedStepTest, AShardThatFailsChangesNothing) {
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
TEST_F(ShardedStepTest, ARankThatFailsLateEndsTheRing) {
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

TEST_F(ShardedStepTest, ACancelledStepHasChangedNothing) {
  ShardedCase c = Dense();
  Group group = MakeGroup(c, 4, 1);
  ShardedSteps(group, BatchOf(c, 1));
  const std::string before = StateOf(*group.trainers[0], false);
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  EXPECT_TRUE(absl::IsCancelled(Compute(group, BatchOf(c, 2), cancellation)[0]));
  EXPECT_EQ(StateOf(*group.trainers[0], false), before);
}

TEST_F(ShardedStepTest, OtherCallsWaitForTheWord) {
  ShardedCase c = Dense();
  Group group = MakeGroup(c, 2, 1);
  for (const absl::Status& status : Compute(group, BatchOf(c, 1))) ASSERT_OK(status);
  std::promise<int64_t> runs;
  group.models[0]->Snapshot([&](absl::StatusOr<ModelState> state) { runs.set_value(state->random.runs); });
  ASSERT_OK(Apply(*group.trainers[0]).status());
  EXPECT_EQ(runs.get_future().get(), 1);
}

TEST_F(ShardedStepTest, SparesFollow) {
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
TEST_F(ShardedStepTest, AGradientIsHandedOverWhenNobodyReadsIt) {
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

TEST_F(ShardedStepTest, GradientsAreHandedOverWhileBackwardGoesOn) {
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

TEST_F(ShardedStepTest, APositionIsTakenOver) {
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

TEST_F(ShardedStepTest, WhatDoesNotFitIsRefusedByName) {
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

TEST_F(ShardedStepTest, ShardsAreChecked) {
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

TEST_F(ShardedStepTest, TheSumsAreCharged) {
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

TEST_F(ShardedStepTest, GradientsAreHandedOverInBuckets) {
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
