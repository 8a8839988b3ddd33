// Model's parameters in and out: small ones in one call, large ones in chunks.

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/cpp/connection.h"
#include "client/cpp/crc32c.h"
#include "gluond/model.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

using Models = v1::ModelService::Stub;

constexpr int kReadAttempts = 5;

absl::Status Checked(const std::string& parameter, const v1::Chunk& chunk, uint64_t offset) {
  if (chunk.offset() != offset || chunk.data().empty() || (chunk.has_crc32c() && chunk.crc32c() != Crc32c(chunk.data()))) {
    return absl::DataLossError(absl::StrCat(parameter, ": a damaged chunk came for offset ", offset));
  }
  return absl::OkStatus();
}

absl::Status Upload(Connection& connection, const std::string& model, const std::string& parameter, const Tensor& value,
                    absl::Duration timeout) {
  v1::UploadParameterRequest request;
  request.set_model(model);
  request.set_parameter(parameter);
  request.set_dtype(ToProto(value.dtype()));
  request.mutable_shape()->Add(value.shape().begin(), value.shape().end());
  request.mutable_call()->set_client_id(connection.options().client_id);
  request.set_restart(true);  // An earlier call may have left chunks of another value.
  const uint64_t total = value.bytes().size();
  for (uint64_t offset = 0; offset < total;) {
    const absl::string_view data = value.bytes().substr(offset, connection.chunk_bytes());
    request.mutable_chunk()->set_offset(offset);
    request.mutable_chunk()->set_data(data.data(), data.size());
    request.mutable_chunk()->set_crc32c(Crc32c(data));
    GLUOND_ASSIGN_OR_RETURN(auto response, connection.Call(&Models::UploadParameter, request, timeout));
    if (response.received() <= offset || response.received() > total) {
      return absl::DataLossError(
          absl::StrCat(parameter, ": sent ", offset + data.size(), " bytes, the server has ", response.received()));
    }
    offset = response.received();
    request.set_restart(false);
  }
  return absl::OkStatus();
}

// Sets `version` where it has none; later calls insist on it.
absl::StatusOr<Tensor> DownloadOne(Connection& connection, const std::string& model, const std::string& parameter,
                                   absl::Duration timeout, std::optional<uint64_t>* version) {
  v1::DownloadParameterRequest request;
  request.set_model(model);
  request.set_parameter(parameter);
  std::string bytes;
  while (true) {
    request.set_offset(bytes.size());
    if (version->has_value()) request.set_version(**version);
    GLUOND_ASSIGN_OR_RETURN(auto response, connection.Call(&Models::DownloadParameter, request, timeout));
    *version = response.version();
    if (response.total() > 0) {
      GLUOND_RETURN_IF_ERROR(Checked(parameter, response.chunk(), bytes.size()));
      bytes += response.chunk().data();
    }
    if (bytes.size() >= response.total()) {
      return Tensor::FromBytes(FromProto(response.dtype()), Shape(response.shape().begin(), response.shape().end()),
                               std::move(bytes));
    }
  }
}

// The parameters of those names.
absl::StatusOr<Tensors> Download(Connection& connection, const std::string& model, const std::vector<std::string>& names,
                                 absl::Duration timeout) {
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    Tensors values;
    std::optional<uint64_t> version;
    absl::Status status;
    for (const std::string& name : names) {
      absl::StatusOr<Tensor> value = DownloadOne(connection, model, name, timeout, &version);
      status = value.status();
      if (!status.ok()) break;
      values.emplace(name, *std::move(value));
    }
    if (status.ok()) return values;
    if (!absl::IsFailedPrecondition(status)) return status;
  }
  return absl::AbortedError(absl::StrCat("GetParameters: '", model, "' changed during each of ", kReadAttempts,
                                         " downloads. Pause its training, or save a "
                                         "checkpoint and load it as another model."));
}

}  // namespace

absl::Status Model::SetParameters(const Tensors& parameters) const {
  v1::SetParametersRequest request;
  request.set_model(name_);
  uint64_t inline_bytes = 0;
  for (const auto& [name, value] : parameters) {
    if (inline_bytes + value.bytes().size() <= connection_->chunk_bytes()) {
      inline_bytes += value.bytes().size();
      (*request.mutable_parameters())[name] = ToProto(value);
    } else {
      GLUOND_RETURN_IF_ERROR(Upload(*connection_, name_, name, value, timeout_));
      request.add_uploaded(name);
    }
  }
  return connection_->Apply(&Models::SetParameters, std::move(request), timeout_).status();
}

absl::StatusOr<Tensors> Model::GetParameters(const std::vector<std::string>& names) const {
  v1::GetParametersRequest request;
  request.set_model(name_);
  request.mutable_names()->Add(names.begin(), names.end());
  request.set_encoding(v1::Tensor::RAW);
  auto response = connection_->Call(&Models::GetParameters, request, timeout_);
  if (absl::IsResourceExhausted(response.status())) {
    std::vector<std::string> wanted = names;
    if (wanted.empty()) {
      GLUOND_ASSIGN_OR_RETURN(const ModelDescription model, Describe());
      for (const Variable& parameter : model.parameters) wanted.push_back(parameter.name);
    }
    return Download(*connection_, name_, wanted, timeout_);
  }
  if (!response.ok()) return response.status();
  return FromProto(response->mutable_parameters());
}

}  // namespace gluond::client
