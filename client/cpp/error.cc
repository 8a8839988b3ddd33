#include "gluond/error.h"

#include <optional>

#include "google/rpc/error_details.pb.h"

namespace gluond::client {
namespace {

constexpr char kErrorInfo[] = "type.googleapis.com/google.rpc.ErrorInfo";

std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorInfo);
  google::rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return info;
}

}  // namespace

absl::Status WithReason(absl::Status status, const std::string& reason, const std::map<std::string, std::string>& facts) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("gluond");
  for (const auto& [key, value] : facts) (*info.mutable_metadata())[key] = value;
  status.SetPayload(kErrorInfo, absl::Cord(info.SerializeAsString()));
  return status;
}

bool MayBeBack(const absl::Status& status) {
  if (RetryDelayOf(status) > absl::ZeroDuration()) return true;
  const std::string reason = ReasonOf(status);
  return absl::IsUnavailable(status) && (reason.empty() || reason == "DRAINING" || reason == "LOADING");
}

std::string TracebackOf(const absl::Status& status) {
  google::rpc::DebugInfo debug;
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.DebugInfo");
  return payload.has_value() && debug.ParseFromString(std::string(*payload)) ? debug.detail() : "";
}

absl::Duration RetryDelayOf(const absl::Status& status) {
  google::rpc::RetryInfo retry;
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.RetryInfo");
  if (!payload.has_value() || !retry.ParseFromString(std::string(*payload))) return absl::ZeroDuration();
  return absl::Seconds(retry.retry_delay().seconds()) + absl::Nanoseconds(retry.retry_delay().nanos());
}

std::string ReasonOf(const absl::Status& status) {
  const std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  return info.has_value() ? info->reason() : "";
}

std::map<std::string, std::string> FactsOf(const absl::Status& status) {
  const std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  if (!info.has_value()) return {};
  return {info->metadata().begin(), info->metadata().end()};
}

}  // namespace gluond::client
