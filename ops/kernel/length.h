// Lengths that come from data: how much of a row or a sequence counts.

#ifndef OPS_KERNEL_LENGTH_H_
#define OPS_KERNEL_LENGTH_H_

#include <cstdint>

#include "engine/core/host_device.h"

namespace gluond::ops {

// v in [0, n], its fraction cut off. NaN is 0.
HOST_DEVICE int64_t ToLength(double v, int64_t n) { return v >= static_cast<double>(n) ? n : v > 0 ? static_cast<int64_t>(v) : 0; }

}  // namespace gluond::ops

#endif  // OPS_KERNEL_LENGTH_H_
