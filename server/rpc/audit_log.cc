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
                      JsonIfThere("target", Excerpt(audited.target, kMostTarget)), ",\"code\":", JsonQuoted(CodeName(audited.code)),
                      JsonIfThere("peer", audited.peer), JsonIfThere("request_id", audited.request_id),
                      left_out == 0 ? "" : absl::StrCat(",\"left_out\":", left_out), "}\n");
}

// The reason by which lines are limited. A target is some thing's only where the call went well: else the client may have made
// it up.
std::string ReasonOf(const Audited& audited) {
  const std::string who = audited.caller.empty() ? audited.peer.substr(0, audited.peer.rfind(':')) : audited.caller;
  const bool has_target = audited.code == absl::StatusCode::kOk && !audited.target.empty();
  return absl::StrCat(who, " ", audited.method, audited.command.empty() ? "" : " ", audited.command, " ", CodeName(audited.code),
                      has_target ? " " : "", has_target ? audited.target : "");
}

}  // namespace

absl::Status AuditLog::Check() const {
  if (health_ == nullptr || health_()) return absl::OkStatus();
  return absl::UnavailableError(
      "the audit log cannot be written, and without its line this is not done (--audit=required); ask "
      "the server's operator");
}

void AuditLog::Tell(const Audited& audited) {
  if (sink_ == nullptr) return;
  if (audited.audit == Audit::kMany || IsRefusal(audited.code)) {
    return TellLimited(audited.caller.empty() ? strangers_ : callers_, ReasonOf(audited), audited);
  }
  const std::string line = ToJsonLine(audited, 0);
  sink_({line, /*is_kept=*/audited.code == absl::StatusCode::kOk});
}

void AuditLog::TellLimited(LogLimit& limit, const std::string& reason, const Audited& audited) {
  const std::optional<int64_t> left_out = limit.Admit(reason);
  if (left_out.has_value()) sink_(ToJsonLine(audited, *left_out));
}

void AuditLog::Sweep() {
  TellLeftOut([](LogLimit& limit) { return limit.TakeLeftOut(); });
  // A log that is required is tried until it is written again.
  if (sink_ != nullptr && !Check().ok()) sink_(absl::StrCat(BeginJsonLine("audit_log_failed", LogLevel::kError), "}\n"));
}

void AuditLog::Flush() {
  TellLeftOut([](LogLimit& limit) { return limit.TakeAllLeftOut(); });
}

template <class Take>
void AuditLog::TellLeftOut(Take take) {
  for (LogLimit* const limit : {&callers_, &strangers_}) {
    for (const auto& [reason, left_out] : take(*limit)) {
      sink_(absl::StrCat(BeginJsonLine("audit_left_out", LogLevel::kWarning), ",\"reason\":", JsonQuoted(reason),
                         ",\"left_out\":", left_out, "}\n"));
    }
  }
}

}  // namespace gluond::server
