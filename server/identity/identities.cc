#include "server/identity/identities.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "server/identity/lines.h"
#include "server/identity/secret.h"

namespace gluond::server {
namespace {

constexpr char kToken[] = "sha256:", kCertificate[] = "certificate:";
constexpr size_t kHashDigits = 64;

// "alice", or "acme/alice".
absl::Status CheckFullName(absl::string_view name) {
  const absl::string_view tenant = TenantPrefix(name);
  if (!tenant.empty()) RETURN_IF_ERROR(CheckIdentityName(TenantOf(name)));
  return CheckIdentityName(name.substr(tenant.size()));
}

bool IsHash(absl::string_view text) {
  if (text.size() != kHashDigits) return false;
  for (const char c : text) {
    if (!absl::StrContains("0123456789abcdef", std::string(1, c))) return false;
  }
  return true;
}

bool IsCredential(absl::string_view text) {
  if (absl::StartsWith(text, kCertificate)) return text.size() > sizeof(kCertificate) - 1;
  return absl::StartsWith(text, kToken) && IsHash(text.substr(sizeof(kToken) - 1));
}

}  // namespace

absl::StatusOr<IdentityPtr> NewIdentity(absl::string_view name, Roles roles, std::string credential) {
  RETURN_IF_ERROR(CheckFullName(name));
  return std::make_shared<const Identity>(Identity{std::string(name), roles, std::move(credential)});
}

absl::StatusOr<Identities::ByCredential> Identities::Parse(absl::string_view text) {
  ByCredential by_credential;
  absl::flat_hash_set<std::string> tenants, others;
  const absl::Status read = ForEachLine("--identities", text, [&](const std::vector<std::string>& words) -> absl::Status {
    const auto error = [](const auto&... why) { return absl::InvalidArgumentError(absl::StrCat(why...)); };
    if (words.size() != 3) return error("it has ", words.size(), " words, want a name, roles and a credential");
    ASSIGN_OR_RETURN(const Roles roles, Roles::Parse(words[1]));
    if (!IsCredential(words[2])) return error("the credential has to be sha256: and 64 hexadecimal digits in small letters, or certificate: and a name");
    const std::string& name = words[0];
    ASSIGN_OR_RETURN(IdentityPtr identity, NewIdentity(name, roles, words[2]));
    if (!by_credential.emplace(words[2], std::move(identity)).second) {
      return error("an earlier line has the same credential");
    }
    // The clients' numbers of acme/alice are told from those of an acme by this.
    const absl::string_view tenant = TenantOf(name);
    const std::string first(tenant.empty() ? name : tenant);
    (tenant.empty() ? others : tenants).insert(first);
    if (tenants.contains(first) && others.contains(first)) return error("'", first, "' is the name of a tenant, too; rename one");
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(read);
  return by_credential;
}

absl::StatusOr<std::unique_ptr<Identities>> Identities::Load(std::string path) {
  std::unique_ptr<Identities> identities(new Identities(std::move(path)));
  RETURN_IF_ERROR(identities->Reload().status());
  return identities;
}

absl::StatusOr<bool> Identities::Reload() {
  ASSIGN_OR_RETURN(const bool changed, file_.Look());
  if (!changed) return false;
  ASSIGN_OR_RETURN(ByCredential by_credential, Parse(file_.text()));
  MutexLock lock(mu_);
  if (by_credential.empty() && !by_credential_.empty()) return NoLinesAnyMore(file_.flag());
  by_credential_ = std::move(by_credential);
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

int64_t Identities::size() const {
  MutexLock lock(mu_);
  return static_cast<int64_t>(by_credential_.size());
}

}  // namespace gluond::server
