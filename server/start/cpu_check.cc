#include "server/start/cpu_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "ops/kernel/equal_rows.h"

namespace gluond::server {

absl::Status CheckCpu() {
  __builtin_cpu_init();
  std::string missing;
  const auto need = [&missing](bool present, const char* name) {
    if (!present) absl::StrAppend(&missing, missing.empty() ? "" : ", ", name);
  };
  need(__builtin_cpu_supports("avx2"), "AVX2");
  need(__builtin_cpu_supports("fma"), "FMA");
  need(__builtin_cpu_supports("bmi2"), "BMI2");
  need(__builtin_cpu_supports("sse4.2"), "SSE4.2");
  if (missing.empty()) return absl::OkStatus();
  return FailedPrecondition("this processor lacks ", missing,
                            "; gluond needs x86-64-v3 (Intel Haswell, AMD Excavator, or newer). In a virtual machine, "
                            "choose a CPU model that passes the host's instructions through");
}

bool HasEqualRows() { return ops::HasEqualRows(); }

}  // namespace gluond::server
