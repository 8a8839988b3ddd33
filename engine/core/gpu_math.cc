#include "engine/core/gpu_math.h"

#include "absl/strings/str_cat.h"
#include "engine/core/text.h"

namespace gluond {
namespace {

GpuMath the_gpu_math;

}  // namespace

absl::StatusOr<GpuMath::Tf32> ParseTf32(absl::string_view text) {
  if (text == "none") return GpuMath::Tf32::kNone;
  if (text == "conv") return GpuMath::Tf32::kConv;
  if (text == "all") return GpuMath::Tf32::kAll;
  return absl::InvalidArgumentError(absl::StrCat("'", Excerpt(text), "' is not none, conv or all"));
}

const GpuMath& TheGpuMath() { return the_gpu_math; }
void SetGpuMath(const GpuMath& math) { the_gpu_math = math; }

}  // namespace gluond
