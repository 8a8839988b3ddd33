#include "server/identity/identities.h"

#include <cctype>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/status_macros.h"
#include "server/identity/secret.h"

namespace gluond::server {
namespace {

constexpr char kToken[] = "sha256:", kCertificate[] = "certificate:";
constexpr size_t kHashDigits = 64;
constexpr size_t kLongestName = 64;
constexpr size_t kLargestFile = 16 << 20;

absl::StatusOr<std::string> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || text.str().size() > kLargestFile) {
    return absl::NotFoundError(absl::StrCat("--identities=", path, " cannot be read, or has more than 16 MiB"));
  }
  return text.str();
}

// A name is the first part of names in logs and of clients' numbers: letters, digits, '-', '_' and '.'.
bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > kLongestName) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
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
  if (IsName(name)) return std::make_shared<const Identity>(Identity{std::string(name), roles, std::move(credential)});
  return absl::InvalidArgumentError(absl::StrCat("the name has to be 1 to ", kLongestName, " letters, digits, '-', '_' or "
                                                 "'.'"));
}

absl::StatusOr<Identities::ByCredential> Identities::Parse(absl::string_view text) {
  ByCredential by_credential;
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    const auto error = [number](const auto&... why) {
      return absl::InvalidArgumentError(absl::StrCat("--identities, line ", number, ": ", why...));
    };
    if (words.size() != 3) return error("it has ", words.size(), " words, want a name, roles and a credential");
    auto roles = Roles::Parse(words[1]);
    if (!roles.ok()) return error(roles.status().message());
    if (!IsCredential(words[2])) return error("the credential has to be sha256: and 64 hexadecimal digits in small letters, or certificate: and a name");
    auto identity = NewIdentity(words[0], *roles, words[2]);
    if (!identity.ok()) return error(identity.status().message());
    if (!by_credential.emplace(words[2], *std::move(identity)).second) {
      return error("an earlier line has the same credential");
    }
  }
  return by_credential;
}

absl::StatusOr<std::unique_ptr<Identities>> Identities::Load(std::string path) {
  std::unique_ptr<Identities> identities(new Identities(std::move(path)));
  RETURN_IF_ERROR(identities->Reload().status());
  return identities;
}

absl::StatusOr<bool> Identities::Reload() {
  ASSIGN_OR_RETURN(std::string text, Read(path_));
  {
    MutexLock lock(mu_);
    if (text == text_) return false;
    text_ = text;
  }
  ASSIGN_OR_RETURN(ByCredential by_credential, Parse(text));
  MutexLock lock(mu_);
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
