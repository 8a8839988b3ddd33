// Infer: one request of the open inference protocol, whichever way it came, from the wire to a version and back.

#ifndef SERVER_SERVICES_INFER_H_
#define SERVER_SERVICES_INFER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "engine/runtime/cancellation.h"
#include "proto/inference/grpc_service.pb.h"
#include "server/net/peers.h"
#include "server/rpc/runner.h"
#include "server/serving/version_table.h"
#include "server/wire/attachments.h"
#include "server/wire/shared_regions.h"

namespace gluond::server {

// The messages of a request. `kept` holds all that the others refer to.
struct Inference {
  const inference::ModelInferRequest& request;
  const Attachments& attachments;
  inference::ModelInferResponse& response;
  Attachments& reply_attachments;
  CallersRegions regions;
  std::shared_ptr<Cancellation> cancellation;
  std::shared_ptr<const void> kept;
  PeerPtr peer = nullptr;  // As InferRequest has it, and the caller.
  std::string caller = {};
  CallPhases* phases = nullptr;  // Set before `done` is called; null: nobody wants them.
};

// The user of shared memory that a caller is.
inline RegionUser RegionUserOf(const IdentityPtr& caller) {
  if (caller == nullptr || caller->roles.Has(Role::kAdmin)) return {.is_everybody = true};
  return {.name = caller->is_anybodys ? "" : caller->name};
}

// Calls `done` once, on any thread; with OK the response is complete. NOT_FOUND: there is no such version.
// INVALID_ARGUMENT: the request. UNAVAILABLE: the version is not ready, too many requests wait, or this one has waited for
// too long. RESOURCE_EXHAUSTED: the answer is larger than a message may be.
void Infer(const VersionTable& served, Runner& runner, Inference inference, std::function<void(absl::Status)> done);

}  // namespace gluond::server

#endif  // SERVER_SERVICES_INFER_H_
