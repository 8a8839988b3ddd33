// Messages of a group between the wire and the state machines (message.h). Carriers set the fields that the machines only pass on.

#ifndef SERVER_GROUP_JOIN_MESSAGES_H_
#define SERVER_GROUP_JOIN_MESSAGES_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "gluond/v1/group.pb.h"
#include "server/group/message.h"

namespace gluond::server {

// `facts` makes the message, where the status has any.
void SetFacts(const absl::Status& status, const std::function<v1::ErrorFacts*()>& facts);
// A code that is none is UNKNOWN.
absl::Status ErrorOf(int code, const std::string& message, const v1::ErrorFacts& facts);

v1::JoinRequest ToProto(const FromMember::Any& message);
v1::JoinResponse ToProto(const FromLeader::Any& message);

// An error in the messages that have one: its code, its text and its facts.
template <class Proto>
void SetError(const absl::Status& status, Proto* proto) {
  proto->set_code(static_cast<int>(status.code()));
  proto->set_message(std::string(status.message()));
  SetFacts(status, [proto] { return proto->mutable_facts(); });
}
template <class Proto>
absl::Status ErrorOf(const Proto& proto) {
  return ErrorOf(proto.code(), proto.message(), proto.facts());
}

// Nothing: the message is not for the machines.
std::optional<FromMember::Any> FromProto(const v1::JoinRequest& message);
std::optional<FromLeader::Any> FromProto(const v1::JoinResponse& message);

}  // namespace gluond::server

#endif  // SERVER_GROUP_JOIN_MESSAGES_H_
