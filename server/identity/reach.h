// Reach: the names that a caller may say, and sees. Inside, the name of a tenant's thing begins with the tenant's name,
// "acme/digits" (engine/runtime/tenant_name.h); a caller of the tenant says and sees `digits`. A caller of no tenant
// reaches the things of no tenant. The server's own admin reaches all things, under their inside names, and so does
// everybody on a server without tenants.

#ifndef SERVER_IDENTITY_REACH_H_
#define SERVER_IDENTITY_REACH_H_

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/tenant_name.h"
#include "server/identity/tenants.h"

namespace gluond::server {

class Reach {
 public:
  // Reaches everything.
  Reach() = default;
  static Reach Of(const TenantPtr& tenant) { return Reach(tenant->name() + "/", tenant); }
  static Reach OfNoTenant() { return Reach("/", nullptr); }  // No name inside begins so.

  bool is_everything() const { return prefix_.empty(); }
  // Null: the caller is of no tenant.
  const TenantPtr& tenant() const { return tenant_; }
  // The beginning of the names of the caller's own things: "acme/", or nothing.
  absl::string_view owner() const { return tenant_ == nullptr ? absl::string_view() : prefix_; }
  // Whether all that the other one reaches is within this one.
  bool Covers(const Reach& other) const { return is_everything() || prefix_ == other.prefix_; }
  bool Has(absl::string_view name) const { return is_everything() || TenantPrefix(name) == owner(); }

  // A name that the caller says, as it is inside. The result is a name that he may say, or that nothing has.
  std::string Inside(absl::string_view said) const {
    const bool is_plain = tenant_ == nullptr && (is_everything() || TenantPrefix(said).empty());
    return is_plain ? std::string(said) : absl::StrCat(prefix_, said);
  }
  // The reverse, for a name within the caller's reach.
  absl::string_view Outside(absl::string_view name) const {
    return !is_everything() && TenantPrefix(name) == prefix_ ? name.substr(prefix_.size()) : name;
  }
  // The prefix of the names that Inside changes; nothing: of none.
  absl::string_view prefix() const { return prefix_; }

 private:
  Reach(std::string prefix, TenantPtr tenant) : prefix_(std::move(prefix)), tenant_(std::move(tenant)) {}

  std::string prefix_;
  TenantPtr tenant_;
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_REACH_H_
