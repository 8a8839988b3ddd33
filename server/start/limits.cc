#include "server/start/limits.h"

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

constexpr LimitFlag kFlags[] = {
#define GLUOND_LIMIT(name, value, least, most, help) {#name, &Limits::name, least, most},
    GLUOND_LIMITS(GLUOND_LIMIT)
#undef GLUOND_LIMIT
};

}  // namespace

absl::Span<const LimitFlag> LimitFlags() { return kFlags; }

absl::Status CheckInRange(absl::string_view name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Invalid(name, " is ", value, "; want ", least, most == kAnyLimit ? " or more" : absl::StrCat(" to ", most));
}

absl::Status CheckLimits(const Limits& limits) {
  for (const LimitFlag& flag : kFlags) {
    RETURN_IF_ERROR(CheckInRange(absl::StrCat("--", flag.name), limits.*flag.limit, flag.least, flag.most));
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
