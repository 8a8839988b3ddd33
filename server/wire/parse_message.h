// ParseMessage turns the bytes that gRPC received into a message and its Attachments, or finds the damage in them.

#ifndef SERVER_WIRE_PARSE_MESSAGE_H_
#define SERVER_WIRE_PARSE_MESSAGE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "server/wire/attachments.h"
#include "server/wire/inflate.h"

namespace gluond::server {

// Messages shorter than this are parsed without more ado: they take a few hundred KiB at the very most.
inline constexpr size_t kShortMessage = 4096;

// Messages with more than this beside their attachments are parsed two at a time: their threads wait for their turn.
inline constexpr size_t kLongText = 256 << 10;

// Asked before a message that is not short is parsed: `bytes` is about the memory that it will take then, beside the
// received bytes. An error is the result of ParseMessage.
using ChargeParsed = std::function<absl::Status(int64_t bytes)>;

// Large `bytes` fields stay in `slices` and become attachments. INVALID_ARGUMENT: `slices` are no message of this type;
// says where. RESOURCE_EXHAUSTED: parsed it would take kMostParsedPerByte times its bytes, and more than a MiB; or
// `charge` says so.
inline constexpr int64_t kMostParsedPerByte = 64;
absl::Status ParseMessage(const Slices& slices, google::protobuf::Message* message, Attachments* attachments,
                          const ChargeParsed& charge = nullptr);

// A message that is a name or two has no more bytes than these, however it came.
inline constexpr int64_t kMostShort = 16 << 10;
// RESOURCE_EXHAUSTED: a message has so many bytes, and is to be a name or two.
absl::Status TooLongForName(int64_t bytes);
// Inflates such a message. RESOURCE_EXHAUSTED: it has more than kMostShort, of which no more is ever made; or `charge` says so.
absl::StatusOr<Slices> InflateShort(const Slices& slices, Encoding encoding, const ChargeInflated& charge);
// As ParseMessage for such a message, which has no attachments, and may have come compressed.
absl::Status ParseShortMessage(const Slices& slices, google::protobuf::Message* message, Encoding encoding = Encoding::kNone);

}  // namespace gluond::server

#endif  // SERVER_WIRE_PARSE_MESSAGE_H_
