// The scope of a client's operators is the credential by which sessions and models call the client. A holder of a scope can
// have the client compute, so no graph, answer or file has the scope. A scope that is made of a key does not suffice to
// open a stream in the client's place. So a server need not remember scopes, not even over a restart.
//
// Inside, the scopes of a tenant begin with the tenant's name: "acme/key:...". "acme/" alone, and nothing at all for the
// default tenant, is the scope of operators that one client computes for all clients of the tenant.

#ifndef SERVER_CUSTOM_SCOPE_H_
#define SERVER_CUSTOM_SCOPE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/identity/reach.h"

namespace gluond::v1 {
class OpenHost;
}
namespace gluond::server {

// `key:` and the first half of the key's SHA-256, as OpenHost says.
std::string ScopeOf(absl::string_view key);

// Whether an inside scope is that of a whole tenant, and of no client.
inline bool IsOfNoClient(absl::string_view scope) { return scope.empty() || scope.back() == '/'; }

// Whether a field that says which client computes (`OpenSession.host`) holds a scope that the caller may say, or nothing.
// INVALID_ARGUMENT, without the scope: it is too short or too long, or names a tenant, with a '/' at its end, or
// anywhere where the caller does not reach everything.
absl::Status CheckHost(absl::string_view field, absl::string_view host, const Reach& reach);

// Whether the client may open the scope. INVALID_ARGUMENT: scope or key is too short to be a secret, or too long, or the
// scope has a '/' at its end.
// PERMISSION_DENIED: the scope belongs to another key.
absl::Status CheckScope(const v1::OpenHost& open);

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_SCOPE_H_
