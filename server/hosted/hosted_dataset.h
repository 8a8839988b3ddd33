// HostedDataset: rows on their way to the server, in chunks, and then immutable. An upload belongs to the client that
// began it and is forgotten after a silence; a committed dataset stays. Thread-safe.

#ifndef SERVER_HOSTED_HOSTED_DATASET_H_
#define SERVER_HOSTED_HOSTED_DATASET_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/nn/named_tensor.h"
#include "engine/train/dataset.h"
#include "gluond/v1/dataset.pb.h"
#include "server/hosted/registry.h"
#include "server/wire/attachments.h"

namespace gluond::server {

class HostedDataset {
 public:
  using Clock = std::chrono::steady_clock;

  // Makes one with the columns that the request declares, and those of `tensors`, its decoded whole columns.
  // INVALID_ARGUMENT: there are none, or they do not fit together. RESOURCE_EXHAUSTED: as Dataset::Create.
  static absl::StatusOr<std::shared_ptr<HostedDataset>> Create(const v1::UploadDatasetRequest& request,
                                                               const NamedTensors& tensors, Allocator& host);
  // For Create.
  HostedDataset(std::string client, std::vector<std::optional<uint32_t>> declared_crcs,
                std::shared_ptr<Dataset> dataset)
      : client_(std::move(client)), dataset_(std::move(dataset)), declared_crcs_(std::move(declared_crcs)),
        crcs_(declared_crcs_.size()) {}

  // Takes in the rows of a request of the same client, and says how far the upload is, as UploadDataset in
  // training.proto describes.
  absl::Status Receive(const v1::UploadDatasetRequest& request, const NamedTensors& tensors,
                       const Attachments& attachments, v1::UploadDatasetResponse* response);

  const std::string& client() const { return client_; }
  const std::shared_ptr<Dataset>& dataset() const { return dataset_; }
  void Describe(const std::string& name, v1::Dataset* proto) const;
  // Whether this is an upload whose client has been silent for `lease`.
  bool Silent(Clock::duration lease) const;

 private:
  absl::Status CheckWhole(const std::string& name, const Tensor& tensor) const;
  absl::Status CheckSameColumns(const v1::UploadDatasetRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ReceiveChunk(const v1::UploadDatasetRequest& request, const Attachments& attachments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Append(size_t column, absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Commit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string client_;
  const std::shared_ptr<Dataset> dataset_;
  const std::vector<std::optional<uint32_t>> declared_crcs_;
  const std::chrono::system_clock::time_point created_ = std::chrono::system_clock::now();

  mutable Mutex mu_;
  std::vector<uint32_t> crcs_ ABSL_GUARDED_BY(mu_);  // Checksums of the received bytes.
  Clock::time_point last_used_ ABSL_GUARDED_BY(mu_) = Clock::now();
};

using HostedDatasetPtr = std::shared_ptr<HostedDataset>;

// The datasets of a server.
class Datasets : public Registry<HostedDataset> {
 public:
  explicit Datasets(int64_t limit) : Registry("dataset", limit, "--max_datasets") {}

  // A dataset that can be used. FAILED_PRECONDITION: it is not committed.
  absl::StatusOr<std::shared_ptr<const Dataset>> Committed(const std::string& name) const;

  // The whole of UploadDataset.
  absl::Status Upload(const v1::UploadDatasetRequest& request, const Attachments& attachments, Allocator& host,
                      v1::UploadDatasetResponse* response);
};

}  // namespace gluond::server

#endif  // SERVER_HOSTED_HOSTED_DATASET_H_
