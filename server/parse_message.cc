#include "server/parse_message.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "server/wire_check.h"
#include "server/wire_cut.h"

namespace gluond::server {
namespace {

static_assert(kShortMessage <= kAttachmentBytes, "what has attachments is weighed");

// A message within a message takes two bytes on the wire and hundreds in memory; graphs' nodes, the densest of what is
// sensible, take some twenty times their bytes.
constexpr int64_t kMayTakeAnyway = 1 << 20;

absl::Status CheckWeight(int64_t parsed, size_t bytes) {
  if (parsed <= kMayTakeAnyway || parsed / kMostParsedPerByte < static_cast<int64_t>(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the request's ", bytes, " bytes hold so many messages (nodes, "
                                                   "attributes, tensors, ...) that they would take ", parsed,
                                                   " bytes in memory, more than ", kMostParsedPerByte,
                                                   " times as many; send it in parts"));
}

}  // namespace

absl::Status ParseMessage(const Slices& slices, google::protobuf::Message* message, Attachments* attachments,
                          const ChargeParsed& charge) {
  std::string text;
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("the request is not a ", message->GetTypeName(), ": ", why,
                                                   "; is the client's proto another one?"));
  };
  const Bytes bytes(slices);
  if (bytes.size() < kShortMessage) {
    if (const char* all = bytes.contiguous(); all != nullptr) {
      if (message->ParseFromArray(all, static_cast<int>(bytes.size()))) return absl::OkStatus();
    }
    text.resize(bytes.size());
    bytes.CopyTo(text.data());
  } else if (absl::Status status = Cut(slices, *message->GetDescriptor(), &text, attachments); !status.ok()) {
    return refuse(status.message());
  }
  if (bytes.size() >= kShortMessage) {
    const int64_t parsed = ParsedBytes(text, *message->GetDescriptor());
    RETURN_IF_ERROR(CheckWeight(parsed, bytes.size()));
    if (charge != nullptr) RETURN_IF_ERROR(charge(parsed + static_cast<int64_t>(text.size())));
  }
  if (message->ParseFromString(text)) return absl::OkStatus();
  return refuse(FindDamage(text, *message->GetDescriptor()));
}

absl::Status ParseShortMessage(const Slices& slices, google::protobuf::Message* message) {
  constexpr size_t kMost = 16 << 10;
  if (const size_t bytes = Bytes(slices).size(); bytes > kMost) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the request has ", bytes, " bytes, and ", kMost, " are enough for a name"));
  }
  Attachments none;
  return ParseMessage(slices, message, &none);
}

}  // namespace gluond::server
