// Steps in shards on a GPU: the same bits for every number of processes.

#include <string>

#include "server/start/cuda_plugin.h"
#include "tests/engine/train/sharded_fixture.h"

namespace gluond {
namespace {

class ShardedOnGpuTest : public ShardedStepTest, public testing::WithParamInterface<ShardedCase> {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(server::LoadCudaPlugin("tests/gpu/emulated/libgluond_cuda_emulated.so"), absl::OkStatus());
  }
  ShardedOnGpuTest() {
    device_memory_ = *DeviceAllocator::Create({DeviceType::kGpu, 0}, std::make_shared<Budget>("gpu:0", int64_t{1} << 30, "--none"));
  }
};

TEST_P(ShardedOnGpuTest, EqualBitsForEveryNumberOfProcesses) {
  for (const int64_t shards : {1, 2, 4}) {
    const std::string alone = ResultOf(GetParam(), shards, 1);
    for (size_t size = 2; static_cast<int64_t>(size) <= shards; size *= 2) {
      EXPECT_EQ(ResultOf(GetParam(), shards, size), alone) << shards << " shards, " << size << " processes";
      if (HasFailure()) return;
    }
  }
}

// The CPU's step is the oracle, within rounding; a spare ends with the bits of the others.
TEST_P(ShardedOnGpuTest, AsOnTheCpu) {
  const ShardedCase& c = GetParam();
  Group on_gpu = MakeGroup(c, 4, 2, /*spares=*/1);
  device_memory_ = memory_;
  Group on_cpu = MakeGroup(c, 4, 2);
  for (uint64_t t = 0; t < 3; ++t) {
    const StepReport gpu = ShardedSteps(on_gpu, BatchOf(c, t)), cpu = ShardedSteps(on_cpu, BatchOf(c, t));
    EXPECT_NEAR(gpu.loss, cpu.loss, 1e-4);
    EXPECT_EQ(gpu.samples, cpu.samples);
  }
  const absl::StatusOr<NamedTensors> gpu = Get(*on_gpu.models[0]), cpu = Get(*on_cpu.models[0]), spare = Get(*on_gpu.models[2]);
  ASSERT_OK(gpu.status());
  ASSERT_OK(cpu.status());
  ASSERT_OK(spare.status());
  for (size_t i = 0; i < gpu->size(); ++i) {
    const Tensor &x = (*gpu)[i].tensor, &y = (*cpu)[i].tensor, &z = (*spare)[i].tensor;
    for (int64_t k = 0; k < x.Size(); ++k) {
      ASSERT_NEAR(x.data<float>()[k], y.data<float>()[k], 1e-3) << (*gpu)[i].name;
      ASSERT_EQ(x.data<float>()[k], z.data<float>()[k]) << (*gpu)[i].name;
    }
  }
}

struct Nets : TrainerTest {
  using TrainerTest::Mlp;
};

// Three rows of three classes, each in a shard of its own, have gradients that cancel out but for rounding. A small epsilon would
// make steps of that rounding, which is another on each kind of device.
const Spec kSteadyAdam = {"adam", {{"learning_rate", "0.01"}, {"epsilon", "0.001"}}};

INSTANTIATE_TEST_SUITE_P(
    Nets, ShardedOnGpuTest,
    testing::ValuesIn<ShardedCase>({
        {"Dense", Nets::Mlp(8, 3), {{"data", {-1, 5}}}, 13, {.optimizer = kMomentum, .metrics = {{"accuracy", {}}}}},
        {"FewRows", Nets::Mlp(8, 3), {{"data", {-1, -1}}}, 3, {.optimizer = kSteadyAdam}},
        {"TwoRows", Nets::Mlp(8, 3), {{"data", {-1, -1}}}, 2, {.optimizer = kMomentum}},
        {"Wide", Nets::Mlp(700, 3), {{"data", {-1, 300}}}, 12, {.optimizer = kMomentum}},
        {"Add", Nets::Mlp(8, 3), {{"data", {-1, 5}}}, 13, {.optimizer = kMomentum}, GradReq::kAdd},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gluond
