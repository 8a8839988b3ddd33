#include "server/rpc/log_levels.h"

#include "engine/core/error_info.h"

namespace gluond::server {

LogLevel LevelOf(absl::StatusCode code, absl::string_view reason) {
  switch (code) {
    case absl::StatusCode::kOk: return LogLevel::kInfo;
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal: return LogLevel::kError;
    // The client that computes an operator is another one's business, or the caller's own.
    case absl::StatusCode::kUnavailable: return reason == reason::kProviderGone ? LogLevel::kWarning : LogLevel::kError;
    // A client can say any checksum. A loss of the disk has no reason.
    case absl::StatusCode::kDataLoss: return reason == reason::kDamagedOnTheWay ? LogLevel::kWarning : LogLevel::kError;
    default: return LogLevel::kWarning;
  }
}

LogLevel LevelOf(const absl::Status& status) {
  if (status.ok()) return LogLevel::kInfo;
  const std::optional<ErrorInfo> info = InfoOf(status);
  return LevelOf(status.code(), info.has_value() ? absl::string_view(info->reason) : "");
}

}  // namespace gluond::server
