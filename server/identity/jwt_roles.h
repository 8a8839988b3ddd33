// JwtRoles says which roles the words of a token's claim give. An issuer has roles for other services, too, some of the
// same names. So an `admin` of the issuer is not one of this server, unless the flags say that the claim is for this server
// alone.
//
//   neither a prefix nor a map     `train` gives train
//   --jwt_roles_prefix=gluond.     `gluond.train` gives train, and `train` nothing
//   --jwt_roles_map=ML Team=train  `ML Team` gives train, and `train` nothing
//
// A claim is a list of words, or a text of several, with blanks or commas between. Without prefix and map a list's words may
// be such texts, too.

#ifndef SERVER_IDENTITY_JWT_ROLES_H_
#define SERVER_IDENTITY_JWT_ROLES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/json.h"
#include "server/identity/access.h"

namespace gluond::server {

struct JwtRolesOptions {
  std::string claim = "roles";
  std::string prefix = {};
  std::vector<std::string> map = {};  // "WORD=ROLE"
};

class JwtRoles {
 public:
  // INVALID_ARGUMENT: the map has an entry that is none, or the claim is within others, where roles are the issuer's own,
  // and there is neither prefix nor map.
  static absl::StatusOr<JwtRoles> Create(JwtRolesOptions options);

  // Empty: the claim, which may be null, gives none. Nobody is a proxy by a token.
  Roles Of(const Json* claim) const;
  // The words that give roles, for errors.
  std::string Wanted() const;

 private:
  explicit JwtRoles(JwtRolesOptions options) : options_(std::move(options)) {}
  bool is_bare() const { return options_.prefix.empty() && map_.empty(); }
  Roles OfWord(absl::string_view word) const;
  Roles OfText(absl::string_view text) const;

  JwtRolesOptions options_;
  absl::flat_hash_map<std::string, Roles> map_;
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_JWT_ROLES_H_
