// FindDamage says why protobuf refuses a message: for error messages only, after the fact.

#ifndef SERVER_WIRE_CHECK_H_
#define SERVER_WIRE_CHECK_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace gluond::server {

// "inputs.shape ends in the middle of a number, at byte 17 of 20".
std::string FindDamage(absl::string_view message, const google::protobuf::Descriptor& type);

}  // namespace gluond::server

#endif  // SERVER_WIRE_CHECK_H_
