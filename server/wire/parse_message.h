// ParseMessage turns the bytes that gRPC received into a message and its Attachments, or finds the damage in them.

#ifndef SERVER_WIRE_PARSE_MESSAGE_H_
#define SERVER_WIRE_PARSE_MESSAGE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
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

// The same for a message that is a name or two, and has no attachments; it may have come compressed. RESOURCE_EXHAUSTED: it
// has more than 16 KiB.
absl::Status ParseShortMessage(const Slices& slices, google::protobuf::Message* message,
                               Encoding encoding = Encoding::kNone);

}  // namespace gluond::server

#endif  // SERVER_WIRE_PARSE_MESSAGE_H_
