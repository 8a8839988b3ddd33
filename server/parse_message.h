// ParseMessage turns the bytes that gRPC received into a message and its Attachments, and says what is wrong with them.

#ifndef SERVER_PARSE_MESSAGE_H_
#define SERVER_PARSE_MESSAGE_H_

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "server/attachments.h"

namespace gluond::server {

// Large `bytes` fields stay in `slices` and become attachments. INVALID_ARGUMENT: not a message of this type; says
// where. RESOURCE_EXHAUSTED: it holds more messages within it than anything sensible does.
absl::Status ParseMessage(const Slices& slices, google::protobuf::Message* message, Attachments* attachments);

}  // namespace gluond::server

#endif  // SERVER_PARSE_MESSAGE_H_
