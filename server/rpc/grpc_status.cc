#include "server/rpc/grpc_status.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "google/rpc/error_details.pb.h"

namespace gluond::server {
namespace {

// Clients take 8 KiB of headers by default. The message is in there twice: google.rpc.Status repeats it.
constexpr size_t kMostMessage = 3000, kMostEncoded = 7500;
// A longer message is not repeated as the description of the field that it is about.
constexpr size_t kMostViolation = 500;

// The size of a byte in gRPC's percent encoding.
size_t EncodedSize(char c) { return c >= 0x20 && c <= 0x7E && c != '%' ? 1 : 3; }

// Some messages list all of a model's parameters. One that is longer than the headers may be would never arrive.
std::string Shortened(absl::string_view text, size_t* encoded) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (*encoded + EncodedSize(text[i]) > kMostMessage) return absl::StrCat(text.substr(0, i), "...");
    *encoded += EncodedSize(text[i]);
  }
  return std::string(text);
}

// The last whole lines of `text`, of at most so many bytes.
std::string Tail(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  const size_t line = text.find('\n', text.size() - most);
  return line == std::string::npos ? "" : absl::StrCat("...", text.substr(line));
}

// Empty: there is no such fact.
absl::string_view FactOf(const ErrorInfo& info, absl::string_view key) {
  const auto found = absl::c_find_if(info.metadata, [key](const auto& fact) { return fact.first == key; });
  return found == info.metadata.end() ? absl::string_view() : found->second;
}

// The time after which another attempt makes sense; zero: none does, or nobody knows when.
std::chrono::milliseconds RetryDelay(const ErrorInfo& info) {
  using std::chrono_literals::operator""ms;
  if (info.reason == reason::kLoading || info.reason == reason::kDraining) return 1000ms;
  if (info.reason == reason::kTooManyCalls) return 100ms;
  if (int64_t wait = 0; absl::SimpleAtoi(FactOf(info, "wait_ms"), &wait)) return std::chrono::milliseconds(wait);
  const absl::string_view flag = FactOf(info, "flag");
  const bool is_queue = flag == "--max_requests" || flag == "--max_request_bytes" || flag == "--tenants:requests";
  return info.reason == reason::kLimit && is_queue ? 100ms : 0ms;
}

void AddRetryInfo(std::chrono::milliseconds delay, google::rpc::Status* proto) {
  google::rpc::RetryInfo detail;
  detail.mutable_retry_delay()->set_seconds(delay.count() / 1000);
  detail.mutable_retry_delay()->set_nanos(static_cast<int32_t>(delay.count() % 1000) * 1'000'000);
  proto->add_details()->PackFrom(detail);
}

void AddFieldViolation(absl::string_view field, absl::string_view message, google::rpc::Status* proto) {
  google::rpc::BadRequest detail;
  google::rpc::BadRequest::FieldViolation* violation = detail.add_field_violations();
  violation->set_field(std::string(field));
  violation->set_description(message.size() > kMostViolation ? "" : std::string(message));
  proto->add_details()->PackFrom(detail);
}

// Empty: the status has none.
google::rpc::ErrorInfo DetailOf(const google::rpc::Status& proto) {
  google::rpc::ErrorInfo info;
  if (!proto.details().empty()) (void)proto.details(0).UnpackTo(&info);
  return info;
}

}  // namespace

google::rpc::Status ToProto(const absl::Status& status) {
  google::rpc::Status proto;
  proto.set_code(static_cast<int32_t>(status.code()));
  proto.set_message(std::string(status.message()));
  if (const std::optional<ErrorInfo> info = InfoOf(status)) {
    google::rpc::ErrorInfo detail;
    detail.set_reason(info->reason);
    detail.set_domain("gluond");
    for (const auto& [key, value] : info->metadata) (*detail.mutable_metadata())[key] = value;
    proto.add_details()->PackFrom(detail);
    if (const auto delay = RetryDelay(*info); delay.count() > 0) AddRetryInfo(delay, &proto);
    if (const absl::string_view field = FactOf(*info, "field"); !field.empty()) AddFieldViolation(field, status.message(), &proto);
  }
  if (const auto traceback = status.GetPayload(kTraceback); traceback.has_value()) {
    google::rpc::DebugInfo detail;
    detail.set_detail(std::string(*traceback));
    proto.add_details()->PackFrom(detail);
  }
  return proto;
}

std::string ReasonOf(const google::rpc::Status& proto) { return DetailOf(proto).reason(); }

std::string LimitOf(const google::rpc::Status& proto) {
  const google::rpc::ErrorInfo info = DetailOf(proto);
  if (proto.code() != static_cast<int32_t>(absl::StatusCode::kResourceExhausted) || info.reason() != reason::kLimit) return "";
  const auto flag = info.metadata().find("flag");
  return flag == info.metadata().end() ? "" : flag->second;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  size_t encoded = 0;
  const std::string message = Shortened(status.message(), &encoded);
  google::rpc::Status proto = ToProto(WithMessage(status, message));
  if (proto.details().empty()) return grpc::Status(code, message);
  const auto left = [&] {  // A binary header is in Base64.
    return static_cast<int64_t>(kMostEncoded - encoded) * 3 / 4 - static_cast<int64_t>(proto.ByteSizeLong());
  };
  if (google::rpc::DebugInfo debug; left() < 0 && proto.mutable_details()->rbegin()->UnpackTo(&debug)) {
    const int64_t most = static_cast<int64_t>(debug.detail().size()) + left() - 16;
    debug.set_detail(Tail(debug.detail(), static_cast<size_t>(std::max<int64_t>(0, most))));
    proto.mutable_details()->rbegin()->PackFrom(debug);
  }
  return left() < 0 ? grpc::Status(code, message) : grpc::Status(code, message, proto.SerializeAsString());
}

}  // namespace gluond::server
