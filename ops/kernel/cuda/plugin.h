// The agreement of the server and the GPU plugin. The plugin is a shared object of the operators' GPU kernels, and has
// no engine inside. Loading the plugin adds kernels to the registry of the process, and starting the plugin registers
// the GPUs.
//
// Both must come from one build, for they share C++ types, an operator's parameters among them. As the plugin's kernels
// register while it is being loaded, the server reads the build id from the file first.

#ifndef OPS_KERNEL_CUDA_PLUGIN_H_
#define OPS_KERNEL_CUDA_PLUGIN_H_

#include <cstddef>

#include "ops/kernel/build_id.h"  // Generated: GLUOND_BUILD_ID, a checksum of the sources that both sides share.

// Stands before the build id in the plugin's file; a semicolon stands after it.
#define GLUOND_CUDA_BUILD_MARK "gluond-cuda-plugin build="

namespace gluond::ops {

// The plugin's one function. 0: the GPUs are registered. Otherwise none is, and `message` (of `size` bytes) says why.
using CudaStart = int (*)(const char* build_id, char* message, size_t size);
inline constexpr const char* kCudaStart = "gluond_cuda_start";

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CUDA_PLUGIN_H_
