#include "server/rpc/grpc_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

// Clients take 8 KiB of headers by default.
constexpr size_t kMostEncoded = 6000;

// The size of a byte in gRPC's percent encoding.
size_t EncodedSize(char c) { return c >= 0x20 && c <= 0x7E && c != '%' ? 1 : 3; }

size_t EncodedSize(absl::string_view text) {
  size_t size = 0;
  for (const char c : text) size += EncodedSize(c);
  return size;
}

// The last whole lines of `text` that fit.
std::string Tail(const std::string& text, size_t most_encoded) {
  size_t begin = text.size(), encoded = 0;
  for (size_t i = text.size(); i-- > 0;) {
    encoded += EncodedSize(text[i]);
    if (encoded > most_encoded) return begin == text.size() ? "" : absl::StrCat("...\n", text.substr(begin));
    if (i == 0 || text[i - 1] == '\n') begin = i;
  }
  return text;
}

// Some messages list all of a model's parameters. One that is longer than the headers may be would never arrive.
std::string Shortened(std::string text) {
  size_t encoded = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    encoded += EncodedSize(text[i]);
    if (encoded > kMostEncoded) return text.substr(0, i) + "...";
  }
  return text;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto reason = status.GetPayload(kReason);
  std::string text = Shortened(reason.has_value() ? absl::StrCat(std::string(*reason), ": ", status.message())
                                                  : std::string(status.message()));
  const size_t encoded = EncodedSize(text) + 16;
  if (const auto traceback = status.GetPayload(kTraceback); traceback.has_value() && encoded < kMostEncoded) {
    const std::string tail = Tail(std::string(*traceback), kMostEncoded - encoded);
    if (!tail.empty()) absl::StrAppend(&text, "\n", tail);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), text);
}

}  // namespace gluond::server
