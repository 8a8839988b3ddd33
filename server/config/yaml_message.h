// A message of protobuf from a map of YAML: its keys are the message's fields, by their names.

#ifndef SERVER_CONFIG_YAML_MESSAGE_H_
#define SERVER_CONFIG_YAML_MESSAGE_H_

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "server/config/yaml.h"

namespace gluond::server {

// Sets the fields that the map names, lists whole; others stay. INVALID_ARGUMENT tells the place, and what was expected:
// no such field, or a value of another type.
absl::Status FillMessage(const Yaml& map, google::protobuf::Message* message);

}  // namespace gluond::server

#endif  // SERVER_CONFIG_YAML_MESSAGE_H_
