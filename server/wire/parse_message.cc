#include "server/wire/parse_message.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/fair_semaphore.h"
#include "server/wire/wire_check.h"
#include "server/wire/wire_cut.h"

namespace gluond::server {
namespace {

static_assert(kShortMessage <= kAttachmentBytes, "what has attachments is weighed");

using google::protobuf::Message;

// A message within a message takes two bytes on the wire and hundreds in memory; graphs' nodes, the densest sensible
// messages, take some twenty times their bytes.
constexpr int64_t kMayTakeAnyway = 1 << 20;

absl::Status CheckWeight(int64_t parsed, size_t bytes) {
  if (parsed <= kMayTakeAnyway || parsed / kMostParsedPerByte < static_cast<int64_t>(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the request's ", bytes, " bytes hold so many messages (nodes, attributes, tensors, ...) that they would take ",
                   parsed, " bytes in memory, more than ", kMostParsedPerByte, " times as many; send it in parts"));
}

absl::Status Refusal(const Message& message, absl::string_view why) {
  return Invalid("the request is not a ", message.GetTypeName(), ": ", why, "; is the client's proto another one?");
}

absl::Status ParseText(const std::string& text, Message* message) {
  if (message->ParseFromString(text)) return absl::OkStatus();
  return Refusal(*message, FindDamage(text, *message->GetDescriptor()));
}

// `text`: the message without its attachments. `bytes`: the size of the whole.
absl::Status WeighAndParse(const std::string& text, size_t bytes, Message* message, const ChargeParsed& charge) {
  const int64_t parsed = ParsedBytes(text, *message->GetDescriptor());
  RETURN_IF_ERROR(CheckWeight(parsed, bytes));
  if (charge != nullptr) RETURN_IF_ERROR(charge(parsed + static_cast<int64_t>(text.size())));
  return ParseText(text, message);
}

}  // namespace

absl::Status ParseMessage(const Slices& slices, Message* message, Attachments* attachments, const ChargeParsed& charge) {
  std::string text;
  const Bytes bytes(slices);
  if (bytes.size() < kShortMessage) {
    const char* const all = bytes.contiguous();
    if (all != nullptr && message->ParseFromArray(all, static_cast<int>(bytes.size()))) return absl::OkStatus();
    text.resize(bytes.size());
    bytes.CopyTo(text.data());
    return ParseText(text, message);
  }
  if (absl::Status status = Cut(slices, *message->GetDescriptor(), &text, attachments); !status.ok()) {
    return Refusal(*message, status.message());
  }
  if (text.size() <= kLongText) return WeighAndParse(text, bytes.size(), message, charge);
  absl::Status status;
  FairSemaphore::OfLongWork().Do([&] { status = WeighAndParse(text, bytes.size(), message, charge); });
  return status;
}

absl::Status TooLongForName(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the request has ", bytes, " bytes, and ", kMostShort, " are enough for a name"));
}

absl::StatusOr<Slices> InflateShort(const Slices& slices, Encoding encoding, const ChargeInflated& charge) {
  const absl::Status too_large = absl::ResourceExhaustedError(
      absl::StrCat("the request has more than ", kMostShort, " bytes once it is inflated, and these are enough for a name"));
  return Inflate(slices, encoding, kMostShort, too_large, charge);
}

absl::Status ParseShortMessage(const Slices& slices, Message* message, Encoding encoding) {
  if (const auto bytes = static_cast<int64_t>(Bytes(slices).size()); bytes > kMostShort) return TooLongForName(bytes);
  ASSIGN_OR_RETURN(const Slices inflated, InflateShort(slices, encoding, [](int64_t) { return absl::OkStatus(); }));
  Attachments none;
  return ParseMessage(inflated, message, &none);
}

}  // namespace gluond::server
