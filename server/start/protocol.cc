#include "server/start/protocol.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bazel/commit.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

std::string Release() { return absl::StrCat("gluond-server ", kVersion, " (", Commit(), ")\n"); }

absl::Status CheckProtocol(uint32_t protocol, uint32_t lowest) {
  const uint32_t spoken = std::max<uint32_t>(protocol, 1);
  if (spoken >= lowest) return absl::OkStatus();
  return WithInfo(
      FailedPrecondition("the client is too old: it speaks protocol ", spoken, ", and this server, gluond ", kVersion, ", speaks ",
                         lowest, " to ", kProtocol, "; install the client of this release, or use an older server"),
      reason::kClientTooOld, {{"protocol", absl::StrCat(spoken)}, {"lowest", absl::StrCat(lowest)}, {"version", kVersion}});
}

}  // namespace gluond::server
