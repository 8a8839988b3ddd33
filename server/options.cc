#include "server/options.h"

#include "engine/core/status_macros.h"

namespace gluond::server {

absl::Status CheckOptions(const ServerOptions& options) {
  constexpr int kMostComputeThreads = 1024;
  RETURN_IF_ERROR(CheckLimits(options.limits));
  RETURN_IF_ERROR(CheckConnectionLife(options.connections));
  if (options.cpu_threads < 0 || options.cpu_threads > kMostComputeThreads) {
    return InvalidArgument("--cpu_threads is ", options.cpu_threads, "; want 0 to ", kMostComputeThreads);
  }
  if (options.serve_share < 1 || options.serve_share > 99) {
    return InvalidArgument("--serve_share is ", options.serve_share, "; want percents, 1 to 99");
  }
  if (options.access_every < 1) {
    return InvalidArgument("--access_log_every is ", options.access_every, "; want 1 or more");
  }
  if (options.store_dir.empty() && options.checkpoint_every.any()) {
    return absl::InvalidArgumentError("--checkpoint_every needs a place for the checkpoints; set --store_dir=FOLDER");
  }
  if (options.strict_ownership && !options.asks_who_calls()) {
    return absl::InvalidArgumentError(
        "--ownership=strict needs to know who calls; set --identities=FILE or --jwt_keys=FILE, or leave it `shared`");
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
