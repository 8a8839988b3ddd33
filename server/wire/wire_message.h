// A message between the bytes that gRPC carries and protobuf. Large byte fields, which are tensors, go around protobuf, which
// would copy them: Cut takes them out of the bytes before these are parsed, and Weave puts them back. Both walk the wire
// format by the message's descriptor; placeholders stay in the message.
//
//   received slices --Cut--> small message + Attachments --> handler                                  (ParseMessage)
//                            handler --> small message + Attachments --Weave--> slices to send    (SerializeMessage)
//
// Weave(Cut(x)) is x again, as far as the wire format goes (tests/server/wire_cut_test.cc).

#ifndef SERVER_WIRE_WIRE_MESSAGE_H_
#define SERVER_WIRE_WIRE_MESSAGE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/wire/attachments.h"
#include "server/wire/inflate.h"

namespace gluond::server {

// Messages shorter than this are parsed without more ado: they take a few hundred KiB at the very most.
inline constexpr size_t kShortMessage = 4096;

// Messages with more than this beside their attachments are parsed two at a time: their threads wait for their turn.
inline constexpr size_t kLongText = 256 << 10;

// Fields of at least so many bytes travel as attachments.
inline constexpr size_t kAttachmentBytes = 4096;

// Asked before a message that is not short is parsed: `bytes` is about the memory that it will take then, beside the
// received bytes. An error is the result of ParseMessage.
using ChargeParsed = std::function<absl::Status(int64_t bytes)>;

// Turns received bytes into a message, or finds the damage in them. Large `bytes` fields stay in `slices` and become
// attachments. INVALID_ARGUMENT: `slices` are no message of this type; says where. RESOURCE_EXHAUSTED: parsed it would take
// kMostParsedPerByte times its bytes, and more than a MiB; or `charge` says so.
inline constexpr int64_t kMostParsedPerByte = 64;
absl::Status ParseMessage(const Slices& slices, google::protobuf::Message* message, Attachments* attachments,
                          const ChargeParsed& charge = nullptr);

// The bytes of a message of ours with its attachments, which are not copied.
Slices SerializeMessage(const google::protobuf::Message& message, const Attachments& attachments);

// A message that is a name or two has no more bytes than these, however it came.
inline constexpr int64_t kMostShort = 16 << 10;
// RESOURCE_EXHAUSTED: a message has so many bytes, and is to be a name or two.
absl::Status TooLongForName(int64_t bytes);
// Inflates such a message. RESOURCE_EXHAUSTED: it has more than kMostShort, of which no more is ever made; or `charge` says so.
absl::StatusOr<Slices> InflateShort(const Slices& slices, Encoding encoding, const ChargeInflated& charge);
// As ParseMessage for such a message, which has no attachments, and may have come compressed.
absl::Status ParseShortMessage(const Slices& slices, google::protobuf::Message* message, Encoding encoding = Encoding::kNone);

// The two halves that know no protobuf message, but its type.

// Writes the message `slices` of `type` to `rest`, with its `bytes` fields of kAttachmentBytes or more replaced by
// placeholders. INVALID_ARGUMENT: the wire format is broken; says at which byte.
absl::Status Cut(const Slices& slices, const google::protobuf::Descriptor& type, std::string* rest, Attachments* attachments);

// The slices of the serialized message `rest` with its placeholders replaced by the fields that they stand for.
// Requires: `rest` is a message of `type` that was serialized by us.
Slices Weave(std::string rest, const google::protobuf::Descriptor& type, const Attachments& attachments);

}  // namespace gluond::server

#endif  // SERVER_WIRE_WIRE_MESSAGE_H_
