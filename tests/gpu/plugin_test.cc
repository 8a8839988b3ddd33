// LoadCudaPlugin refuses, in one line and before it runs any code of the file, what is no plugin of this build.

#include <fstream>

#include "engine/core/device.h"
#include "gtest/gtest.h"
#include "ops/kernel/cuda/plugin.h"
#include "server/start/cuda_plugin.h"

namespace gluond::server {
namespace {

std::string FileWith(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

void ExpectRefused(const std::string& path, const std::string& why) {
  const absl::Status status = LoadCudaPlugin(path);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NE(status.message().find(why), absl::string_view::npos) << status;
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
  EXPECT_EQ(NumGpus(), 0);
  EXPECT_TRUE(FindDriver(Device()).ok());  // The CPU goes on.
}

TEST(LoadCudaPlugin, SaysThatThereIsNoFile) { ExpectRefused("/nowhere/libgluond_cuda.so", "there is no file"); }

TEST(LoadCudaPlugin, SaysWhereItLooked) { ExpectRefused("", "neither beside this program nor in ../lib or ../ops"); }

TEST(LoadCudaPlugin, RefusesWhatIsNoPlugin) {
  ExpectRefused(FileWith("empty.so", ""), "is no CUDA plugin of gluond");
  ExpectRefused(FileWith("text.so",
                         "\x7f"
                         "ELF and then nothing of use"),
                "is no CUDA plugin of gluond");
}

TEST(LoadCudaPlugin, RefusesAnotherBuild) {
  ExpectRefused(FileWith("old.so",
                         "\x7f"
                         "ELF... " GLUOND_CUDA_BUILD_MARK "0123456789abcdef; ..."),
                "is of build 0123456789abcdef, and this server of build " GLUOND_BUILD_ID);
}

TEST(LoadCudaPlugin, RefusesWhatCannotBeLoaded) {
  ExpectRefused(FileWith("broken.so",
                         "\x7f"
                         "ELF... " GLUOND_CUDA_BUILD_MARK GLUOND_BUILD_ID "; cut off"),
                "broken.so");
}

}  // namespace
}  // namespace gluond::server
