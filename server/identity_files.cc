#include "server/identity_files.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "server/rpc/log.h"

namespace gluond::server {
namespace {

// A change is found within so long, and counts a second later (WatchedFile).
constexpr std::chrono::milliseconds kLook{500};

// Null: everybody may call everything.
absl::StatusOr<std::unique_ptr<Gatekeeper>> NewGatekeeper(const ServerOptions& options, Tenants& tenants) {
  std::unique_ptr<Identities> identities;
  std::unique_ptr<Jwt> jwt;
  if (!options.identities.empty()) {
    ASSIGN_OR_RETURN(identities, Identities::Load(options.identities));
  }
  if (!options.jwt.keys.empty()) {
    ASSIGN_OR_RETURN(jwt, Jwt::Load(options.jwt));
  }
  const bool has_names = identities != nullptr || jwt != nullptr;
  if (!options.tenants.empty() && !has_names) {
    return Invalid("--tenants needs the callers that belong to them; set --identities=FILE or --jwt_keys=FILE");
  }
  if (!options.tenants.empty() && options.shared_memory) {
    return Invalid(
        "--tenants and --shared_memory exclude each other: regions of memory are not told apart by tenants; leave one of them out");
  }
  if (!options.tenants.empty()) RETURN_IF_ERROR(tenants.Load(options.tenants));
  if (!options.asks_who_calls()) {
    const bool asks_on_unix = options.unix_identity == UnixIdentity::kNone;
    if (!asks_on_unix && options.health_names == OpenNames::kForAll) return nullptr;
    return Invalid(asks_on_unix ? "--unix_identity=none" : "--health_names=closed",
                   " needs callers whom the server knows; set --identities=FILE or --jwt_keys=FILE");
  }
  const UnixIdentity on_unix = options.unix_identity.value_or(has_names ? UnixIdentity::kNone : UnixIdentity::kLocal);
  return std::make_unique<Gatekeeper>(std::move(identities), std::move(jwt), tenants, on_unix, options.health_names);
}

}  // namespace

absl::StatusOr<std::unique_ptr<IdentityFiles>> IdentityFiles::Load(const ServerOptions& options, Runner& runner) {
  std::unique_ptr<IdentityFiles> files(new IdentityFiles(runner));
  if (options.tls.any()) {
    ASSIGN_OR_RETURN(files->tls_, TlsCertificates::Load(options.tls));
  }
  ASSIGN_OR_RETURN(files->gatekeeper_, NewGatekeeper(options, runner.tenants));
  return files;
}

absl::Status IdentityFiles::Check(const ServerOptions& options) {
  if (options.tls.any()) RETURN_IF_ERROR(TlsCertificates::Load(options.tls).status());
  Tenants tenants;
  return NewGatekeeper(options, tenants).status();
}

std::unique_ptr<Sweeper> IdentityFiles::Follow(std::function<void(const Gatekeeper& gatekeeper)> end_revoked) {
  end_revoked_ = std::move(end_revoked);
  return std::make_unique<Sweeper>(
      "identities", [this] { TakeUp(); }, kLook);
}

bool IdentityFiles::Told(absl::string_view flag, const absl::StatusOr<bool>& changed) {
  if (changed.ok() && !*changed) return false;
  if (!changed.ok()) {
    LogEvent("file_not_taken_up", LogLevel::kError, absl::StrCat(changed.status().message(), "; those known before stay"));
  }
  runner_.audit.Tell({.method = "reload", .code = changed.status().code(), .target = std::string(flag)});
  return changed.ok();
}

void IdentityFiles::TakeUp() {
  if (tls_ != nullptr) Told("--tls_cert", tls_->Reload());
  const bool tenants = Told("--tenants", runner_.tenants.Reload());
  if (gatekeeper_ == nullptr) return;
  const bool identities = Told("--identities", gatekeeper_->ReloadIdentities());
  Told("--jwt_keys", gatekeeper_->ReloadKeys());
  for (const Identities::Change& change : gatekeeper_->TakeChanges()) {
    runner_.audit.Tell({.method = "reload", .target = change.name, .command = change.what});
  }
  // A second look finds calls that were admitted by the old file and had not begun at the first.
  if (tenants || identities) looks_for_revoked_ = 2;
  if (looks_for_revoked_ == 0 && !gatekeeper_->credentials_end()) return;
  looks_for_revoked_ = std::max(0, looks_for_revoked_ - 1);
  end_revoked_(*gatekeeper_);
}

}  // namespace gluond::server
