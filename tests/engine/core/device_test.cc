#include "engine/core/device.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using ::testing::HasSubstr;

TEST(Device, ParsesItsOwnSpellingAndMXNets) {
  for (const char* text : {"cpu", "cpu:0", "cpu(0)"}) EXPECT_EQ(*Device::Parse(text), Device{}) << text;
  EXPECT_EQ(*Device::Parse("gpu"), (Device{DeviceType::kGpu, 0}));
  for (const char* text : {"gpu:3", "gpu(3)"}) EXPECT_EQ(*Device::Parse(text), (Device{DeviceType::kGpu, 3})) << text;
  for (const Device device : {Device{}, Device{DeviceType::kGpu, 2}}) {
    EXPECT_EQ(*Device::Parse(device.ToString()), device);
  }
}

TEST(Device, RefusesOtherText) {
  for (const char* text : {"", "tpu", "cpux", "gpu:", "gpu:-1", "gpu(1", "gpu:1)", "gpu()", "gpu:99999999999", "GPU"}) {
    EXPECT_EQ(Device::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(Device, TheCpuIsAlwaysThere) {
  DeviceDriver* cpu = FindDriver({}).value();
  EXPECT_GT(cpu->total_bytes(), 0);
  void* data = cpu->Allocate(100).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  char text[100] = "copied";
  EXPECT_EQ(cpu->CopyFromHost(data, text, sizeof(text), nullptr), absl::OkStatus());
  EXPECT_STREQ(static_cast<char*>(data), "copied");
  EXPECT_EQ(cpu->Zero(data, 100, nullptr), absl::OkStatus());
  EXPECT_EQ(cpu->CopyToHost(text, data, sizeof(text), nullptr), absl::OkStatus());
  EXPECT_STREQ(text, "");
  cpu->Free(data, 100);
}

TEST(Device, AMissingGpuIsUnavailable) {
  const absl::Status status = FindDriver({DeviceType::kGpu, 7}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("device gpu:7 is not here"));
  EXPECT_EQ(NumGpus(), 0);
}

}  // namespace
}  // namespace gluond
