// The one place where names change between a tenant's caller and the server's inside (identity/reach.h): Qualify when a
// message has come, Unqualify before one goes, or an error. Methods know inside names alone. One table says which fields of
// the .protos have names, and which have errors' texts that quote some; a test holds that every string field of a
// request or a reply is in it, or is known to be something else. Callers who reach everything need neither function.

#ifndef SERVER_RPC_TENANT_NAMES_H_
#define SERVER_RPC_TENANT_NAMES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/message.h"
#include "server/identity/reach.h"

namespace gluond::server {

struct NamedField {
  enum Kind { kName, kText };
  const char* field;  // "gluond.v1.Model.name"
  Kind kind;
};
absl::Span<const NamedField> NamedFields();

// Puts inside names in the place of those that the caller said. Empty ones stay empty.
void Qualify(const Reach& reach, google::protobuf::Message* request);
// The reverse; of an error in a message, too.
void Unqualify(const Reach& reach, google::protobuf::Message* reply);
// The same for an error's text and facts.
absl::Status Unqualify(const Reach& reach, const absl::Status& status);

}  // namespace gluond::server

#endif  // SERVER_RPC_TENANT_NAMES_H_
