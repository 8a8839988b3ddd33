// An operator that a client computes works on copies in the host's memory where its arrays are on a GPU. The host's
// budget pays for these copies, and refuses those that it has no room for.

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "ops/kernel/host_blobs.h"
#include "server/hosted/devices.h"
#include "tests/gpu/emulated/plugin_fixture.h"

namespace gluond {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Takes a call's end.
class Ended final : public Completion::Receiver {
 public:
  void Complete(absl::Status status) override { said = std::move(status); }
  void AddRef() override {}
  void Release() override {}
  absl::Status said = absl::UnknownError("nothing yet");
};

class HostCopiesTest : public PluginTest {
 protected:
  HostCopiesTest() {
    context_.device = kGpu;
    context_.stream = *(*FindDriver(kGpu))->CreateStream();
    context_.host_memory = memory_.get();
  }
  Tensor OnGpu(int64_t bytes) { return *Tensor::Empty(*gpu_, {bytes}, DType::kUint8); }

  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("the server's cpu", 4096, "--max_tensor_bytes");
  const std::shared_ptr<DeviceAllocator> memory_ = *DeviceAllocator::Create(Device(), budget_), gpu_ = Memory(kGpu);
  OpContext context_;
};

TEST_F(HostCopiesTest, AreChargedUntilTheLastCopyOfTheCompletionIsGone) {
  const Tensor x = OnGpu(1000), y = OnGpu(500), number = *Tensor::Empty(*gpu_, {1}, DType::kInt64);
  Ended ended;
  {
    ops::HostBlobs<gpu> blobs(context_);
    ASSERT_TRUE(blobs.Input(x.blob()).ok());
    EXPECT_EQ(budget_->used(), 1000);
    ASSERT_TRUE(blobs.Output(y.blob(), kAddTo).ok());
    ASSERT_TRUE(blobs.Output(y.blob(), kNullOp).ok());  // Nobody wants it, and no copy is made.
    ASSERT_EQ(blobs.Set(number.blob(), 7), absl::OkStatus());
    EXPECT_EQ(budget_->used(), 1508);
    Completion completion = *std::move(blobs).Finish(Completion(&ended));
    completion(absl::OkStatus());
    EXPECT_EQ(ended.said, absl::OkStatus());
    EXPECT_EQ(budget_->used(), 1508);
    completion = Completion();
    EXPECT_EQ(budget_->used(), 0);
  }
  EXPECT_EQ(budget_->used(), 0);
}

TEST_F(HostCopiesTest, AreRefusedWhereTheHostHasNoRoomAndLeaveNothingCharged) {
  const Tensor x = OnGpu(1000), large = OnGpu(4000);
  for (const bool is_input : {true, false}) {
    ops::HostBlobs<gpu> blobs(context_);
    ASSERT_TRUE(blobs.Input(x.blob()).ok());
    const absl::Status refused = (is_input ? blobs.Input(large.blob()) : blobs.Output(large.blob(), kWriteTo)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("copies in the host's memory; no copy of an array of shape [4000] on gpu:0"),
                      HasSubstr("4000 bytes wanted, 1000 of 4096 in use"), HasSubstr("or raise --max_tensor_bytes")));
  }
  EXPECT_EQ(budget_->used(), 0);
}

TEST_F(HostCopiesTest, OfAnEmptyArrayAreNoAbsentBlobs) {
  ops::HostBlobs<gpu> blobs(context_);
  EXPECT_NE(blobs.Input(OnGpu(0).blob())->data, nullptr);
}

TEST_F(HostCopiesTest, AreNotMadeWhereNobodySaysWhoPays) {
  context_.host_memory = nullptr;
  ops::HostBlobs<gpu> blobs(context_);
  EXPECT_EQ(blobs.Input(OnGpu(8).blob()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(HostCopiesTest, ArePaidByAServersHost) {
  const std::unique_ptr<server::Devices> devices = *server::Devices::Open("gpu:0,cpu", 1, server::Limits());
  const std::shared_ptr<Lane> lane = (*devices->Find("gpu:0"))->lanes->Take();
  const OpContext context = lane->NewContext(/*training=*/false);
  const int64_t before = devices->host().budget->used(), at_all = devices->memory()->used();
  const Tensor x = OnGpu(100'000);
  {
    ops::HostBlobs<gpu> blobs(context);
    ASSERT_TRUE(blobs.Input(x.blob()).ok());
    EXPECT_GE(devices->host().budget->used(), before + 100'000);
    EXPECT_GE(devices->memory()->used(), at_all + 100'000);
  }
  EXPECT_EQ(devices->host().budget->used(), before);
}

}  // namespace
}  // namespace gluond
