// ModelService's methods on values: initialize, set, get, upload, download.

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/nn/initializer.h"
#include "server/codec/components.h"
#include "server/codec/tensors_codec.h"
#include "server/services/expectation.h"
#include "server/services/model_service.h"

namespace gluond::server {
namespace {

absl::flat_hash_set<std::string> Initialized(const Model& model) {
  absl::flat_hash_set<std::string> names;
  for (const Parameter& parameter : model.parameters().List()) {
    if (parameter.initialized) names.insert(parameter.name);
  }
  return names;
}

void SendChunk(const Call<v1::DownloadParameterRequest, v1::DownloadParameterResponse>& call, HostedModel& hosted,
               const HostedModel::Download& download, uint64_t max_bytes) {
  const v1::DownloadParameterRequest& request = call.request();
  const Tensor& tensor = download.parameter.tensor;
  if (request.offset() > tensor.bytes()) {
    return call.Finish(absl::InvalidArgumentError(absl::StrCat("offset ", request.offset(), " is beyond the ", tensor.bytes(),
                                                               " bytes of parameter '", request.parameter(), "'")));
  }
  const uint64_t wanted = request.has_max_bytes() ? std::min(request.max_bytes(), max_bytes) : max_bytes;
  const uint64_t size = std::min<uint64_t>(wanted, tensor.bytes() - request.offset());
  v1::DownloadParameterResponse& response = call.response();
  for (const int64_t dim : tensor.shape()) response.add_shape(dim);
  response.set_dtype(ToProto(tensor.dtype()));
  const Bytes bytes(absl::string_view(tensor.data<char>() + request.offset(), size));
  response.mutable_chunk()->set_offset(request.offset());
  response.mutable_chunk()->set_crc32c(bytes.Crc32c());
  response.mutable_chunk()->set_data(call.reply_attachments().Add(grpc::Slice(
      tensor.data<char>() + request.offset(), size, [](void* kept) { delete static_cast<Tensor*>(kept); }, new Tensor(tensor))));
  response.set_total(tensor.bytes());
  response.set_version(download.version);
  hosted.Gave(download, size);
  call.Finish();
}

}  // namespace

void ModelService::InitializeParameters(Call<v1::InitializeParametersRequest, v1::InitializeParametersResponse> call) {
  const v1::InitializeParametersRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  InitializeOptions options;
  options.force_reinit = request.force_reinit();
  if (request.has_initializer()) {
    ASSIGN_OR_FINISH(call, options.initializer, SpecFromProto(request.initializer(), Initializers()));
    if (options.initializer.type.empty()) options.initializer = InitializeOptions().initializer;
  }
  Model& model = hosted->model();
  auto before = std::make_shared<absl::flat_hash_set<std::string>>();
  const ScopedCondition condition(ExpectedVersion(call, hosted));
  model.strand().Do<absl::Status>(
      [hosted, before, force = options.force_reinit] {
        if (!force) *before = Initialized(hosted->model());
        return absl::OkStatus();
      },
      [](const absl::Status&) {});
  const auto answer = [call, hosted, before] {
    for (const Parameter& parameter : hosted->model().parameters().List()) {
      if (!parameter.initialized) {
        call.response().add_deferred(parameter.name);
      } else if (!before->contains(parameter.name)) {
        call.response().add_initialized(parameter.name);
      }
    }
    call.response().set_version(hosted->version());
    call.Finish();
  };
  Change<absl::Status>(
      call, hosted, HostedModel::Counts::kVersion, [&](auto done) { model.Initialize(options, std::move(done)); }, answer);
}

void ModelService::SetParameters(Call<v1::SetParametersRequest, v1::SetParametersResponse> call) {
  const v1::SetParametersRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  ASSIGN_OR_FINISH(call, NamedTensors values,
                   DecodeTensors("parameter", request.parameters(), call.attachments(), hosted->host_allocator()));
  NamedTensors uploaded;
  for (const std::string& name : request.uploaded()) {
    ASSIGN_OR_FINISH(call, NamedTensor value, uploads_.Complete(request.call().client_id(), *hosted, name));
    uploaded.push_back(std::move(value));
  }
  values.insert(values.end(), uploaded.begin(), uploaded.end());
  Change<absl::Status>(
      call, hosted, HostedModel::Counts::kVersion,
      [&](auto done) { hosted->model().SetParameters(std::move(values), std::move(done)); },
      [this, call, hosted, uploaded = std::move(uploaded)] {
        for (const NamedTensor& value : uploaded) uploads_.Forget(call.request().call().client_id(), *hosted, value);
        call.response().set_version(hosted->version());
        call.Finish();
      });
}

void ModelService::GetParameters(Call<v1::GetParametersRequest, v1::GetParametersResponse> call) {
  const v1::GetParametersRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  std::vector<std::string> names(request.names().begin(), request.names().end());
  hosted->model().GetParameters(std::move(names), call.Then([call, hosted](NamedTensors values) {
    call.response().set_version(hosted->version());
    call.FinishWith(std::move(values), ReplyForm(call.request().encoding()), call.response().mutable_parameters());
  }));
}

void ModelService::UploadParameter(Call<v1::UploadParameterRequest, v1::UploadParameterResponse> call) {
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
  ASSIGN_OR_FINISH(call, const ParameterUploads::Progress progress, uploads_.Receive(call.request(), call.attachments(), *hosted));
  call.response().set_received(progress.received);
  call.response().set_total(progress.total);
  call.Finish();
}

void ModelService::DownloadParameter(Call<v1::DownloadParameterRequest, v1::DownloadParameterResponse> call) {
  const v1::DownloadParameterRequest& request = call.request();
  if (request.has_max_bytes() && request.max_bytes() == 0) {
    return call.Finish(absl::InvalidArgumentError("max_bytes is 0; want 1 or more, or leave it out"));
  }
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  const auto max_bytes = static_cast<uint64_t>(runner().limits.max_chunk_bytes());
  // The chunks after the first one come from the copy that the first one made.
  const auto kept = request.has_version() ? hosted->FindDownload(request.parameter(), request.version()) : nullptr;
  if (kept != nullptr) return SendChunk(call, *hosted, *kept, max_bytes);
  hosted->model().GetParameters({request.parameter()}, call.Then([call, hosted, max_bytes](NamedTensors values) {
    const uint64_t version = hosted->version();
    if (call.request().has_version() && call.request().version() != version) {
      return call.Finish(
          absl::FailedPreconditionError(absl::StrCat("the parameters are of version ", version, " now, no longer of ",
                                                     call.request().version(), "; begin the download again")));
    }
    auto download = std::make_shared<HostedModel::Download>();
    download->version = version;
    download->parameter = std::move(values[0]);
    hosted->SetDownload(download);
    SendChunk(call, *hosted, *download, max_bytes);
  }));
}

}  // namespace gluond::server
