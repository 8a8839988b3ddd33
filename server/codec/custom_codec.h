// An operator that a client computes, between the wire and the engine's attributes.

#ifndef SERVER_CODEC_CUSTOM_CODEC_H_
#define SERVER_CODEC_CUSTOM_CODEC_H_

#include "absl/status/status.h"
#include "engine/core/node_attrs.h"
#include "gluond/v1/graph.pb.h"

namespace gluond::server {

// Adds the operator to a node's attributes. INVALID_ARGUMENT: what CustomOperatorSpec forbids, a name that the attributes
// have, too.
absl::Status CustomFromProto(const v1::CustomOperatorSpec& proto, AttrDict* attrs);

// Moves the operator, if there is one, from a node's attributes to `node.custom`.
void CustomToProto(AttrDict* attrs, v1::Node* node);

}  // namespace gluond::server

#endif  // SERVER_CODEC_CUSTOM_CODEC_H_
