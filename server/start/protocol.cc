#include "server/start/protocol.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

// bazel/stamp.bzl writes into the finished program here. The compiler is to believe nothing of the value that it sees.
[[gnu::section(".gluond_commit"), gnu::used]] const volatile char kCommit[64] = "unknown";

}  // namespace

std::string Commit() {
  std::string commit;
  for (const volatile char& c : kCommit) {
    if (c == '\0') break;
    commit += c;
  }
  return commit;
}

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
