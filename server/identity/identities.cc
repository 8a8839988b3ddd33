#include "server/identity/identities.h"

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "server/identity/names.h"
#include "server/identity/secret.h"

namespace gluond::server {
namespace {

constexpr char kToken[] = "sha256:", kCertificate[] = "certificate:";
constexpr size_t kHashDigits = 64;

bool IsToken(absl::string_view text) {
  return absl::ConsumePrefix(&text, kToken) && text.size() == kHashDigits && absl::c_all_of(text, absl::ascii_isxdigit) &&
         absl::c_none_of(text, absl::ascii_isupper);
}

// A certificate's with the name that the word means.
absl::StatusOr<std::string> ParseCredential(const std::string& word) {
  absl::string_view name = word;
  if (absl::ConsumePrefix(&name, kCertificate) && !name.empty()) {
    ASSIGN_OR_RETURN(const std::string decoded, DecodeWord(name));
    return absl::StrCat(kCertificate, decoded);
  }
  if (IsToken(word)) return word;
  return Invalid("the credential has to be sha256: and 64 hexadecimal digits in small letters, or certificate: and a name");
}

absl::StatusOr<Identity> ParseLine(const std::vector<std::string>& words) {
  if (words.size() < 3) return Invalid("it has ", words.size(), " words, want a name, roles and a credential");
  Identity identity;
  ASSIGN_OR_RETURN(identity.name, CallersNameInFile(words[0]));
  ASSIGN_OR_RETURN(identity.roles, Roles::Parse(words[1]));
  ASSIGN_OR_RETURN(identity.credential, ParseCredential(words[2]));
  ASSIGN_OR_RETURN(identity.grants, Grants::Parse(absl::MakeSpan(words).subspan(3)));
  if (identity.roles.is_proxy() && IsToken(identity.credential)) {
    return Invalid("a proxy is known by its certificate: in the place of a token it passes on that of whoever calls");
  }
  return identity;
}

}  // namespace

absl::StatusOr<Identities::ByCredential> Identities::Parse(absl::string_view text) {
  ByCredential by_credential;
  absl::flat_hash_set<std::string> tenants, others;
  RETURN_IF_ERROR(ForEachLine("--identities", text, [&](const std::vector<std::string>& words) -> absl::Status {
    ASSIGN_OR_RETURN(Identity parsed, ParseLine(words));
    const auto identity = std::make_shared<const Identity>(std::move(parsed));
    if (!by_credential.emplace(identity->credential, identity).second) {
      return Invalid("an earlier line has the same credential");
    }
    const std::string& name = identity->name;
    // The tenant's part of what clients have (Sequences) is told from that of an acme by this.
    const absl::string_view tenant = TenantOf(name);
    const std::string first(tenant.empty() ? name : tenant);
    (tenant.empty() ? others : tenants).insert(first);
    if (tenants.contains(first) && others.contains(first)) return Invalid("'", first, "' is the name of a tenant, too; rename one");
    return absl::OkStatus();
  }));
  return by_credential;
}

void Identities::AddChanges(const ByCredential& some, const ByCredential& others, absl::string_view what) {
  const auto told = [](const Identity& identity) { return absl::StrCat(identity.name, " ", identity.roles.ToString()); };
  for (const auto& [credential, identity] : some) {
    const auto found = others.find(credential);
    if (found != others.end() && told(*found->second) == told(*identity)) continue;
    changes_.push_back({told(*identity), what});
  }
}

absl::StatusOr<std::unique_ptr<Identities>> Identities::Load(std::string path) {
  std::unique_ptr<Identities> identities(new Identities(std::move(path)));
  RETURN_IF_ERROR(identities->Reload().status());
  identities->changes_.clear();
  return identities;
}

absl::StatusOr<bool> Identities::Reload() {
  ASSIGN_OR_RETURN(const bool changed, file_.Look());
  if (!changed) return false;
  ASSIGN_OR_RETURN(ByCredential by_credential, Parse(file_.text()));
  MutexLock lock(mu_);
  if (by_credential.empty() && !by_credential_.empty()) return NoLinesAnyMore(file_.flag());
  by_credential_.swap(by_credential);
  AddChanges(by_credential, by_credential_, "revoked");
  AddChanges(by_credential_, by_credential, "granted");
  return true;
}

IdentityPtr Identities::Find(const std::string& credential) const {
  MutexLock lock(mu_);
  const auto found = by_credential_.find(credential);
  return found == by_credential_.end() ? nullptr : found->second;
}

// A hash is looked up, and not the token: the time that this takes tells nothing of any token.
IdentityPtr Identities::WithToken(absl::string_view token) const { return Find(kToken + HashOf(token)); }

IdentityPtr Identities::WithCertificate(absl::string_view name) const { return Find(absl::StrCat(kCertificate, name)); }

}  // namespace gluond::server
