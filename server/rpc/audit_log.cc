#include "server/rpc/audit_log.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/core/text.h"
#include "server/rpc/json_line.h"

namespace gluond::server {
namespace {

// The client may have made the target's name up: a tenant's name and the longest of a thing are shorter than this.
constexpr size_t kMostTarget = 200;

std::string ToJsonLine(const Audited& audited, int64_t left_out) {
  return absl::StrCat(BeginJsonLine("audit", LevelOf(audited.code, /*reason=*/"")), JsonIfThere("caller", audited.caller),
                      ",\"method\":", JsonQuoted(audited.method), JsonIfThere("command", audited.command),
                      JsonIfThere("target", Excerpt(audited.target, kMostTarget)),
                      ",\"code\":", JsonQuoted(absl::StatusCodeToString(audited.code)), JsonIfThere("peer", audited.peer),
                      JsonIfThere("request_id", audited.request_id), left_out == 0 ? "" : absl::StrCat(",\"left_out\":", left_out),
                      "}\n");
}

// The reason by which lines are limited. A target is some thing's only where the call went well: else the client may have made
// it up.
std::string ReasonOf(const Audited& audited) {
  const std::string who = audited.caller.empty() ? audited.peer.substr(0, audited.peer.rfind(':')) : audited.caller;
  const bool has_target = audited.code == absl::StatusCode::kOk && !audited.target.empty();
  return absl::StrCat(who, " ", audited.method, audited.command.empty() ? "" : " ", audited.command, " ",
                      absl::StatusCodeToString(audited.code), has_target ? " " : "", has_target ? audited.target : "");
}

}  // namespace

absl::Status AuditLog::Check() const {
  if (health_ == nullptr || health_()) return absl::OkStatus();
  return absl::UnavailableError(
      "the audit log cannot be written, and without its line this is not done (--audit=required); ask the server's operator");
}

void AuditLog::Tell(const Audited& audited) {
  if (sink_ == nullptr) return;
  if (audited.audit == Audit::kMany || IsRefusal(audited.code)) {
    const std::optional<int64_t> left_out = (audited.caller.empty() ? strangers_ : callers_).Admit(ReasonOf(audited));
    if (left_out.has_value()) sink_(ToJsonLine(audited, *left_out));
    return;
  }
  const std::string line = ToJsonLine(audited, 0);
  sink_({line, /*is_kept=*/audited.code == absl::StatusCode::kOk});
}

void AuditLog::Sweep(LogLimit::Which which) {
  for (LogLimit* const limit : {&callers_, &strangers_}) LogLeftOut("audit_left_out", *limit, which, sink_);
  // A log that is required is tried until it is written again.
  if (which == LogLimit::kDue && sink_ != nullptr && !Check().ok()) {
    sink_(absl::StrCat(BeginJsonLine("audit_log_failed", LogLevel::kError), "}\n"));
  }
}

}  // namespace gluond::server
