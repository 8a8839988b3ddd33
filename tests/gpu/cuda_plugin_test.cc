// The real plugin, on whatever machine this is: with a GPU it registers it, without a driver it says so in one line.

#include "absl/strings/match.h"
#include "engine/core/device.h"
#include "engine/core/op.h"
#include "gtest/gtest.h"
#include "server/cuda_plugin.h"

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

// It was loaded, driver or not, and its kernels are in this program's registry: every operator has one.
TEST(CudaPlugin, HasAKernelForEveryOperator) {
  LoadCudaPlugin("ops/libgluond_cuda.so").IgnoreError();
  for (const std::string& name : Op::ListNames()) {
    const Op& op = *Op::Find(name);
    if (op.RunsOn(DeviceType::kCpu)) {
      EXPECT_TRUE(op.RunsOn(DeviceType::kGpu)) << name;
    }
  }
}

}  // namespace
}  // namespace gluond::server
