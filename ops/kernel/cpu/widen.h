// The 16-bit floating-point types on a CPU: Debian's oneDNN multiplies them only on CPUs with AVX-512, so products are
// computed in float32, between a conversion of the inputs and one of the outputs.

#ifndef OPS_KERNEL_CPU_WIDEN_H_
#define OPS_KERNEL_CPU_WIDEN_H_

#include "absl/status/statusor.h"
#include "engine/core/status_macros.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {

inline bool Is16Bit(DType type) { return type == DType::kFloat16 || type == DType::kBfloat16; }

// A float copy of n elements in temporary space.
inline absl::StatusOr<const float*> Widen(const OpContext& ctx, DType type, const void* x, int64_t n) {
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(n * sizeof(float)));
  float* y = static_cast<float*>(space);
  const TBlob from{const_cast<void*>(x), Shape({n}), type, ctx.device};
  Parallel(ctx, n, kGrain, [&](int64_t begin, int64_t end) { LoadTile(from, begin, end - begin, y + begin); });
  return y;
}

// Writes x to y, or adds it, as `req` says.
inline void Narrow(const OpContext& ctx, DType type, const float* x, OpReqType req, void* y, int64_t n) {
  if (req == kNullOp) return;
  const TBlob to{y, Shape({n}), type, ctx.device};
  Parallel(ctx, n, kGrain, [&](int64_t begin, int64_t end) { StoreTile(to, req, begin, end - begin, x + begin); });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CPU_WIDEN_H_
