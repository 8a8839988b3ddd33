// GpuMath: the liberties that a GPU's libraries may take to be faster. The process sets it before anything computes.

#ifndef ENGINE_CORE_GPU_MATH_H_
#define ENGINE_CORE_GPU_MATH_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond {

struct GpuMath {
  // Where float32 is multiplied as TF32, with 10 bits of fraction, and added up in float32.
  enum class Tf32 { kNone, kConv, kAll };

  Tf32 tf32 = Tf32::kConv;    // As PyTorch's default: in convolutions, not in other products.
  bool deterministic = true;  // The same bits each time. Else cuDNN's fastest algorithms.
};

// "none", "conv" or "all". INVALID_ARGUMENT otherwise.
absl::StatusOr<GpuMath::Tf32> ParseTf32(absl::string_view text);

const GpuMath& TheGpuMath();
void SetGpuMath(const GpuMath& math);

}  // namespace gluond

#endif  // ENGINE_CORE_GPU_MATH_H_
