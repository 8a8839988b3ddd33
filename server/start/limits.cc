#include "server/start/limits.h"

#include <string>

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

absl::Status CheckLimits(const Limits& limits) {
  for (const LimitFlag& flag : kFlags) {
    const int64_t limit = limits.*flag.limit;
    if (limit >= flag.least && limit <= flag.most) continue;
    const std::string range =
        flag.most == kAnyLimit ? absl::StrCat(flag.least, " or more") : absl::StrCat(flag.least, " to ", flag.most);
    return InvalidArgument("--", flag.name, " is ", limit, "; want ", range);
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
