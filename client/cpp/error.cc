#include "client/cpp/error.h"

namespace gluond::client {

std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const absl::Status& status) {
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.ErrorInfo");
  google::rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return info;
}

std::string ReasonOf(const absl::Status& status) {
  const std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  return info.has_value() ? info->reason() : "";
}

}  // namespace gluond::client
