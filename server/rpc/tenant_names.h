// The one table of the names of things on the wire: which fields of the .protos have names, which have errors' texts that quote
// some, and of a request's names what the call does to the things. A test holds that every string field of a request or a
// reply is in it, or is known to be something else.
//
// So this is the one place where names change between a tenant's caller and the server's inside (identity/reach.h): Qualify when
// a message has come, Unqualify before one goes, or an error. Methods know inside names alone. Callers who reach everything need
// neither function. And it is the one place that knows what is to be asked of owners (identity/owners.h) before a method runs.

#ifndef SERVER_RPC_TENANT_NAMES_H_
#define SERVER_RPC_TENANT_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/message.h"
#include "server/identity/owners.h"
#include "server/identity/reach.h"

namespace gluond::server {

struct NamedField {
  enum Kind { kName, kText };
  const char* field;  // "gluond.v1.Model.name"
  Kind kind;
  // A request's field has the thing of that name, and the deed that the call does to it.
  Thing thing = Thing::kNone;
  Deed deed = Deed::kAsk;
  const char* if_empty = "";  // The fields whose names it has then, the first that has one.
};
absl::Span<const NamedField> NamedFields();

// Adds what a request's call does to which things, by the table.
void AddTouched(const google::protobuf::Message& request, std::vector<Touched>* touched);

// Puts inside names in the place of those that the caller said. Empty ones stay empty.
void Qualify(const Reach& reach, google::protobuf::Message* request);
// The reverse; of an error in a message, too.
void Unqualify(const Reach& reach, google::protobuf::Message* reply);
// The same for an error's text and facts.
absl::Status Unqualify(const Reach& reach, const absl::Status& status);

}  // namespace gluond::server

#endif  // SERVER_RPC_TENANT_NAMES_H_
