// A training step on a GPU allocates no memory, waits only for the contents of its reply, and updates all weights at once.

#include <future>
#include <memory>

#include "client/cpp/type_messages.h"
#include "engine/train/trainer.h"
#include "server/codec/definition_codec.h"
#include "tests/bench/networks.h"
#include "tests/gpu/emulated/plugin_fixture.h"

namespace gluond {
namespace {

constexpr int64_t kBatch = 4;

class StepTest : public PluginTest {
 protected:
  Tensor Filled(const Shape& shape) {
    Tensor tensor = *Tensor::Empty(*host_, shape, DType::kFloat32);
    for (int64_t i = 0; i < tensor.Size(); ++i) tensor.data<float>()[i] = static_cast<float>(i % 7);
    return tensor;
  }

  const std::shared_ptr<DeviceAllocator> host_ = Memory(Device()), gpu_ = Memory(kGpu);
};

TEST_F(StepTest, AsksForNoMemoryAndWaitsForTheReportAndTheEnd) {
  const bench::Network network = bench::FindNetwork("lenet");
  v1::DefineModelRequest request;
  *request.mutable_block() = client::ToProto(network.block);
  *request.add_variables() = client::ToProto(network.Input());
  absl::StatusOr<ModelDefinition> definition = server::DefinitionFromProto(request, 1000);
  ASSERT_EQ(definition.status(), absl::OkStatus());
  const std::unique_ptr<Lanes> lanes = *Lanes::Create(kGpu, {.threads = 1}, *gpu_);
  const std::shared_ptr<Lane> lane = lanes->Take();
  const std::shared_ptr<Model> model = *Model::Create(*std::move(definition), {"m", 1, lane.get(), gpu_, host_});
  std::promise<absl::Status> initialized;
  model->Initialize({{"Xavier", {}}}, [&](absl::Status status) { initialized.set_value(std::move(status)); });
  ASSERT_EQ(initialized.get_future().get(), absl::OkStatus());
  const NamedTensors batch = {{"data", Filled(network.Batch(kBatch))}, {"label", Filled({kBatch})}};

  for (const bool norm_decides : {false, true}) {
    const std::shared_ptr<Trainer> trainer =
        *Trainer::Create(model, {.optimizer = {"sgd", {{"momentum", "0.9"}}}, .skip_nonfinite = norm_decides});
    constexpr int kWarmUp = 3, kSteps = 5;
    emulated::Counts before;
    for (int step = 0; step < kWarmUp + kSteps; ++step) {
      if (step == kWarmUp) before = Counts();
      std::promise<absl::StatusOr<StepReport>> done;
      trainer->TrainStep(batch, {}, nullptr, [&](absl::StatusOr<StepReport> report) { done.set_value(std::move(report)); });
      ASSERT_EQ(done.get_future().get().status(), absl::OkStatus());
    }
    const emulated::Counts after = Counts();
    EXPECT_EQ(after.allocations, before.allocations);
    EXPECT_EQ(after.waits - before.waits, 2 * kSteps);  // The report, and the end.
    // The inputs, the numbers of the update, and the report.
    EXPECT_EQ(after.copies - before.copies, 4 * kSteps);
    EXPECT_LE(after.launches - before.launches, 34 * kSteps);  // One of them updates all eight weights.
  }
}

}  // namespace
}  // namespace gluond
