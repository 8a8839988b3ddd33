// The check of a name that a call gives to something new.

#ifndef SERVER_HOSTED_OWNED_NAME_H_
#define SERVER_HOSTED_OWNED_NAME_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/store/stored_name.h"
#include "server/identity/tenants.h"

namespace gluond::server {

// OK for a plain name, and for a tenant's ("acme/digits") where there is such a tenant. `tenants`: null where there are
// none. INVALID_ARGUMENT: as CheckName.
inline absl::Status CheckOwnedName(const Tenants* tenants, absl::string_view kind, absl::string_view name) {
  const bool has_owner = tenants != nullptr && tenants->OwnerOf(name) != nullptr;
  return has_owner ? CheckStoredName(kind, name) : CheckName(kind, name);
}

}  // namespace gluond::server

#endif  // SERVER_HOSTED_OWNED_NAME_H_
