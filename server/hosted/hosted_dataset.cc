#include "server/hosted/hosted_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/store/crc32c.h"
#include "engine/store/notes.h"
#include "server/codec/duration.h"
#include "server/codec/tensors_codec.h"
#include "server/wire/chunk.h"

namespace gluond::server {
namespace {

// Columns are found by comparing their names.
constexpr int kMostColumns = 1000;

template <class StatusType>
StatusType InColumn(absl::string_view name, StatusType status) {
  return Annotate(std::move(status), absl::StrCat("column '", Excerpt(name), "'"));
}

struct Declared {
  std::vector<Column> columns;
  std::vector<std::optional<uint32_t>> crcs;
  int64_t rows = -1;

  absl::Status Add(const std::string& name, const Shape& shape, Column column) {
    if (columns.size() == kMostColumns) {
      return absl::ResourceExhaustedError(absl::StrCat("a dataset has at most ", kMostColumns, " columns"));
    }
    if (shape.ndim() < 1) return Invalid("its shape must begin with the number of rows");
    if (rows >= 0 && shape[0] != rows) return Invalid("it has ", shape[0], " rows, the columns before it ", rows);
    rows = shape[0];
    column.name = name;
    column.row_shape = Shape(shape.begin() + 1, shape.end());
    columns.push_back(std::move(column));
    return absl::OkStatus();
  }
};

absl::Status AddColumn(const v1::Column& proto, Declared* declared) {
  Column column;
  ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(proto.shape(), /*known=*/true));
  ASSIGN_OR_RETURN(column.dtype, FromProto(proto.dtype()));
  if (proto.has_scale()) column.scale = proto.scale();
  if (proto.has_shift()) column.shift = proto.shift();
  declared->crcs.push_back(proto.has_crc32c() ? std::optional<uint32_t>(proto.crc32c()) : std::nullopt);
  return declared->Add(proto.name(), shape, std::move(column));
}

}  // namespace

absl::StatusOr<HostedDatasetPtr> HostedDataset::Create(const v1::UploadDatasetRequest& request, const NamedTensors& tensors,
                                                       Allocator& host) {
  Declared declared;
  for (const v1::Column& column : request.columns()) {
    RETURN_IF_ERROR(InColumn(column.name(), AddColumn(column, &declared)));
  }
  for (const auto& [name, tensor] : tensors) {
    if (absl::c_any_of(declared.columns, [&n = name](const Column& c) { return c.name == n; })) continue;
    Column column;
    column.dtype = tensor.dtype();
    declared.crcs.push_back(std::nullopt);
    RETURN_IF_ERROR(InColumn(name, declared.Add(name, tensor.shape(), std::move(column))));
  }
  if (declared.columns.empty()) return Invalid("a new dataset needs `columns`, or whole columns as `tensors`");
  StoredDataset parts;
  parts.client = request.call().client_id();
  ASSIGN_OR_RETURN(parts.dataset, Dataset::Create(std::move(declared.columns), declared.rows, host));
  parts.declared_crcs = std::move(declared.crcs);
  parts.crcs.resize(parts.declared_crcs.size());
  return std::make_shared<HostedDataset>(std::move(parts), /*stored=*/false, request.temporary());
}

absl::StatusOr<HostedDataset::Next> HostedDataset::Receive(const v1::UploadDatasetRequest& request, const NamedTensors& tensors,
                                                           const Attachments& attachments, Stored stored,
                                                           v1::UploadDatasetResponse* response) {
  MutexLock lock(mu_);
  last_used_ = Clock::now();
  RETURN_IF_ERROR(CheckSameColumns(request));
  Next next = Next::kAnswer;
  if (!dataset_->committed()) {
    for (const auto& [name, tensor] : tensors) RETURN_IF_ERROR(CheckWhole(name, tensor));
    for (const auto& [name, tensor] : tensors) {
      RETURN_IF_ERROR(Append(*dataset_->FindColumn(name), {tensor.data<char>(), tensor.bytes()}));
    }
    if (request.has_chunk()) RETURN_IF_ERROR(ReceiveChunk(request, attachments));
    if (request.commit()) {
      RETURN_IF_ERROR(CheckFull());
      if (stored == nullptr || temporary_) {
        RETURN_IF_ERROR(dataset_->Commit());
      } else {
        next = awaiting_.empty() ? Next::kStore : Next::kAwait;
        awaiting_.push_back(std::move(stored));
      }
    }
  }
  for (const Column& column : dataset_->columns()) {
    ASSIGN_OR_RETURN(const int64_t bytes, dataset_->bytes_appended(column.name));
    (*response->mutable_received())[column.name] = static_cast<uint64_t>(bytes);
  }
  response->set_committed(dataset_->committed() || next != Next::kAnswer);
  return next;
}

