// The names of things on the wire. The .protos say which fields have names, and which have errors' texts that quote names
// (method.h). A request's field says what the call does to the thing of that name. A test holds that every string field of a
// request or a reply says so, or is known to be something else.
//
// So this is the one place where names change between a tenant's caller and the server's inside (identity/reach.h). Qualify
// does so when a message has come, Unqualify before a message or an error goes. Methods know inside names alone. Callers who
// reach everything need neither function. And it is the one place that knows what is to be asked of owners (identity/owners.h)
// before a method runs.

#ifndef SERVER_RPC_TENANT_NAMES_H_
#define SERVER_RPC_TENANT_NAMES_H_

#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "server/identity/owners.h"
#include "server/identity/reach.h"

namespace gluond::server {

// Adds what a request's call does to which things, by the rules of its fields.
void AddTouched(const google::protobuf::Message& request, std::vector<Touched>* touched);

// Puts inside names in the place of those that the caller said. Empty ones stay empty.
void Qualify(const Reach& reach, google::protobuf::Message* request);
// The reverse; of an error in a message, too.
void Unqualify(const Reach& reach, google::protobuf::Message* reply);
// The same for an error's text and facts.
absl::Status Unqualify(const Reach& reach, const absl::Status& status);

}  // namespace gluond::server

#endif  // SERVER_RPC_TENANT_NAMES_H_
