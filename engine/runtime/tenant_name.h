// Names that tenants share a server by: "acme/digits" is `digits` of the tenant `acme`, and a name without '/' is the
// default tenant's.

#ifndef ENGINE_RUNTIME_TENANT_NAME_H_
#define ENGINE_RUNTIME_TENANT_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace gluond {

// "acme/" of "acme/digits"; empty for a name of the default tenant.
inline absl::string_view TenantPrefix(absl::string_view name) {
  const size_t slash = name.find('/');
  return slash == absl::string_view::npos ? absl::string_view() : name.substr(0, slash + 1);
}

// "acme" likewise.
inline absl::string_view TenantOf(absl::string_view name) {
  const absl::string_view prefix = TenantPrefix(name);
  return prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1);
}

// The most that one tenant gets of something of which the server has `all`, where no quota tells.
inline int64_t PartOfOneTenant(int64_t all) { return all / 2 + all % 2; }

}  // namespace gluond

#endif  // ENGINE_RUNTIME_TENANT_NAME_H_