bool HostedDataset::storing() const {
  MutexLock lock(mu_);
  return !awaiting_.empty();
}

StoredDataset HostedDataset::Parts() const {
  MutexLock lock(mu_);
  return {dataset_, client_, created_, crcs_, declared_crcs_};
}

void HostedDataset::EndStoring(const absl::Status& status) {
  std::vector<Stored> awaiting;
  absl::Status committed = status;
  {
    MutexLock lock(mu_);
    if (committed.ok()) committed = dataset_->Commit();
    stored_ = committed.ok();
    last_used_ = Clock::now();
    awaiting.swap(awaiting_);
  }
  for (const Stored& stored : awaiting) stored(committed);
}

// Whether a tensor is all of a column.
absl::Status HostedDataset::CheckWhole(const std::string& name, const Tensor& tensor) const {
  ASSIGN_OR_RETURN(const size_t i, dataset_->FindColumn(name));
  const Column& column = dataset_->columns()[i];
  Shape whole = {dataset_->rows()};
  for (const int64_t dim : column.row_shape) whole.Append(dim);
  if (tensor.dtype() == column.dtype && tensor.shape() == whole) return absl::OkStatus();
  return Invalid("column '", name, "' is declared as ", Name(column.dtype), " ", whole.ToString(), ", its tensor is ",
                 Name(tensor.dtype()), " ", tensor.shape().ToString());
}

absl::Status HostedDataset::CheckSameColumns(const v1::UploadDatasetRequest& request) const {
  if (request.columns_size() > kMostColumns) {
    return Invalid("the request declares ", request.columns_size(), " columns; a dataset has at most ", kMostColumns);
  }
  for (const v1::Column& proto : request.columns()) {
    ASSIGN_OR_RETURN(const size_t i, dataset_->FindColumn(proto.name()));
    Declared again;
    RETURN_IF_ERROR(AddColumn(proto, &again));
    const Column& column = dataset_->columns()[i];
    const Column& now = again.columns[0];
    std::optional<uint32_t> crc = declared_crcs_[i];
    if (!crc.has_value() && dataset_->committed()) crc = crcs_[i];
    const bool other_values = again.crcs[0].has_value() && crc.has_value() && *again.crcs[0] != *crc;
    if (now.row_shape == column.row_shape && now.dtype == column.dtype && now.scale == column.scale && now.shift == column.shift &&
        again.rows == dataset_->rows() && !other_values) {
      continue;
    }
    const char* const what = other_values ? "' has other values" : "' was declared otherwise before";
    if (dataset_->committed()) {
      return absl::AlreadyExistsError(absl::StrCat("the dataset is committed, and its column '", column.name, what,
                                                   "; delete it first, or choose another name"));
    }
    return Invalid("column '", column.name, what, "; set `restart` to begin anew");
  }
  return absl::OkStatus();
}

absl::Status HostedDataset::ReceiveChunk(const v1::UploadDatasetRequest& request, const Attachments& attachments) {
  ASSIGN_OR_RETURN(const size_t column, dataset_->FindColumn(request.column()));
  ASSIGN_OR_RETURN(const int64_t received, dataset_->bytes_appended(request.column()));
  const Column& declared = dataset_->columns()[column];
  const int64_t total = dataset_->rows() * declared.row_shape.Size() * SizeOf(declared.dtype);
  Bytes bytes = attachments.Get(request.chunk().data());
  ASSIGN_OR_RETURN(const size_t known,
                   InColumn(request.column(),
                            CheckChunk(request.chunk(), bytes, static_cast<uint64_t>(received), static_cast<uint64_t>(total))));
  bytes.RemovePrefix(known);
  for (absl::string_view piece : bytes.pieces()) RETURN_IF_ERROR(Append(column, piece));
  return absl::OkStatus();
}

absl::Status HostedDataset::Append(size_t column, absl::string_view bytes) {
  RETURN_IF_ERROR(dataset_->Append(dataset_->columns()[column].name, bytes));
  crcs_[column] = Crc32c(bytes, crcs_[column]);
  return absl::OkStatus();
}

