// The promises of the plugin's driver to the engine, and the functions that need only the driver.

#include <vector>

#include "engine/core/op_context.h"
#include "gmock/gmock.h"
#include "ops/kernel/host_blobs.h"
#include "tests/gpu/emulated/plugin_fixture.h"

namespace gluond {
namespace {

class DriverTest : public PluginTest {
 protected:
  DriverTest() : driver_(**FindDriver(kGpu)), stream_(*driver_.CreateStream()) {}

  std::vector<float> ToHost(const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.Size()));
    EXPECT_EQ(driver_.CopyToHost(values.data(), tensor.data(), tensor.bytes(), stream_), absl::OkStatus());
    return values;
  }

  DeviceDriver& driver_;
  void* const stream_;
  const std::shared_ptr<DeviceAllocator> memory_ = Memory(kGpu);
};

TEST_F(DriverTest, TheGpusAreThereOnceHoweverOftenThePluginIsLoaded) {
  ASSERT_EQ(NumGpus(), 1);
  EXPECT_EQ(server::LoadCudaPlugin(kPlugin), absl::OkStatus());
  EXPECT_EQ(NumGpus(), 1);
}

TEST_F(DriverTest, RefusesMoreThanThereIsAndGoesOn) {
  const int64_t used = driver_.used_bytes();
  const auto whole = std::make_shared<Budget>("the server's gpu:0", int64_t{1} << 40, "--max_tensor_bytes");
  const auto model = std::make_shared<Budget>("model 'm'", int64_t{1} << 40, "--max_model_bytes", whole);
  const std::unique_ptr<DeviceAllocator> allocator = *DeviceAllocator::Create(kGpu, model);
  const std::shared_ptr<Buffer> kept = *allocator->Allocate(8);
  const absl::Status refused = allocator->Allocate(size_t{17} << 30).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::MatchesRegex("gpu:0: the device \\(emulated GPU, 16 GiB\\) has no 18253611008 bytes left; [0-9]+ "
                                      "are in use, by this process and all others; here by: model 'm' 8 bytes"));
  const Tensor tensor = *Tensor::Empty(*memory_, {2}, DType::kFloat32);
  EXPECT_EQ(driver_.Zero(tensor.data(), tensor.bytes(), stream_), absl::OkStatus());
  EXPECT_THAT(ToHost(tensor), ::testing::ElementsAre(0, 0));
  EXPECT_GT(driver_.used_bytes(), used);
}

// Each Zero is put on the stream; without Pace, no one would wait for them.
TEST_F(DriverTest, WaitsForEarlierWorkWhereMuchIsUnderWay) {
  const Tensor tensor = *Tensor::Empty(*memory_, {2}, DType::kFloat32);
  const int before = Counts().waits;
  for (int i = 0; i < 640; ++i) {
    ASSERT_EQ(driver_.Zero(tensor.data(), tensor.bytes(), stream_), absl::OkStatus());
    ASSERT_EQ(driver_.Pace(stream_, 1), absl::OkStatus());
  }
  EXPECT_THAT(Counts().waits - before, ::testing::AllOf(::testing::Ge(5), ::testing::Le(20)));
}

// A client may answer twice. By the second answer, the output's memory may belong to somebody else.
TEST_F(DriverTest, AnOperatorOfTheHostCompletesOnce) {
  const Tensor y = *Tensor::Empty(*memory_, {2}, DType::kFloat32);
  ASSERT_EQ(driver_.Zero(y.data(), y.bytes(), stream_), absl::OkStatus());
  OpContext context;
  context.device = kGpu;
  context.stream = stream_;
  const std::shared_ptr<DeviceAllocator> host_memory = Memory(Device());
  context.host_memory = host_memory.get();
  int times = 0;
  absl::Status said;
  class Done final : public Completion::Receiver {
   public:
    Done(int* times, absl::Status* said) : times_(times), said_(said) {}
    void Complete(absl::Status status) override {
      ++*times_;
      *said_ = std::move(status);
    }
    void AddRef() override {}
    void Release() override {}

   private:
    int* const times_;
    absl::Status* const said_;
  } done(&times, &said);
  ops::HostBlobs<gpu> blobs(context);
  const TBlob host = *blobs.Output(y.blob(), kWriteTo);
  host.dptr<float>()[0] = 1;
  host.dptr<float>()[1] = 2;
  const Completion completion = *std::move(blobs).Finish(Completion(&done));
  completion(absl::OkStatus());
  EXPECT_THAT(ToHost(y), ::testing::ElementsAre(1, 2));
  ASSERT_EQ(driver_.Zero(y.data(), y.bytes(), stream_), absl::OkStatus());  // It is another's now.
  completion(absl::OkStatus());
  completion(absl::InternalError("late"));
  EXPECT_THAT(ToHost(y), ::testing::ElementsAre(0, 0));
  EXPECT_EQ(times, 1);
  EXPECT_EQ(said, absl::OkStatus());
}

}  // namespace
}  // namespace gluond
