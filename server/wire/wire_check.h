// Facts that protobuf does not tell of a message: why it is broken, and the memory that it will take when it is parsed.

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

// About the memory that the message takes once it is parsed: its objects, strings and arrays at any depth, with the
// memory that growing arrays leave behind in an arena. An estimate from above; walks the bytes and allocates little.
// A message of two bytes may take hundreds. A broken field ends the walk: protobuf will say so.
int64_t ParsedBytes(absl::string_view message, const google::protobuf::Descriptor& type);

}  // namespace gluond::server

#endif  // SERVER_WIRE_WIRE_CHECK_H_
