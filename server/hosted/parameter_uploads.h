// ParameterUploads: parameters on their way to the server, in chunks. An upload belongs to its client, model and
// parameter, is charged to the model, and is forgotten after a silence. Thread-safe: the map's mutex is held for look-ups
// only, and chunks of different uploads are copied at the same time.

#ifndef SERVER_HOSTED_PARAMETER_UPLOADS_H_
#define SERVER_HOSTED_PARAMETER_UPLOADS_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "engine/core/error_info.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
#include "gluond/v1/model.pb.h"
#include "server/codec/tensor_codec.h"
#include "server/hosted/hosted_model.h"
#include "server/identity/tenants.h"
#include "server/wire/attachments.h"
#include "server/wire/chunk.h"

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
  absl::StatusOr<Progress> Receive(const v1::UploadParameterRequest& request, const Attachments& attachments, HostedModel& model) {
    if (request.call().client_id().empty()) return Invalid("an upload needs a client_id");
    ASSIGN_OR_RETURN(const Whole whole, CheckWhole(request, model));
    Bytes bytes = attachments.Get(request.chunk().data());
    ASSIGN_OR_RETURN(const int64_t total, CheckedBytes(whole.shape, SizeOf(whole.dtype)));
    const Key key{request.call().client_id(), &model, request.parameter()};
    UploadPtr upload = request.restart() ? nullptr : Use(key);
    const bool begins = upload == nullptr;
    if (begins) upload = std::make_shared<Upload>();
    MutexLock lock(upload->mu);
    if (!begins && (upload->tensor.shape() != whole.shape || upload->tensor.dtype() != whole.dtype)) {
      return Invalid("shape or dtype differs from the first chunk's; set `restart` to begin anew");
    }
    Progress progress{upload->received, static_cast<uint64_t>(total)};
    ASSIGN_OR_RETURN(const size_t known, CheckChunk(request.chunk(), bytes, progress.received, progress.total));
    if (begins && bytes.size() == 0) return progress;
    if (begins) {
      ASSIGN_OR_RETURN(upload->tensor, Tensor::Empty(model.host_allocator(), whole.shape, whole.dtype));
      upload->model = model.weak_from_this();
      upload->tenant = std::string(TenantOf(request.model()));
      RETURN_IF_ERROR(Add(key, upload));
    }
    progress.received = std::max<uint64_t>(progress.received, request.chunk().offset() + bytes.size());
    bytes.RemovePrefix(known);
    bytes.CopyTo(upload->tensor.data<char>() + request.chunk().offset() + known);
    upload->received = progress.received;
    return progress;
  }

  // The complete upload of a parameter. NOT_FOUND: there is none. FAILED_PRECONDITION: it is incomplete.
  absl::StatusOr<NamedTensor> Complete(const std::string& client, HostedModel& model, const std::string& parameter) const {
    ASSIGN_OR_RETURN(const UploadPtr upload, Find(client, model, parameter));
    MutexLock lock(upload->mu);
    if (upload->received < upload->tensor.bytes()) {
      return FailedPrecondition("the upload of parameter '", Excerpt(parameter), "' has ", upload->received, " of ",
                                upload->tensor.bytes(), " bytes");
    }
    return NamedTensor{parameter, upload->tensor};
  }

  // Forgets the upload that Complete gave, but not another one that has begun since.
  void Forget(const std::string& client, HostedModel& model, const NamedTensor& applied) {
    MutexLock lock(mu_);
    const auto found = uploads_.find({client, &model, applied.name});
    if (found != uploads_.end() && found->second->tensor.data() == applied.tensor.data()) uploads_.erase(found);
  }

  // Forgets uploads that were silent for longer than the lease.
  void Expire() {
    MutexLock lock(mu_);
    const Clock::time_point now = Clock::now();
    std::erase_if(uploads_, [this, now](const auto& entry) {
      return now - entry.second->last_used > lease_ || entry.second->model.expired();
    });
  }

 private:
  struct Whole {
    Shape shape;
    DType dtype;
  };

  // The whole parameter's shape and type from the request, if the model agrees.
  static absl::StatusOr<Whole> CheckWhole(const v1::UploadParameterRequest& request, HostedModel& model) {
    ASSIGN_OR_RETURN(const Parameter parameter, model.model().parameters().Get(request.parameter()));
    Whole whole;
    ASSIGN_OR_RETURN(whole.shape, ShapeFromProto(request.shape(), /*known=*/true));
    ASSIGN_OR_RETURN(whole.dtype, FromProto(request.dtype()));
    Shape agreed = parameter.shape;
    if (!ShapeAssign(&agreed, whole.shape) || whole.dtype != parameter.dtype) {
      return Invalid("parameter '", parameter.name, "' is of shape ", parameter.shape.ToString(), " and dtype ",
                     Name(parameter.dtype), ", got ", whole.shape.ToString(), " and ", Name(whole.dtype));
    }
    return whole;
  }

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
  UploadPtr Use(const Key& key) {
    MutexLock lock(mu_);
    const auto found = uploads_.find(key);
    // Another model may have lain at this address.
    if (found == uploads_.end() || found->second->model.lock().get() != std::get<1>(key)) return nullptr;
    found->second->last_used = Clock::now();
    return found->second;
  }

  // Adds the upload, in the place of an earlier one if there is one.
  absl::Status Add(const Key& key, const UploadPtr& upload) {
    MutexLock lock(mu_);
    if (!uploads_.contains(key)) RETURN_IF_ERROR(CheckCount(upload->tenant));
    upload->last_used = Clock::now();
    uploads_[key] = upload;
    return absl::OkStatus();
  }

  // Whether one more is within the limits.
  absl::Status CheckCount(const std::string& tenant) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto count = static_cast<int64_t>(uploads_.size());
    if (count >= most_) {
      return OverLimit("--max_uploads", "the server holds ", count,
                       " uploads of parameters, the limit of --max_uploads; apply some, or wait until they expire");
    }
    const int64_t part = PartOfOneTenant(most_);
    if (tenants_ == nullptr || !tenants_->any() || count < part) return absl::OkStatus();
    const int64_t its = absl::c_count_if(uploads_, [&tenant](const auto& entry) { return entry.second->tenant == tenant; });
    if (its < part) return absl::OkStatus();
    return OverLimit("--max_uploads", its, " uploads of parameters are ", tenant.empty() ? "of no tenant" : "the tenant's",
                     ", half of the ", most_, " of --max_uploads, and nobody may have more; apply some, or wait until they expire");
  }

  // NOT_FOUND: there is none.
  absl::StatusOr<UploadPtr> Find(const std::string& client, HostedModel& model, const std::string& parameter) const {
    MutexLock lock(mu_);
    const auto found = uploads_.find({client, &model, parameter});
    if (found != uploads_.end() && found->second->model.lock().get() == &model) return found->second;
    return NotFound("client '", Excerpt(client), "' has uploaded no parameter '", Excerpt(parameter),
                    "'; send it with UploadParameter");
  }

  const Clock::duration lease_;
  const int64_t most_;
  const Tenants* const tenants_;
  mutable Mutex mu_;
  std::map<Key, UploadPtr> uploads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_HOSTED_PARAMETER_UPLOADS_H_
