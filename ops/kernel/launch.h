// Launch: how work reaches the processors. ForEach calls one functor for every index, on either device:
//
//   struct Arange { float* y; HOST_DEVICE void operator()(int64_t i) const { y[i] = i; } };
//   return ForEach<D>(ctx, n, Arange{y});

#ifndef OPS_KERNEL_LAUNCH_H_
#define OPS_KERNEL_LAUNCH_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/host_device.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"
#include "ops/kernel/backend.h"
#include BACKEND(launch.h)

namespace gluond::ops {

// Elements that one thread of the CPU should at least have: below this, waking another costs more than it saves.
inline constexpr int64_t kGrain = 32768;

// f(i) for i in [0, n). The calls must not write what others read. `grain`: the least that a thread of the CPU gets.
template <class D, class F>
absl::Status ForEach(const OpContext& ctx, int64_t n, F f, int64_t grain = kGrain) {
  return n <= 0 ? absl::OkStatus() : ForEachOn(D(), ctx, n, f, grain);
}

// CopyBytes(D(), ctx, x, y) copies x to y, and ZeroBytes(D(), ctx, y) sets every byte of y to zero.

}  // namespace gluond::ops

#endif  // OPS_KERNEL_LAUNCH_H_
