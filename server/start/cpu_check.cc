#include "server/start/cpu_check.h"

#include <cstdlib>
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

std::string Instructions() {
  __builtin_cpu_init();
  std::string found = "avx2";
  const auto add = [&found](bool present, const char* name) {
    if (present) absl::StrAppend(&found, " ", name);
  };
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512dq"), "avx512dq");
  add(__builtin_cpu_supports("avx512vl"), "avx512vl");
  add(__builtin_cpu_supports("avx512vnni"), "avx512vnni");
  add(__builtin_cpu_supports("avx512bf16"), "avx512bf16");
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (const char* const most = std::getenv(name); most != nullptr) absl::StrAppend(&found, " at most ", most);
  }
  return found;
}

bool HasEqualRows() { return ops::HasEqualRows(); }

}  // namespace gluond::server
