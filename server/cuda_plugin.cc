#include "server/cuda_plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/core/device.h"

namespace gluond::server {
namespace {

constexpr char kPlugin[] = "libgluond_cuda.so";

std::vector<std::string> Candidates(const std::string& path) {
  if (!path.empty()) return {path};
  std::error_code error;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  return {here / kPlugin, here / "../lib" / kPlugin, here / "../ops" / kPlugin};
}

absl::Status Unavailable(absl::string_view why) {
  // What the loader and the driver say may have several lines.
  return absl::UnavailableError(absl::StrCat("no GPU: ", absl::StrReplaceAll(why, {{"\n", " "}})));
}

}  // namespace

absl::Status LoadCudaPlugin(const std::string& path) {
  std::error_code error;
  for (const std::string& candidate : Candidates(path)) {
    if (!std::filesystem::exists(candidate, error)) continue;
    // Its kernels register themselves while it loads; it stays until exit.
    void* plugin = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) return Unavailable(dlerror());
    using StartPlugin = const char* (*)();
    const auto start = reinterpret_cast<StartPlugin>(dlsym(plugin, "gluond_start_plugin"));
    if (start == nullptr) return Unavailable(absl::StrCat(kPlugin, " is no plugin of gluond"));
    if (const char* why = start(); why != nullptr) return Unavailable(why);
    if (NumGpus() == 0) return Unavailable("the driver finds none");
    return absl::OkStatus();
  }
  return Unavailable(path.empty() ? absl::StrCat(kPlugin, " is not beside this program (build it with --config=cuda)")
                                  : absl::StrCat("--cuda_plugin: there is no such file"));
}

}  // namespace gluond::server
