// IdentityFiles: who may call, and as whom the server answers, by files that operators change while the server runs. They are
// its certificate, the identities, the keys of JSON Web Tokens and the tenants. Changed files are taken up (docs/reference.md,
// Rotation), and calls end whose callers could not make them any more.

#ifndef SERVER_IDENTITY_FILES_H_
#define SERVER_IDENTITY_FILES_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/hosted/sweeper.h"
#include "server/identity/gatekeeper.h"
#include "server/identity/tls.h"
#include "server/options.h"
#include "server/rpc/runner.h"

namespace gluond::server {

class IdentityFiles {
 public:
  // Reads the files. `runner` outlives this, and has the tenants from here on. INVALID_ARGUMENT: an option, or a file's line.
  static absl::StatusOr<std::unique_ptr<IdentityFiles>> Load(const ServerOptions& options, Runner& runner);
  // Reads them as Load would, and keeps nothing.
  static absl::Status Check(const ServerOptions& options);

  // Null: connections are not encrypted.
  TlsCertificates* tls() const { return tls_.get(); }
  // Null: everybody may call everything.
  const Gatekeeper* gatekeeper() const { return gatekeeper_.get(); }

  // Looks for changed files now and then, for as long as the sweeper is there. `end_revoked` ends what the gatekeeper would not
  // let go on.
  std::unique_ptr<Sweeper> Follow(std::function<void(const Gatekeeper& gatekeeper)> end_revoked);

 private:
  explicit IdentityFiles(Runner& runner) : runner_(runner) {}
  void TakeUp();
  // Tells of a file of a flag that has changed, or is wrong. Whether it has changed and is taken up.
  bool Told(absl::string_view flag, const absl::StatusOr<bool>& changed);

  Runner& runner_;
  std::unique_ptr<TlsCertificates> tls_;
  std::unique_ptr<Gatekeeper> gatekeeper_;
  std::function<void(const Gatekeeper& gatekeeper)> end_revoked_;
  int looks_for_revoked_ = 0;  // The sweeper looks so many more times.
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_FILES_H_
