#include "server/options.h"

#include "engine/core/status_macros.h"

namespace gluond::server {

absl::Status CheckOptions(const ServerOptions& options) {
  constexpr int kMostComputeThreads = 1024;
  RETURN_IF_ERROR(CheckLimits(options.limits));
  RETURN_IF_ERROR(CheckConnectionLife(options.connections));
  RETURN_IF_ERROR(CheckInRange("--cpu_threads", options.cpu_threads, 0, kMostComputeThreads));
  if (options.serve_share < 1 || options.serve_share > 99) {
    return Invalid("--serve_share is ", options.serve_share, "; want percents, 1 to 99");
  }
  RETURN_IF_ERROR(CheckInRange("--access_log_every", options.access_every, 1));
  if (options.store_dir.empty() && options.checkpoint_every.any()) {
    return Invalid("--checkpoint_every needs a place for the checkpoints; set --store_dir=FOLDER");
  }
  if (options.strict_ownership && !options.asks_who_calls()) {
    return Invalid("--ownership=strict needs to know who calls; set --identities=FILE or --jwt_keys=FILE, or leave it `shared`");
  }
  if (options.follow.address.empty()) {
    if (options.follow.token_file.empty() && options.follow.authority.empty()) return absl::OkStatus();
    return Invalid("--follow_token_file and --follow_ca say how a leader is reached; name it by --follow=HOST:PORT");
  }
  if (!options.serve.empty()) {
    return Invalid("--serve and --follow both say what is served; set one of them");
  }
  return CheckFollow(options.follow);
}

}  // namespace gluond::server
