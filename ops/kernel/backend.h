// The backend that a file is compiled for: cpu/ by g++ for the server, cuda/ by nvcc for the plugin, and by g++ for the
// emulated GPU. A primitive's header, or source, is its interface and the code that devices share. The code of each
// device stands in a part of that file, which has its name in the backend's folder and is included by nobody else:
//
//   #include BACKEND(map.h)
//
// A function there takes the device's tag first, as in Run(cpu, ...).

#ifndef OPS_KERNEL_BACKEND_H_
#define OPS_KERNEL_BACKEND_H_

#include "engine/core/device.h"

#define GLUOND_FILE_NAME(path) #path

namespace gluond::ops {

// A path is no sum of quotients.
// clang-format off
#ifdef GLUOND_GPU
using Backend = gpu;
#define BACKEND(file) GLUOND_FILE_NAME(ops/kernel/cuda/file)
#else
using Backend = cpu;
#define BACKEND(file) GLUOND_FILE_NAME(ops/kernel/cpu/file)
#endif
// clang-format on

}  // namespace gluond::ops

#endif  // OPS_KERNEL_BACKEND_H_
