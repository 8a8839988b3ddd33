#include "server/hosted/parameter_uploads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
#include "server/codec/tensor_codec.h"
#include "server/wire/chunk.h"

namespace gluond::server {
namespace {

struct Whole {
  Shape shape;
  DType dtype;
};

// The whole parameter's shape and type from the request, if the model agrees.
absl::StatusOr<Whole> CheckWhole(const v1::UploadParameterRequest& request, HostedModel& model) {
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

}  // namespace

absl::StatusOr<ParameterUploads::Progress> ParameterUploads::Receive(const v1::UploadParameterRequest& request,
                                                                     const Attachments& attachments, HostedModel& model) {
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

ParameterUploads::UploadPtr ParameterUploads::Use(const Key& key) {
  MutexLock lock(mu_);
  const auto found = uploads_.find(key);
  // Another model may have lain at this address.
  if (found == uploads_.end() || found->second->model.lock().get() != std::get<1>(key)) return nullptr;
  found->second->last_used = Clock::now();
  return found->second;
}

absl::Status ParameterUploads::Add(const Key& key, const UploadPtr& upload) {
  MutexLock lock(mu_);
  if (!uploads_.contains(key)) RETURN_IF_ERROR(CheckCount(upload->tenant));
  upload->last_used = Clock::now();
  uploads_[key] = upload;
  return absl::OkStatus();
}

absl::Status ParameterUploads::CheckCount(const std::string& tenant) const {
  const auto count = static_cast<int64_t>(uploads_.size());
  if (count >= most_) {
    return OverLimit("--max_uploads", "the server holds ", count,
                     " uploads of parameters, the limit of --max_uploads; apply some, or wait until they expire");
  }
  const int64_t part = PartOfOneTenant(most_);
  if (tenants_ == nullptr || !tenants_->any() || count < part) return absl::OkStatus();
  const int64_t its =
      std::count_if(uploads_.begin(), uploads_.end(), [&tenant](const auto& entry) { return entry.second->tenant == tenant; });
  if (its < part) return absl::OkStatus();
  return OverLimit("--max_uploads", its, " uploads of parameters are ", tenant.empty() ? "of no tenant" : "the tenant's",
                   ", half of the ", most_, " of --max_uploads, and nobody may have more; apply some, or wait until they expire");
}

absl::StatusOr<ParameterUploads::UploadPtr> ParameterUploads::Find(const std::string& client, HostedModel& model,
                                                                   const std::string& parameter) const {
  MutexLock lock(mu_);
  const auto found = uploads_.find({client, &model, parameter});
  if (found != uploads_.end() && found->second->model.lock().get() == &model) return found->second;
  return absl::NotFoundError(absl::StrCat("client '", Excerpt(client), "' has uploaded no parameter '", Excerpt(parameter),
                                          "'; send it with UploadParameter"));
}

absl::StatusOr<NamedTensor> ParameterUploads::Complete(const std::string& client, HostedModel& model,
                                                       const std::string& parameter) const {
  ASSIGN_OR_RETURN(const UploadPtr upload, Find(client, model, parameter));
  MutexLock lock(upload->mu);
  if (upload->received < upload->tensor.bytes()) {
    return absl::FailedPreconditionError(absl::StrCat("the upload of parameter '", Excerpt(parameter), "' has ", upload->received,
                                                      " of ", upload->tensor.bytes(), " bytes"));
  }
  return NamedTensor{parameter, upload->tensor};
}

void ParameterUploads::Forget(const std::string& client, HostedModel& model, const NamedTensor& applied) {
  MutexLock lock(mu_);
  const auto found = uploads_.find({client, &model, applied.name});
  if (found != uploads_.end() && found->second->tensor.data() == applied.tensor.data()) uploads_.erase(found);
}

void ParameterUploads::Expire() {
  MutexLock lock(mu_);
  const Clock::time_point now = Clock::now();
  for (auto it = uploads_.begin(); it != uploads_.end();) {
    const bool silent = now - it->second->last_used > lease_ || it->second->model.expired();
    it = silent ? uploads_.erase(it) : std::next(it);
  }
}

}  // namespace gluond::server
