#include "server/start/cuda_plugin.h"

#include <dlfcn.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "ops/kernel/cuda/plugin.h"
#include "server/start/plugin_file.h"

namespace gluond::server {
namespace {

constexpr char kPlugin[] = "libgluond_cuda.so";

template <class... Args>
absl::Status NoGpu(const Args&... why) {
  // Texts of the loader and the driver may have several lines.
  return Unavailable("no GPU: ", absl::StrReplaceAll(absl::StrCat(why...), {{"\n", " "}}));
}

// Reads the build id from the file's bytes: loading it would run its code.
absl::Status CheckBuild(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::string mark = GLUOND_CUDA_BUILD_MARK;
  const size_t at = bytes.find(mark);
  if (at == std::string::npos) return NoGpu("'", Excerpt(path), "' is no CUDA plugin of gluond");
  const std::string build = bytes.substr(at + mark.size(), bytes.find(';', at) - at - mark.size());
  if (build == GLUOND_BUILD_ID) return absl::OkStatus();
  return NoGpu("'", Excerpt(path), "' is of build ", Excerpt(build), ", and this server of build ", GLUOND_BUILD_ID,
               "; use the plugin that was built with it");
}

}  // namespace

absl::Status LoadCudaPlugin(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string file, FindPlugin(path, "no GPU: --cuda_plugin", kPlugin, "../ops"));
  RETURN_IF_ERROR(CheckBuild(file));
  // Its kernels register themselves while it loads, so it stays until exit.
  void* const plugin = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return NoGpu(dlerror());
  const auto start = reinterpret_cast<ops::CudaStart>(dlsym(plugin, ops::kCudaStart));
  if (start == nullptr) return NoGpu(dlerror());
  char why[256];
  if (start(GLUOND_BUILD_ID, why, sizeof(why)) != 0) return NoGpu(why);
  return absl::OkStatus();
}

}  // namespace gluond::server
