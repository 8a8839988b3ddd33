// Messages of a group between the wire and the state machines (message.h). Carriers set the fields that the machines only pass on.

#ifndef SERVER_GROUP_JOIN_MESSAGES_H_
#define SERVER_GROUP_JOIN_MESSAGES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "gluond/v1/group.pb.h"
#include "server/group/message.h"

namespace gluond::server {

v1::JoinRequest ToProto(const FromMember::Any& message);
v1::JoinResponse ToProto(const FromLeader::Any& message);

// Nothing: the message is not for the machines.
std::optional<FromMember::Any> FromProto(const v1::JoinRequest& message);
std::optional<FromLeader::Any> FromProto(const v1::JoinResponse& message);

}  // namespace gluond::server

#endif  // SERVER_GROUP_JOIN_MESSAGES_H_