absl::Status HostedDataset::CheckFull() const {
  RETURN_IF_ERROR(dataset_->CheckFull());
  for (size_t i = 0; i < crcs_.size(); ++i) {
    if (declared_crcs_[i].has_value() && *declared_crcs_[i] != crcs_[i]) {
      return WithInfo(
          absl::DataLossError(absl::StrCat("column '", dataset_->columns()[i].name, "' was damaged on the way: its checksum is ",
                                           crcs_[i], ", not ", *declared_crcs_[i], "; upload again with `restart`")),
          reason::kDamagedOnTheWay);
    }
  }
  return absl::OkStatus();
}

std::string HostedDataset::etag() const { return absl::StrCat(ToMicros(created_)); }

void HostedDataset::Describe(const std::string& name, v1::Dataset* proto) const {
  proto->set_name(name);
  proto->set_rows(dataset_->rows());
  for (size_t i = 0; i < dataset_->columns().size(); ++i) {
    v1::Column* described = proto->add_columns();
    server::Describe(*dataset_, dataset_->columns()[i], described);
    if (declared_crcs_[i].has_value()) described->set_crc32c(*declared_crcs_[i]);
  }
  proto->set_bytes(dataset_->bytes());
  proto->set_committed(dataset_->committed());
  SetTime(created_, proto->mutable_created());
  proto->set_etag(etag());
  MutexLock lock(mu_);
  proto->set_stored(stored_);
}

void Describe(const Dataset& dataset, const Column& column, v1::Column* proto) {
  proto->set_name(column.name);
  proto->add_shape(dataset.rows());
  for (const int64_t dim : column.row_shape) proto->add_shape(dim);
  proto->set_dtype(ToProto(column.dtype));
  if (column.scale != 1) proto->set_scale(column.scale);
  if (column.shift != 0) proto->set_shift(column.shift);
}

bool HostedDataset::Silent(Clock::duration lease) const {
  MutexLock lock(mu_);
  return !dataset_->committed() && awaiting_.empty() && Clock::now() - last_used_ > lease;
}

absl::StatusOr<std::shared_ptr<const Dataset>> Datasets::Committed(const std::string& name) const {
  ASSIGN_OR_RETURN(const HostedDatasetPtr hosted, Find(name));
  if (hosted->dataset()->committed()) return std::shared_ptr<const Dataset>(hosted->dataset());
  return FailedPrecondition("dataset '", name, "' is not complete; end its upload with `commit`");
}

absl::StatusOr<HostedDataset::Next> Datasets::Upload(const v1::UploadDatasetRequest& request, const Attachments& attachments,
                                                     Allocator& host, HostedDataset::Stored stored, HostedDatasetPtr* to_store,
                                                     v1::UploadDatasetResponse* response) {
  RETURN_IF_ERROR(CheckOwnedName(tenants_, "dataset", request.dataset()));
  ASSIGN_OR_RETURN(const NamedTensors tensors, DecodeTensors("column", request.tensors(), attachments, host));
  absl::StatusOr<HostedDatasetPtr> hosted = Find(request.dataset());
  if (hosted.ok()) {
    // A repeated commit, whose reply was lost, is answered again.
    const bool repeated = !request.call().client_id().empty() && tensors.empty() && !request.restart();
    if ((*hosted)->client() != request.call().client_id() || ((*hosted)->dataset()->committed() && !repeated)) {
      return absl::AlreadyExistsError(
          absl::StrCat("there is a dataset '", request.dataset(), "' already, ",
                       (*hosted)->dataset()->committed() ? "committed; delete it first" : "which another client uploads"));
    }
  }
  // The upload was forgotten, or the server was started anew meanwhile: its client declares the columns again.
  const bool goes_on = request.columns().empty() && request.tensors().empty() && !request.restart() &&
                       (request.has_chunk() || !request.column().empty() || request.commit());
  if (!hosted.ok() && goes_on) return hosted.status();
  if (request.restart() && hosted.ok() && (*hosted)->storing()) {
    return absl::AbortedError(
        absl::StrCat("dataset '", request.dataset(), "' is being stored; wait for its commit, then delete it"));
  }
  if (!hosted.ok() || request.restart()) {
    RETURN_IF_ERROR(CanAdd(request.dataset(), request.restart()));
    const HostedDatasetPtr before = hosted.ok() ? *hosted : nullptr;
    ASSIGN_OR_RETURN(hosted, HostedDataset::Create(request, tensors, host));
    RETURN_IF_ERROR(Replace(request.dataset(), before, *hosted));
  }
  ASSIGN_OR_RETURN(const HostedDataset::Next next, (*hosted)->Receive(request, tensors, attachments, std::move(stored), response));
  if (next == HostedDataset::Next::kStore) *to_store = *hosted;
  return next;
}

}  // namespace gluond::server
