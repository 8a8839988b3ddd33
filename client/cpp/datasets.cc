// Client::UploadDataset: declares the columns, sends the bytes that the server lacks, commits; and once more where the
// server was started anew meanwhile.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/connection.h"
#include "client/cpp/crc32c.h"
#include "gluond/client.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

using Training = v1::TrainingService::Stub;

v1::Column Declare(const DatasetColumn& column) {
  v1::Column declaration;
  declaration.set_name(column.name);
  declaration.mutable_shape()->Add(column.values.shape().begin(), column.values.shape().end());
  declaration.set_dtype(ToProto(column.values.dtype()));
  if (column.scale.has_value()) declaration.set_scale(*column.scale);
  if (column.shift.has_value()) declaration.set_shift(*column.shift);
  declaration.set_crc32c(Crc32c(column.values.bytes()));
  return declaration;
}

uint64_t Received(const v1::UploadDatasetResponse& progress, const std::string& column) {
  const auto it = progress.received().find(column);
  return it == progress.received().end() ? 0 : it->second;
}

// Whether the dataset has the column as declared; fields that the declaration leaves open do not count.
bool Has(const Dataset& dataset, const v1::Column& declared) {
  return std::any_of(dataset.columns.begin(), dataset.columns.end(), [&](const Column& column) {
    return column.name == declared.name() && column.dtype == FromProto(declared.dtype()) &&
           std::equal(column.shape.begin(), column.shape.end(), declared.shape().begin(), declared.shape().end()) &&
           (declared.has_scale() ? declared.scale() : 1.0) == column.scale.value_or(1.0) &&
           declared.shift() == column.shift.value_or(0.0) && column.crc32c.value_or(0) == declared.crc32c();
  });
}

// Sends the bytes that `had` lacks, and the commit. NOT_FOUND: the server does not have the upload any more.
absl::Status SendRest(Connection& connection, const std::string& name, const std::vector<DatasetColumn>& columns,
                      const v1::UploadDatasetResponse& had, absl::Duration timeout) {
  v1::UploadDatasetRequest request;
  request.set_dataset(name);
  request.mutable_call()->set_client_id(connection.options().client_id);
  for (const DatasetColumn& column : columns) {
    const absl::string_view bytes = column.values.bytes();
    request.set_column(column.name);
    for (uint64_t offset = Received(had, column.name); offset < bytes.size();) {
      const absl::string_view data = bytes.substr(offset, connection.chunk_bytes());
      request.mutable_chunk()->set_offset(offset);
      request.mutable_chunk()->set_data(data.data(), data.size());
      request.mutable_chunk()->set_crc32c(Crc32c(data));
      const auto progress = connection.Call(&Training::UploadDataset, request, timeout);
      if (!progress.ok()) return progress.status();
      const uint64_t received = Received(*progress, column.name);
      if (received <= offset || received > bytes.size()) {
        return absl::DataLossError(absl::StrCat("UploadDataset: ", name, ".", column.name, ": sent ", offset + data.size(),
                                                " bytes, the server has ", received));
      }
      offset = received;
    }
  }
  v1::UploadDatasetRequest commit;
  commit.set_dataset(name);
  commit.mutable_call()->set_client_id(request.call().client_id());
  commit.set_commit(true);
  return connection.Call(&Training::UploadDataset, commit, timeout).status();
}

}  // namespace

absl::Status Client::UploadDataset(const std::string& name, const std::vector<DatasetColumn>& columns) const {
  v1::UploadDatasetRequest request;
  request.set_dataset(name);
  request.mutable_call()->set_client_id(connection_->options().client_id);
  for (const DatasetColumn& column : columns) *request.add_columns() = Declare(column);

  auto response = connection_->Call(&Training::UploadDataset, request, timeout_);
  if (absl::IsAlreadyExists(response.status())) {
    GLUOND_ASSIGN_OR_RETURN(const std::vector<Dataset> datasets, ListDatasets());
    for (const Dataset& dataset : datasets) {
      if (dataset.name == name && dataset.committed && static_cast<int>(dataset.columns.size()) == request.columns_size() &&
          std::all_of(request.columns().begin(), request.columns().end(),
                      [&](const v1::Column& column) { return Has(dataset, column); })) {
        return absl::OkStatus();
      }
    }
  }
  if (!response.ok()) return response.status();

  const absl::Status sent = SendRest(*connection_, name, columns, *response, timeout_);
  if (!absl::IsNotFound(sent)) return sent;
  // The server was started anew, or has forgotten the upload: this begins with what it has now.
  response = connection_->Call(&Training::UploadDataset, request, timeout_);
  if (!response.ok()) return response.status();
  return SendRest(*connection_, name, columns, *response, timeout_);
}

}  // namespace gluond::client
