#include "engine/core/error_info.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gluond {
namespace {

constexpr char kInfoPayload[] = "gluond/error_info";
constexpr char kEnd = '\0';  // Each text but the last ends so: the reason, then keys and values in turn.

}  // namespace

absl::Status WithInfo(absl::Status status, absl::string_view reason, std::vector<std::pair<std::string, std::string>> metadata) {
  std::string text(reason);
  for (const auto& [key, value] : metadata) {
    for (const std::string& part : {key, value}) absl::StrAppend(&text, absl::string_view(&kEnd, 1), part);
  }
  status.SetPayload(kInfoPayload, absl::Cord(text));
  return status;
}

absl::Status InField(absl::string_view field, absl::Status status) {
  if (!absl::IsInvalidArgument(status) || InfoOf(status).has_value()) return status;
  return WithInfo(std::move(status), reason::kBadField, {{"field", std::string(field)}});
}

std::optional<ErrorInfo> InfoOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kInfoPayload);
  if (!payload.has_value()) return std::nullopt;
  std::vector<std::string> parts = absl::StrSplit(std::string(*payload), kEnd);
  ErrorInfo info{std::move(parts[0]), {}};
  for (size_t i = 1; i + 1 < parts.size(); i += 2) info.metadata.emplace_back(std::move(parts[i]), std::move(parts[i + 1]));
  return info;
}

}  // namespace gluond
