// Attributes between the wire, where they are JSON values, and the engine, which parses text. proto/gluond/v1/graph.proto says what
// is kept. Every message with attributes goes through here.

#ifndef SERVER_CODEC_ATTRS_CODEC_H_
#define SERVER_CODEC_ATTRS_CODEC_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/node_attrs.h"
#include "engine/core/param.h"
#include "engine/core/status_macros.h"
#include "gluond/v1/graph.pb.h"
#include "google/protobuf/map.h"
#include "google/protobuf/struct.pb.h"

namespace gluond::server {

using ProtoAttributes = google::protobuf::Map<std::string, google::protobuf::Value>;

// 3 is "3", true "True", null "None", [3, 3] "(3, 3)"; {"name": "Xavier", "attributes": {"magnitude": 2}} is
// "Xavier(magnitude=2)". Hidden attributes, in double underscores, are dropped. INVALID_ARGUMENT: another object, deep
// nesting; names the attribute.
absl::StatusOr<AttrDict> AttrsFromProto(const ProtoAttributes& attributes);

// Adds an operator that a client computes to a node's attributes. INVALID_ARGUMENT: what CustomOperatorSpec forbids, a name
// that the attributes have, too.
absl::Status CustomFromProto(const v1::CustomOperatorSpec& proto, AttrDict* attrs);

// The attributes of an operator's call: of a message that has `attributes` and `custom`.
template <class Message>
absl::StatusOr<AttrDict> CallAttrsFromProto(const Message& call) {
  ASSIGN_OR_RETURN(AttrDict attrs, AttrsFromProto(call.attributes()));
  if (call.has_custom()) RETURN_IF_ERROR(CustomFromProto(call.custom(), &attrs));
  return attrs;
}

// The same values back, by the types that `declared` says: numbers and booleans as such, everything else as text. A
// whole number that a double may not hold is text, too.
void AttrsToProto(const AttrDict& attrs, absl::Span<const ArgumentDoc> declared, ProtoAttributes* attributes);

// Moves an operator that a client computes, if there is one, from a node's attributes to `node.custom`.
void CustomToProto(AttrDict* attrs, v1::Node* node);

}  // namespace gluond::server

#endif  // SERVER_CODEC_ATTRS_CODEC_H_
