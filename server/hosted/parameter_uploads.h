// ParameterUploads: parameters on their way to the server, in chunks. An upload belongs to its client, model and
// parameter, is charged to the model, and is forgotten after a silence. Thread-safe: the map's mutex is held for look-ups
// only, and chunks of different uploads are copied at the same time.

#ifndef SERVER_HOSTED_PARAMETER_UPLOADS_H_
#define SERVER_HOSTED_PARAMETER_UPLOADS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "gluond/v1/model.pb.h"
#include "server/hosted/hosted_model.h"
#include "server/identity/tenants.h"
#include "server/wire/attachments.h"

namespace gluond::server {

class ParameterUploads {
 public:
  using Clock = std::chrono::steady_clock;

  // There are at most `most` uploads: client_ids are free, and a small parameter is charged next to nothing. Where there are
  // tenants, the models of each, and those of none, have half of them at most. `tenants`: null where there are none.
  ParameterUploads(Clock::duration lease, int64_t most, const Tenants* tenants = nullptr)
      : lease_(lease), most_(most), tenants_(tenants) {}

  struct Progress {
    uint64_t received;
    uint64_t total;
  };
  // As UploadParameter in model.proto says. RESOURCE_EXHAUSTED: too many; names --max_uploads.
  absl::StatusOr<Progress> Receive(const v1::UploadParameterRequest& request, const Attachments& attachments, HostedModel& model);
  // The complete upload of a parameter. NOT_FOUND: there is none. FAILED_PRECONDITION: it is incomplete.
  absl::StatusOr<NamedTensor> Complete(const std::string& client, HostedModel& model, const std::string& parameter) const;
  // Forgets the upload that Complete gave, but not another one that has begun since.
  void Forget(const std::string& client, HostedModel& model, const NamedTensor& applied);
  // Forgets uploads that were silent for longer than the lease.
  void Expire();

 private:
  using Key = std::tuple<std::string, const HostedModel*, std::string>;
  struct Upload {
    std::weak_ptr<HostedModel> model;  // An upload does not keep a deleted model.
    std::string tenant;                // The tenant of the model.
    Tensor tensor;                     // These are set before others know the upload.
    Clock::time_point last_used;       // Guarded by the map's mutex.
    Mutex mu;                          // Taken before the mutex of the map. Guards the tensor's values, too.
    uint64_t received ABSL_GUARDED_BY(mu) = 0;
  };
  using UploadPtr = std::shared_ptr<Upload>;

  // Null: there is none.
  UploadPtr Use(const Key& key);
  // Adds the upload, in the place of an earlier one if there is one.
  absl::Status Add(const Key& key, const UploadPtr& upload);
  // Whether one more is within the limits.
  absl::Status CheckCount(const std::string& tenant) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // NOT_FOUND: there is none.
  absl::StatusOr<UploadPtr> Find(const std::string& client, HostedModel& model, const std::string& parameter) const;

  const Clock::duration lease_;
  const int64_t most_;
  const Tenants* const tenants_;
  mutable Mutex mu_;
  std::map<Key, UploadPtr> uploads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_HOSTED_PARAMETER_UPLOADS_H_
