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
  return absl::StrCat(BeginJsonLine("audit"), JsonIfThere("caller", audited.caller), ",\"method\":",
                      JsonQuoted(audited.method), JsonIfThere("command", audited.command),
                      JsonIfThere("target", Excerpt(audited.target, kMostTarget)), ",\"code\":",
                      JsonQuoted(CodeName(audited.code)), ",\"peer\":", JsonQuoted(audited.peer),
                      JsonIfThere("request_id", audited.request_id),
                      left_out == 0 ? "" : absl::StrCat(",\"left_out\":", left_out), "}\n");
}

}  // namespace

void AuditLog::Changed(const Audited& audited) {
  if (sink_ == nullptr) return;
  const std::string line = ToJsonLine(audited, 0);
  sink_({line, /*is_kept=*/audited.code == absl::StatusCode::kOk});
}

void AuditLog::Refused(const Audited& audited) {
  if (sink_ == nullptr) return;
  const std::optional<int64_t> left_out = limit_.Admit(absl::StrCat(audited.method, " ", CodeName(audited.code)));
  if (left_out.has_value()) sink_(ToJsonLine(audited, *left_out));
}

void AuditLog::Tell(const LogLimit::Counts& counts) {
  for (const auto& [reason, left_out] : counts) {
    sink_(absl::StrCat(BeginJsonLine("audit_left_out"), ",\"reason\":", JsonQuoted(reason), ",\"left_out\":", left_out,
                       "}\n"));
  }
}

}  // namespace gluond::server
