// LeaderFiles: the way to the server that this one follows, and the files of versions there. Thread-safe.
//
//   ASSIGN_OR_RETURN(auto files, LeaderFiles::Connect(options));
//   auto stream = files->stub().FollowVersions(...);
//   ASSIGN_OR_RETURN(ModelState state, files->Fetch("digits", 3, checksum, allocator, budget));

#ifndef SERVER_FOLLOW_LEADER_FILES_H_
#define SERVER_FOLLOW_LEADER_FILES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/nn/model.h"
#include "engine/runtime/budget.h"
#include "gluond/v1/serving.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/follow/follow_options.h"
#include "server/rpc/way_to_server.h"

namespace gluond::server {

class LeaderFiles {
 public:
  // Reads the files of the options, which may have changed, and makes a channel, which connects by itself.
  // Errors as of CheckFollow.
  static absl::StatusOr<std::shared_ptr<LeaderFiles>> Connect(const FollowOptions& options);

  v1::ServingService::Stub& stub() const { return *stub_; }
  // The metadata of a call.
  void Prepare(grpc::ClientContext* context) const { way_.Prepare(context); }

  // Reads a version's model, part by part, into memory of `allocator`. Each file is checked against the manifest, and the manifest
  // against `checksum`. A part that does not come is asked for again, for half a minute. `budget` pays for one part.
  // NOT_FOUND: the leader has no such version any more, or its graph has an operator that this server has not. DATA_LOSS: a
  // checksum is wrong. UNAVAILABLE: the leader is away. CANCELLED: End. RESOURCE_EXHAUSTED: no memory.
  absl::StatusOr<ModelState> Fetch(const std::string& name, int64_t number, uint32_t checksum, Allocator& allocator,
                                   const std::shared_ptr<Budget>& budget);

  // Ends Fetch, now and later. The stub's other calls are their callers' to end.
  void End();

 private:
  class RemoteFile;

  explicit LeaderFiles(WayToServer way) : way_(std::move(way)), stub_(v1::ServingService::NewStub(way_.channel())) {}

  // One ReadVersion, tried again as above.
  absl::StatusOr<v1::ReadVersionResponse> Read(const v1::ReadVersionRequest& request);
  absl::StatusOr<v1::ReadVersionResponse> ReadOnce(const v1::ReadVersionRequest& request);

  const WayToServer way_;
  const std::unique_ptr<v1::ServingService::Stub> stub_;
  Mutex mu_;
  CondVar ending_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* reading_ ABSL_GUARDED_BY(mu_) = nullptr;
};

// A status of gRPC's as one of ours.
absl::Status ToStatus(const grpc::Status& status);

}  // namespace gluond::server

#endif  // SERVER_FOLLOW_LEADER_FILES_H_
