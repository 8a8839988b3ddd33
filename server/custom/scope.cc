#include "server/custom/scope.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "gluond/v1/custom_operator.pb.h"
#include "server/identity/secret.h"

namespace gluond::server {
namespace {

constexpr absl::string_view kKeyed = "key:";
constexpr size_t kHashDigits = 32;

absl::Status CheckLength(absl::string_view field, absl::string_view text) {
  constexpr size_t kShortest = 16, kLongest = 128;
  if (text.size() >= kShortest && text.size() <= kLongest) return absl::OkStatus();
  return Invalid(field, " has ", text.size(), " bytes, expected ", kShortest, " to ", kLongest, ", which nobody can guess");
}

absl::Status CheckForm(absl::string_view field, absl::string_view scope) {
  RETURN_IF_ERROR(CheckLength(field, scope));
  if (!IsOfNoClient(scope)) return absl::OkStatus();
  return Invalid(field, " ends with '/', as no scope does");
}

}  // namespace

std::string ScopeOf(absl::string_view key) { return absl::StrCat(kKeyed, HashOf(key).substr(0, kHashDigits)); }

absl::Status CheckHost(absl::string_view field, absl::string_view host, const Reach& reach) {
  if (host.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckForm(field, host));
  if (reach.is_everything() || !absl::StrContains(host, '/')) return absl::OkStatus();
  return Invalid(field, " has a slash, which would be another tenant's on this server; leave it out");
}

absl::Status CheckScope(const v1::OpenHost& open) {
  RETURN_IF_ERROR(CheckForm("OpenHost.scope", open.scope()));
  if (open.key().empty() && !absl::StartsWith(open.scope(), kKeyed)) return absl::OkStatus();  // Is a secret itself.
  RETURN_IF_ERROR(CheckLength("OpenHost.key", open.key()));
  if (open.scope() == ScopeOf(open.key())) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("OpenHost.scope is not that of OpenHost.key, which is '", kKeyed,
                                                  "' and the first ", kHashDigits,
                                                  " digits of the key's SHA-256; only who knows the key can open it"));
}

}  // namespace gluond::server
