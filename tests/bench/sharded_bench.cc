// Steps in shards by the engine alone: a ring that reduces while backward goes on, and shards against slices by hand.
//
//   sharded_bench NETWORK ROWS STEPS      NETWORK: see networks.h; ROWS: of a batch
//
// Reads commands from standard input, one a line, and answers each with the milliseconds of one of STEPS steps:
//   plain    one shard, without a reduction
//   ring     the same, while a ring without a network takes half of backward's time for its reduction
//   shards   kShards shards, without a reduction: a group of one
//   add      the same slices by Backward with grad_req add, then Step and ZeroGradients. Forward is not timed, since Backward
//            computes it once more.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/type_messages.h"
#include "engine/core/dtype.h"
#include "engine/core/mutex.h"
#include "engine/core/op.h"
#include "engine/nn/loss.h"
#include "engine/nn/model.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/train/gradient_reducer.h"
#include "engine/train/sharded_step.h"
#include "engine/train/trainer.h"
#include "server/codec/definition_codec.h"
#include "tests/bench/engine_calls.h"
#include "tests/bench/networks.h"

namespace gluond::bench {
namespace {

constexpr int64_t kShards = 4;
constexpr double kShareOfBackward = 0.5;

// Views take their time one after the other, as in a network, and no processor. Nothing is added up.
class SleepingRing final : public GradientReducer {
 public:
  SleepingRing() : thread_([this] { Work(); }) {}
  ~SleepingRing() override {
    {
      MutexLock lock(mu_);
      has_ended_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  void Start(const View& view) override {
    {
      MutexLock lock(mu_);
      bytes_.push_back(static_cast<double>(view.elements) * static_cast<double>(SizeOf(view.dtype)));
      all_bytes_ += bytes_.back();
    }
    changed_.NotifyAll();
  }
  void Finish(std::function<void(absl::Status)> done) override {
    {
      MutexLock lock(mu_);
      if (!bytes_.empty()) {
        done_ = std::move(done);
        return;
      }
    }
    done(absl::OkStatus());
  }
  void Abort() override {}

  // The bytes of all views so far.
  double all_bytes() const {
    MutexLock lock(mu_);
    return all_bytes_;
  }
  // From the next view on.
  void set_seconds_a_byte(double seconds) {
    MutexLock lock(mu_);
    seconds_a_byte_ = seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Work() {
    Clock::time_point busy_until;  // A late wake-up makes the next view's sleep shorter.
    for (;;) {
      {
        MutexLock lock(mu_);
        while (bytes_.empty() && !has_ended_) changed_.Wait(mu_);
        if (has_ended_) return;
        const std::chrono::duration<double> time(bytes_.front() * seconds_a_byte_);
        busy_until = std::max(busy_until, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
      }
      std::this_thread::sleep_until(busy_until);
      std::function<void(absl::Status)> done;
      {
        MutexLock lock(mu_);
        bytes_.pop_front();
        if (bytes_.empty()) done = std::exchange(done_, nullptr);
      }
      if (done != nullptr) done(absl::OkStatus());
    }
  }

  mutable Mutex mu_;
  CondVar changed_;
  std::deque<double> bytes_ ABSL_GUARDED_BY(mu_);  // The views under way have so many; the first has its turn.
  double all_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  double seconds_a_byte_ ABSL_GUARDED_BY(mu_) = 0;
  std::function<void(absl::Status)> done_ ABSL_GUARDED_BY(mu_);
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// A model whose output is its loss, so that Backward computes what a step does, and its trainer.
class Steps {
 public:
  Steps(const Network& network, int64_t rows, GradReq req) : rows_(rows) {
    v1::DefineModelRequest request;
    *request.mutable_block() = client::ToProto(network.block);
    *request.add_variables() = client::ToProto(network.Input());
    ModelDefinition definition = OrDie(server::DefinitionFromProto(request, 100000));
    definition.inputs.push_back({"label", {Shape::kUnknown}});
    NodeEntry& output = definition.outputs[0];
    output = OrDie(OrDie(Losses().Find("SoftmaxCrossEntropyLoss"))->make({}, {output, MakeVariable("label"), {}}));
    model_ = OrDie(Model::Create(std::move(definition), {"bench", 1, lane_.get(), memory_, memory_}));
    OrDie(Await<absl::Status>([&](auto done) { model_->Initialize({{"Xavier", {}}}, done); }));
    for (const Parameter& p : model_->parameters().List()) {
      if (!p.auxiliary) OrDie(Await<absl::Status>([&](auto done) { model_->Configure(p.name, {req, {}, {}}, done); }));
    }
    trainer_ = OrDie(Trainer::Create(model_, {.loss = {}, .optimizer = {"sgd", {{"learning_rate", "0.01"}, {"momentum", "0.9"}}}}));
    const Shape all = network.Batch(rows);
    const std::vector<float> pixels = Pixels(all), labels = Labels(rows);
    const auto rows_of = [&](int64_t begin, int64_t end) -> NamedTensors {
      const int64_t size = network.image.Size();
      return {{"data", Make(network.Batch(end - begin), pixels.data() + begin * size)},
              {"label", Make({end - begin}, labels.data() + begin)}};
    };
    batch_ = rows_of(0, rows);
    const ShardedStep step = {rows, kShards, 0, kShards};
    for (int64_t s = 0; s < kShards; ++s) slices_.push_back(rows_of(step.FirstRow(s), step.FirstRow(s + 1)));
  }

  // All shards of a step, computed here, and the gradients' norm.
  double Compute(int64_t shards, const std::shared_ptr<GradientReducer>& ring) {
    const ShardedStep step = {rows_, shards, 0, shards};
    OrDie(Await<absl::Status>([&](auto done) { trainer_->ComputeStep(batch_, step, ring, nullptr, done); }));
    return OrDie(Await<absl::StatusOr<StepReport>>([&](auto done) { trainer_->ApplyStep(done); })).gradient_norm;
  }

  // A step of slices by hand: the milliseconds of what is timed, and the gradients' norm.
  std::pair<double, double> Add() {
    double time = 0, norm = 0;
    for (const NamedTensors& slice : slices_) {
      Forward(slice);
      time += Milliseconds([&] { Backward(); });
    }
    time += Milliseconds([&] {
      norm =
          OrDie(Await<absl::StatusOr<StepReport>>([&](auto done) { trainer_->Step(rows_, false, nullptr, done); })).gradient_norm;
      OrDie(Await<absl::Status>([&](auto done) { model_->ZeroGradients(done); }));
    });
    return {time, norm};
  }

  // The median of some passes.
  double BackwardMilliseconds() {
    std::vector<double> times;
    for (int i = 0; i < 7; ++i) {
      const double forward = Milliseconds([&] { Forward(batch_); });
      times.push_back(Milliseconds([&] { Backward(); }) - forward);
    }
    std::sort(times.begin(), times.end());
    return std::max(0.0, times[times.size() / 2]);
  }

 private:
  void Forward(const NamedTensors& inputs) {
    (void)OrDie(Await<absl::StatusOr<NamedTensors>>([&](auto done) { model_->Forward(inputs, Mode::kTrain, nullptr, done); }));
  }
  void Backward() {
    (void)OrDie(Await<absl::StatusOr<BackwardReport>>([&](auto done) { model_->Backward({}, {}, nullptr, done); }));
  }
  Tensor Make(const Shape& shape, const float* values) {
    Tensor tensor = OrDie(Tensor::Empty(*memory_, shape, DType::kFloat32));
    std::copy_n(values, shape.Size(), tensor.data<float>());
    return tensor;
  }

  const int64_t rows_;
  std::shared_ptr<DeviceAllocator> memory_ =
      OrDie(DeviceAllocator::Create({}, std::make_shared<Budget>("bench", int64_t{1} << 40, "no flag")));
  std::shared_ptr<Lane> lane_ = OrDie(Lane::Create({}, {}, *memory_));
  std::shared_ptr<Model> model_;
  std::shared_ptr<Trainer> trainer_;
  NamedTensors batch_;
  std::vector<NamedTensors> slices_;
};

// The steps of both kinds, and the ring.
class Bench {
 public:
  Bench(const Network& network, int64_t rows) : written_(network, rows, GradReq::kWrite), added_(network, rows, GradReq::kAdd) {
    // Both begin with equal values, so that their first steps have the same gradients.
    const double shards = written_.Compute(kShards, nullptr), slices = added_.Add().second;
    if (!(std::abs(shards - slices) <= 1e-3 * slices)) {
      Die(absl::InternalError(absl::StrCat("shards have gradients of norm ", shards, ", slices by hand ", slices)));
    }
    (void)written_.Compute(1, ring_);
    const double bytes = ring_->all_bytes();
    ring_->set_seconds_a_byte(kShareOfBackward * written_.BackwardMilliseconds() / 1e3 / bytes);
  }

  double Measure(const std::string& command, int64_t steps) {
    if (command == "plain") return MillisecondsEach(steps, [&] { written_.Compute(1, nullptr); });
    if (command == "ring") return MillisecondsEach(steps, [&] { written_.Compute(1, ring_); });
    if (command == "shards") return MillisecondsEach(steps, [&] { written_.Compute(kShards, nullptr); });
    if (command != "add") Die(absl::InvalidArgumentError(absl::StrCat("command '", command, "'; want plain, ring, shards or add")));
    double time = 0;
    for (int64_t i = 0; i < steps; ++i) time += added_.Add().first;
    return time / static_cast<double>(steps);
  }

 private:
  Steps written_, added_;
  const std::shared_ptr<SleepingRing> ring_ = std::make_shared<SleepingRing>();
};

int Main(int argc, char** argv) {
  if (argc != 4 || std::atoll(argv[2]) < kShards || std::atoll(argv[3]) < 1) {
    std::cerr << "usage: sharded_bench NETWORK ROWS STEPS, of " << kShards << " ROWS or more\n";
    return 2;
  }
  OrDie(CheckRegistry());
  Bench bench(FindNetwork(argv[1]), std::atoll(argv[2]));
  for (std::string command; std::getline(std::cin, command);) {
    std::printf("%.4f\n", bench.Measure(command, std::atoll(argv[3])));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gluond::bench

int main(int argc, char** argv) { return gluond::bench::Main(argc, argv); }
