// ParameterUploads: parameters on their way to the server, in chunks. An upload belongs to its client, model and
// parameter, is charged to the model, and is forgotten after a silence. Thread-safe.

#ifndef SERVER_PARAMETER_UPLOADS_H_
#define SERVER_PARAMETER_UPLOADS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "server/attachments.h"
#include "server/hosted_model.h"

namespace gluond::server {

class ParameterUploads {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ParameterUploads(Clock::duration lease) : lease_(lease) {}

  struct Progress {
    uint64_t received;
    uint64_t total;
  };
  // As UploadParameter in model.proto says.
  absl::StatusOr<Progress> Receive(const v1::UploadParameterRequest& request, const Attachments& attachments,
                                   HostedModel& model);
  // The complete upload of a parameter. NOT_FOUND: there is none. FAILED_PRECONDITION: it is incomplete.
  absl::StatusOr<NamedTensor> Complete(const std::string& client, HostedModel& model, const std::string& parameter) const;
  // Forgets the upload that Complete gave, but not another one that has begun since.
  void Forget(const std::string& client, HostedModel& model, const NamedTensor& applied);
  // Forgets what was silent for longer than the lease.
  void Expire();

 private:
  using Key = std::tuple<std::string, const HostedModel*, std::string>;
  struct Upload {
    std::weak_ptr<HostedModel> model;  // An upload does not keep a deleted model.
    Tensor tensor;
    uint64_t received = 0;
    Clock::time_point last_used;
  };

  const Clock::duration lease_;
  mutable std::mutex mu_;
  std::map<Key, Upload> uploads_;  // Guarded by mu_.
};

}  // namespace gluond::server

#endif  // SERVER_PARAMETER_UPLOADS_H_
