// The real plugin, on whatever machine this is: with a GPU it registers it, without a driver it says so in one line.

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "engine/core/device.h"
#include "engine/core/op.h"
#include "gtest/gtest.h"
#include "server/start/cuda_plugin.h"

namespace gluond::server {
namespace {

TEST(CudaPlugin, LoadsOrSaysWhyNot) {
  const absl::Status status = LoadCudaPlugin("ops/libgluond_cuda.so");
  if (status.ok()) {
    EXPECT_GT(NumGpus(), 0);
    EXPECT_TRUE(FindDriver({DeviceType::kGpu, 0}).ok());
  } else {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(status.message(), "CUDA")) << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
    EXPECT_EQ(NumGpus(), 0);
  }
  EXPECT_TRUE(CheckRegistry().ok()) << CheckRegistry();
}

// It was loaded, driver or not, and its kernels are in this program's registry: every operator has one, but those that only
// predictions on a CPU call (engine/passes/block_channels.h).
TEST(CudaPlugin, HasAKernelForEveryOperator) {
  const std::set<std::string> of_a_cpu = {"_blocked_Convolution", "_blocked_Pooling"};
  LoadCudaPlugin("ops/libgluond_cuda.so").IgnoreError();
  for (const std::string& name : Op::ListNames()) {
    const Op& op = *Op::Find(name);
    if (op.kernel(DeviceType::kCpu) != nullptr) {
      EXPECT_EQ(op.kernel(DeviceType::kGpu) == nullptr, of_a_cpu.contains(name)) << name;
    }
  }
}

// The attributes were parsed by this program: what the plugin reads must be the same type, from whichever side.
TEST(CudaPlugin, KernelsReadTheAttributesThatThisProgramParsed) {
  LoadCudaPlugin("ops/libgluond_cuda.so").IgnoreError();
  const Op& op = *Op::Find("Pooling");
  NodeAttrs attrs;
  attrs.op = &op;
  attrs.dict = {{"kernel", "(2, 2)"}, {"pool_type", "avg"}};
  ASSERT_TRUE(op.ParseAttrs(&attrs).ok());
  const std::vector<TBlob> x = {{nullptr, {1, 1, 4, 4}, DType::kFloat32, {DeviceType::kGpu, 0}}},
                           y = {{nullptr, {1, 1, 3, 3}, DType::kFloat32, {DeviceType::kGpu, 0}}};
  const std::vector<OpReqType> req = {kNullOp};  // So that it reads them and launches nothing.
  EXPECT_TRUE((*op.GetAttr<FCompute>("FCompute<gpu>"))(attrs, OpContext(), x, req, y).ok());
}

}  // namespace
}  // namespace gluond::server
