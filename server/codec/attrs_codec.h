// Attributes between the wire, where they are JSON values, and the engine, which parses text. proto/gluond/v1/graph.proto says what
// is kept. Every message with attributes goes through here.

#ifndef SERVER_CODEC_ATTRS_CODEC_H_
#define SERVER_CODEC_ATTRS_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/node_attrs.h"
#include "engine/core/param.h"
#include "engine/core/status_macros.h"
#include "google/protobuf/map.h"
#include "google/protobuf/struct.pb.h"
#include "server/codec/custom_codec.h"

namespace gluond::server {

using ProtoAttributes = google::protobuf::Map<std::string, google::protobuf::Value>;

// 3 is "3", true "True", null "None", [3, 3] "(3, 3)"; {"name": "Xavier", "attributes": {"magnitude": 2}} is
// "Xavier(magnitude=2)". Hidden attributes, in double underscores, are dropped. INVALID_ARGUMENT: another object, deep
// nesting; names the attribute.
absl::StatusOr<AttrDict> AttrsFromProto(const ProtoAttributes& attributes);

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

}  // namespace gluond::server

#endif  // SERVER_CODEC_ATTRS_CODEC_H_
