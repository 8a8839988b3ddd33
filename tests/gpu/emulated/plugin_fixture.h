// PluginTest: the plugin on the emulated machine, loaded into the test's process as the server loads it.

#ifndef TESTS_GPU_EMULATED_PLUGIN_FIXTURE_H_
#define TESTS_GPU_EMULATED_PLUGIN_FIXTURE_H_

#include <dlfcn.h>

#include <memory>
#include <string>

#include "engine/core/device.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "gtest/gtest.h"
#include "server/start/cuda_plugin.h"
#include "tests/gpu/emulated/machine.h"

namespace gluond {

class PluginTest : public ::testing::Test {
 protected:
  static constexpr char kPlugin[] = "tests/gpu/emulated/libgluond_cuda_emulated.so";
  static constexpr Device kGpu = {DeviceType::kGpu, 0};

  static void SetUpTestSuite() {
    ASSERT_EQ(server::LoadCudaPlugin(kPlugin), absl::OkStatus());
    void* const library = dlopen(kPlugin, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr) << dlerror();
    counts_ = reinterpret_cast<decltype(counts_)>(dlsym(library, "gluond_emulated_counts"));
    ASSERT_NE(counts_, nullptr);
  }
  static emulated::Counts Counts() { return counts_(); }

  static std::shared_ptr<DeviceAllocator> Memory(Device device) {
    return *DeviceAllocator::Create(device, std::make_shared<Budget>(device.ToString(), int64_t{1} << 40, "--test"));
  }

 private:
  inline static emulated::Counts (*counts_)() = nullptr;
};

}  // namespace gluond

#endif  // TESTS_GPU_EMULATED_PLUGIN_FIXTURE_H_
