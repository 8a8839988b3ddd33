#include "server/identity/jwt_roles.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

// One role of a caller; empty: the word is no role.
Roles CallersRole(absl::string_view word) {
  const absl::StatusOr<Roles> role = Roles::Parse(word);
  return role.ok() && !role->is_proxy() && !absl::StrContains(word, ',') ? *role : Roles();
}

}  // namespace

absl::StatusOr<JwtRoles> JwtRoles::Create(JwtRolesOptions options) {
  JwtRoles roles(std::move(options));
  for (const std::string& entry : roles.options_.map) {
    const size_t equals = entry.rfind('=');
    const Roles role = equals == std::string::npos ? Roles() : CallersRole(entry.substr(equals + 1));
    if (equals == 0 || role.empty()) {
      return Invalid("--jwt_roles_map: '", entry, "' is no WORD=ROLE, with one of infer, train, publish, admin, follow and member");
    }
    roles.map_[entry.substr(0, equals)].Add(role);
  }
  if (!roles.is_bare() || !absl::StrContains(roles.options_.claim, '.')) return roles;
  return Invalid(
      "--jwt_roles_claim=", roles.options_.claim,
      " is a claim within others, which has roles of the issuer's own, an `admin` of it perhaps; say which are for this server by "
      "--jwt_roles_prefix=gluond. or --jwt_roles_map=WORD=ROLE");
}

Roles JwtRoles::Of(const Json* claim) const {
  Roles roles;
  std::string text;
  if (claim == nullptr) return roles;
  if (claim->Get(&text).ok()) roles.Add(OfText(text));
  for (const Json& element : claim->elements()) {
    if (element.Get(&text).ok()) roles.Add(is_bare() ? OfText(text) : OfWord(text));
  }
  return roles;
}

Roles JwtRoles::OfText(absl::string_view text) const {
  Roles roles;
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" ,"), absl::SkipEmpty())) roles.Add(OfWord(word));
  return roles;
}

Roles JwtRoles::OfWord(absl::string_view word) const {
  Roles roles;
  if (const auto found = map_.find(word); found != map_.end()) roles.Add(found->second);
  if (is_bare() || (!options_.prefix.empty() && absl::ConsumePrefix(&word, options_.prefix))) roles.Add(CallersRole(word));
  return roles;
}

std::string JwtRoles::Wanted() const {
  if (is_bare()) return "infer, train, publish, admin, follow and member";
  const absl::string_view mapped = map_.empty() ? "" : "the words of --jwt_roles_map";
  if (options_.prefix.empty()) return std::string(mapped);
  return absl::StrCat("infer, train, publish, admin, follow and member with ", options_.prefix, " before it",
                      mapped.empty() ? "" : ", or of ", mapped);
}

}  // namespace gluond::server
