// Attributes from the wire, where they are JSON values, as the text that the engine parses.

#ifndef SERVER_CODEC_ATTRS_CODEC_H_
#define SERVER_CODEC_ATTRS_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/core/node_attrs.h"
#include "google/protobuf/map.h"
#include "google/protobuf/struct.pb.h"

namespace gluond::server {

using ProtoAttributes = google::protobuf::Map<std::string, google::protobuf::Value>;

// 3 is "3", true "True", null "None", [3, 3] "(3, 3)"; {"name": "Xavier", "attributes": {"magnitude": 2}} is
// "Xavier(magnitude=2)". INVALID_ARGUMENT: another object, deep nesting; names the attribute.
absl::StatusOr<AttrDict> AttrsFromProto(const ProtoAttributes& attributes);

// The same values back: numbers and booleans as such, everything else as text.
void AttrsToProto(const AttrDict& attrs, ProtoAttributes* attributes);

}  // namespace gluond::server

#endif  // SERVER_CODEC_ATTRS_CODEC_H_
