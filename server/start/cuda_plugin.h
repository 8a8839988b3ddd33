// Loads the GPU's kernels, a shared object that is built apart (ops/BUILD), so that this program has no CUDA among its
// dependencies. The plugin finds the one registry in this program, adds its kernels to it, and registers the GPUs.

#ifndef SERVER_START_CUDA_PLUGIN_H_
#define SERVER_START_CUDA_PLUGIN_H_

#include <string>

#include "absl/status/status.h"

namespace gluond::server {

// Empty `path`: looked for beside this program, in ../lib, and in ../ops. UNAVAILABLE, in one line: the file is not there, or
// it is no plugin, or a plugin of another build (known before any code of it runs). Or it cannot be loaded, without CUDA's
// libraries, or finds no GPU, without a driver. To be called before threads look at the registry.
absl::Status LoadCudaPlugin(const std::string& path);

}  // namespace gluond::server

#endif  // SERVER_START_CUDA_PLUGIN_H_
