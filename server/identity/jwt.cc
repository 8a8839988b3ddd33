#include "server/identity/jwt.h"

#include <jwt.h>

#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/identity/names.h"
#include "server/identity/secret.h"

namespace gluond::server {
namespace {

constexpr size_t kLargestFileMib = 1;
// Claims nest little; a text of brackets alone is refused before it costs anything.
constexpr int kMostDepth = 8;

absl::Status Refused(absl::string_view why) {
  return WithInfo(absl::UnauthenticatedError(absl::StrCat("the bearer token is a JSON Web Token, and ", why)), reason::kNoIdentity);
}

// An object of a token's part.
absl::StatusOr<Json> Decode(absl::string_view part) {
  std::string text;
  if (!absl::WebSafeBase64Unescape(part, &text)) return Refused("a part of it is no base64url");
  const absl::StatusOr<Json> json = Json::Parse(text, kMostDepth);
  if (!json.ok() || json->kind() != Json::kObject) return Refused("a part of it is no JSON object, or too deep a one");
  return *json;
}

// A text of an object; empty: there is none.
std::string Text(const Json& json, absl::string_view key) {
  std::string text;
  return json.Get(key, &text).ok() ? text : "";
}

bool IsSignedBy(const std::string& token, const JwtKey& key) {
  jwt_t* decoded = nullptr;
  const int error =
      jwt_decode(&decoded, token.c_str(), reinterpret_cast<const unsigned char*>(key.pem.data()), static_cast<int>(key.pem.size()));
  const bool is_good = error == 0 && jwt_get_alg(decoded) == jwt_str_alg(key.algorithm.c_str());
  jwt_free(decoded);
  return is_good;
}

// Seconds since 1970, with a fraction or not. Nothing: the claim is no time.
absl::StatusOr<absl::Time> TimeOf(const Json& claim) {
  double seconds = 0;
  if (claim.kind() != Json::kNumber || !claim.Get(&seconds).ok() || !(std::abs(seconds) < 1e12)) {
    return Refused("one of its times is no number of seconds");
  }
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

// A claim by its name, or by the way to it: `realm_access.roles`. Null: there is none.
const Json* FindClaim(const Json& claims, absl::string_view name) {
  if (const Json* const claim = claims.Find(name); claim != nullptr) return claim;
  const Json* claim = &claims;
  for (const absl::string_view key : absl::StrSplit(name, '.')) {
    claim = claim == nullptr ? nullptr : claim->Find(key);
  }
  return claim;
}

// A text, or a list of texts.
std::vector<std::string> Texts(const Json& claim) {
  std::vector<std::string> texts;
  std::string text;
  if (claim.Get(&text).ok()) texts.push_back(text);
  for (const Json& element : claim.elements()) {
    if (element.Get(&text).ok()) texts.push_back(text);
  }
  return texts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Jwt>> Jwt::Load(JwtOptions options) {
  if (options.issuer.empty() || options.audience.empty()) {
    return Invalid("--jwt_keys wants --jwt_issuer and --jwt_audience: a token for another service is none for this one");
  }
  if (options.leeway < absl::ZeroDuration() || options.leeway > absl::Hours(1)) {
    return Invalid("--jwt_leeway_seconds is out of range; want 0 to 3600");
  }
  ASSIGN_OR_RETURN(JwtRoles roles, JwtRoles::Create(options.roles));
  std::unique_ptr<Jwt> jwt(new Jwt(std::move(options), std::move(roles)));
  RETURN_IF_ERROR(jwt->Reload().status());
  return jwt;
}

Jwt::Jwt(JwtOptions options, JwtRoles roles)
    : options_(std::move(options)), roles_(std::move(roles)), file_("--jwt_keys", options_.keys, kLargestFileMib) {}

absl::StatusOr<bool> Jwt::Reload() {
  ASSIGN_OR_RETURN(const bool changed, file_.Look());
  if (!changed) return false;
  ASSIGN_OR_RETURN(std::vector<JwtKey> keys, ParseJwtKeys(file_.text()));
  MutexLock lock(mu_);
  keys_ = std::make_shared<const std::vector<JwtKey>>(std::move(keys));
  good_.clear();
  return true;
}

bool Jwt::HasShape(absl::string_view token) { return absl::c_count(token, '.') == 2; }

absl::Status Jwt::CountNew(const void* connection, absl::Time now) {
  if (const int64_t second = absl::ToUnixSeconds(now); second != second_) {
    second_ = second;
    new_.clear();
  }
  if (new_.size() < kMostConnections || new_.contains(connection)) {
    if (++new_[connection] <= kMostNewInASecond) return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("more than ", kMostNewInASecond, " new tokens came within a second by this connection; use one for many calls"));
}

absl::StatusOr<Jwt::Signed> Jwt::CheckSignature(absl::string_view token, const std::vector<JwtKey>& keys) {
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  ASSIGN_OR_RETURN(const Json header, Decode(parts[0]));
  if (header.Find("crit") != nullptr) return Refused("it wants extensions (crit) that this server has not");
  const std::string algorithm = Text(header, "alg"), kid = Text(header, "kid");
  const std::string text(token);
  for (const JwtKey& key : keys) {
    if (key.algorithm != algorithm || (!key.kid.empty() && !kid.empty() && key.kid != kid)) continue;
    if (!IsSignedBy(text, key)) continue;
    ASSIGN_OR_RETURN(Json claims, Decode(parts[1]));
    return Signed{std::move(claims), key.pem};
  }
  return Refused("no key that this server knows has signed it; it may be of another issuer, or its key may have been changed");
}

absl::StatusOr<IdentityPtr> Jwt::ReadClaims(const Signed& token, absl::Time now) const {
  const Json& claims = token.claims;
  if (Text(claims, "iss") != options_.issuer) return Refused("its issuer is not the one of --jwt_issuer");
  const Json* const audience = claims.Find("aud");
  const std::vector<std::string> audiences = audience == nullptr ? std::vector<std::string>() : Texts(*audience);
  if (!absl::c_linear_search(audiences, options_.audience)) return Refused("its audience is not the one of --jwt_audience");
  const Json* const exp = claims.Find("exp");
  if (exp == nullptr) return Refused("it has no end (exp)");
  ASSIGN_OR_RETURN(absl::Time end, TimeOf(*exp));
  end += options_.leeway;
  if (now >= end) return Refused("it has expired; ask its issuer for a new one");
  if (const Json* const begin = claims.Find("nbf"); begin != nullptr) {
    ASSIGN_OR_RETURN(const absl::Time time, TimeOf(*begin));
    if (now < time - options_.leeway) return Refused("it is not valid yet");
  }
  const Roles roles = roles_.Of(FindClaim(claims, options_.roles.claim));
  if (roles.empty()) return Refused(absl::StrCat("its claim '", options_.roles.claim, "' has none of ", roles_.Wanted()));
  const Json* const name = FindClaim(claims, options_.name_claim);
  std::string text;
  const absl::StatusOr<std::string> caller = CallersName(name != nullptr && name->Get(&text).ok() ? text : "");
  if (!caller.ok()) return Refused(absl::StrCat("its claim '", options_.name_claim, "' is no name: ", caller.status().message()));
  return std::make_shared<const Identity>(Identity{.name = *caller, .roles = roles, .signer = token.pem, .end = end});
}

void Jwt::Remember(const std::string& hash, const IdentityPtr& identity, absl::Time now) {
  if (good_.size() >= kMostRemembered) absl::erase_if(good_, [now](const auto& each) { return each.second->end <= now; });
  if (good_.size() >= kMostRemembered) good_.erase(good_.begin());  // Any of them: its signature is checked again.
  good_[hash] = identity;
}

absl::StatusOr<IdentityPtr> Jwt::Verify(absl::string_view token, const void* connection, absl::Time now) {
  if (token.size() > kMostBytes) return Refused(absl::StrCat("it has more than ", kMostBytes, " bytes"));
  const std::string hash = HashOf(token);
  std::shared_ptr<const std::vector<JwtKey>> keys;
  {
    MutexLock lock(mu_);
    if (const auto found = good_.find(hash); found != good_.end()) {
      if (now < found->second->end) return found->second;
      good_.erase(found);
      return Refused("it has expired; ask its issuer for a new one");
    }
    RETURN_IF_ERROR(CountNew(connection, now));
    keys = keys_;
  }
  ASSIGN_OR_RETURN(const Signed its, CheckSignature(token, *keys));
  ASSIGN_OR_RETURN(const IdentityPtr identity, ReadClaims(its, now));
  MutexLock lock(mu_);
  if (keys == keys_) Remember(hash, identity, now);  // Else these keys may have signed it, and not the new ones.
  return identity;
}

absl::Status Jwt::CheckStill(const Identity& identity, absl::Time now) const {
  if (now >= identity.end) return Refused("it has expired since this call was made; ask its issuer for a new one");
  MutexLock lock(mu_);
  if (absl::c_any_of(*keys_, [&](const JwtKey& key) { return key.pem == identity.signer; })) return absl::OkStatus();
  return Refused("the server has taken out the key that signed it since this call was made; ask its issuer for a new token");
}

}  // namespace gluond::server
