// What protobuf does not say of a message: why it is broken, and what it will take when it is parsed.

#ifndef SERVER_WIRE_WIRE_CHECK_H_
#define SERVER_WIRE_WIRE_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace gluond::server {

// Why protobuf refuses a message; for error messages only, after the fact:
// "inputs.shape ends in the middle of a number, at byte 17 of 20".
std::string FindDamage(absl::string_view message, const google::protobuf::Descriptor& type);

// About what the message takes in memory once it is parsed: its objects, strings and arrays at any depth, with what
// arrays that grow leave behind in an arena. An estimate from above; walks the bytes and allocates nothing to speak of.
// A message of two bytes may take hundreds. What is broken ends the walk: protobuf will say so.
int64_t ParsedBytes(absl::string_view message, const google::protobuf::Descriptor& type);

}  // namespace gluond::server

#endif  // SERVER_WIRE_WIRE_CHECK_H_
