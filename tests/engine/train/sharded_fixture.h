// Trainers of one process that compute a step in shards together, over a ring without a network.

#ifndef TESTS_ENGINE_TRAIN_SHARDED_FIXTURE_H_
#define TESTS_ENGINE_TRAIN_SHARDED_FIXTURE_H_

#include <atomic>
#include <bit>
#include <cmath>
#include <future>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"
#include "engine/runtime/transfer.h"
#include "engine/train/gradient_reducer.h"
#include "engine/train/sharded_step.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {

inline const Spec kMomentum = {"sgd", {{"learning_rate", "0.05"}, {"momentum", "0.9"}}};
inline const Spec kAdam = {"adam", {{"learning_rate", "0.01"}}};

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
    void Begin(absl::Span<const View> layout) override { layout_.assign(layout.begin(), layout.end()); }
    void Start(const View& view) override {
      MutexLock lock(all_->mu_);
      auto& views = all_->views_[rank_];
      ASSERT_LT(views.size(), layout_.size());
      EXPECT_EQ(view.dtype, layout_[views.size()].dtype);
      EXPECT_EQ(view.elements, layout_[views.size()].elements);
      views.push_back(view);
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
    std::vector<View> layout_;  // The views to come.
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
  std::shared_ptr<Allocator> device_memory_ = memory_;  // The groups' models have it.

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
    auto model = *Model::Create(*std::move(definition), {"test", 1, &lane, device_memory_, memory_});
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
      group.lanes.push_back(*Lane::Create(device_memory_->device(), {.threads = 1 + static_cast<int>(r % 2)}, *device_memory_));
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
  // The bytes of a tensor of the trainer's model, which may lie on a GPU.
  static std::string BytesOf(const Trainer& trainer, const Tensor& tensor) {
    if (tensor.device().type == DeviceType::kCpu) return Bytes(tensor);
    const ModelOptions& options = trainer.model()->options();
    const absl::StatusOr<Tensor> copy = CopyTo(tensor, options.lane->lanes(), *options.host_allocator);
    EXPECT_OK(copy.status());
    return Bytes(*copy);
  }
  // All that a step changes.
  static std::string StateOf(Trainer& trainer, bool sums) {
    const States states = SnapshotOf(trainer);
    std::string text = absl::StrCat("step ", states.second.step, ", random ", states.first.random.runs, "\n");
    for (const auto& [name, updates] : states.second.updates) absl::StrAppend(&text, name, " ", updates, "\n");
    for (const NamedTensors* tensors : {&states.first.parameters, &states.second.states}) {
      for (const auto& [name, tensor] : *tensors) absl::StrAppend(&text, name, ": ", BytesOf(trainer, tensor), "\n");
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

  // Reports of `steps` steps and the values after them, which every rank has alike.
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

}  // namespace gluond

#endif  // TESTS_ENGINE_TRAIN_SHARDED_FIXTURE_H_
