// What protobuf does not say of a message: why it is broken, and how much it holds.

#ifndef SERVER_WIRE_CHECK_H_
#define SERVER_WIRE_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace gluond::server {

// Why protobuf refuses a message; for error messages only, after the fact:
// "inputs.shape ends in the middle of a number, at byte 17 of 20".
std::string FindDamage(absl::string_view message, const google::protobuf::Descriptor& type);

// Whether the message holds more than `most` messages and repeated strings within it, at any depth.
bool HoldsMoreMessages(absl::string_view message, const google::protobuf::Descriptor& type, int64_t most);

}  // namespace gluond::server

#endif  // SERVER_WIRE_CHECK_H_
