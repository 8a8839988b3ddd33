// Cut and Weave move large byte fields between a serialized message and its Attachments, so that protobuf never copies a
// tensor. Both walk the wire format by the message's descriptor; placeholders stay in the message.
//
//   received slices --Cut--> small message + Attachments --> handler
//   handler --> small message + Attachments --Weave--> slices to send
//
// Weave(Cut(x)) is x again, as far as the wire format goes (tests/server/wire_cut_test.cc).

#ifndef SERVER_WIRE_WIRE_CUT_H_
#define SERVER_WIRE_WIRE_CUT_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// Fields of at least so many bytes travel as attachments.
inline constexpr size_t kAttachmentBytes = 4096;

// Writes the message `slices` of `type` to `rest`, with its `bytes` fields of kAttachmentBytes or more replaced by
// placeholders. INVALID_ARGUMENT: the wire format is broken; says at which byte.
absl::Status Cut(const Slices& slices, const google::protobuf::Descriptor& type, std::string* rest, Attachments* attachments);

// The slices of the serialized message `rest` with its placeholders replaced by the fields that they stand for.
// Requires: `rest` is a message of `type` that was serialized by us.
Slices Weave(std::string rest, const google::protobuf::Descriptor& type, const Attachments& attachments);

}  // namespace gluond::server

#endif  // SERVER_WIRE_WIRE_CUT_H_
