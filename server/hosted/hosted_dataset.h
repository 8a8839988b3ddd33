// HostedDataset: rows on their way to the server, in chunks, and then immutable. An upload belongs to the client that
// began it and is forgotten after a silence; a committed dataset stays. Where the server has a store, a commit is done
// when the dataset is in it. Thread-safe.

#ifndef SERVER_HOSTED_HOSTED_DATASET_H_
#define SERVER_HOSTED_HOSTED_DATASET_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "engine/nn/named_tensor.h"
#include "engine/store/dataset_store.h"
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
  static absl::StatusOr<std::shared_ptr<HostedDataset>> Create(const v1::UploadDatasetRequest& request, const NamedTensors& tensors,
                                                               Allocator& host);
  // `stored`: it comes from the store. `temporary`: it never goes there.
  HostedDataset(StoredDataset parts, bool stored, bool temporary)
      : dataset_(std::move(parts.dataset)),
        client_(std::move(parts.client)),
        created_(parts.created),
        temporary_(temporary),
        declared_crcs_(std::move(parts.declared_crcs)),
        crcs_(std::move(parts.crcs)),
        stored_(stored) {}

  // Called when the store has the dataset, which is committed then, or with an error, after which it is an upload with
  // all of its bytes. On any thread.
  using Stored = std::function<void(const absl::Status&)>;
  enum class Next {
    kAnswer,  // The response is complete.
    kStore,   // The caller sees to it that the store takes the dataset, and then calls EndStoring.
    kAwait,   // Another call has been told kStore; the response waits for `stored`.
  };

  // Takes in the rows of a request of the same client, and says how far the upload is, as UploadDataset in
  // training.proto describes. `stored` is null without a store; it is called for kStore and kAwait alone, and the
  // response is that of an OK then.
  absl::StatusOr<Next> Receive(const v1::UploadDatasetRequest& request, const NamedTensors& tensors, const Attachments& attachments,
                               Stored stored, v1::UploadDatasetResponse* response);
  // Whether a commit waits for the store.
  bool storing() const;
  // The contents for the store. Requires: the columns are full.
  StoredDataset Parts() const;
  void EndStoring(const absl::Status& status);

  const std::string& client() const { return client_; }
  // A text that no other upload has.
  std::string etag() const;
  const std::shared_ptr<Dataset>& dataset() const { return dataset_; }
  void Describe(const std::string& name, v1::Dataset* proto) const;
  // Whether this is an upload whose client has been silent for `lease`.
  bool Silent(Clock::duration lease) const;

 private:
  absl::Status CheckWhole(const std::string& name, const Tensor& tensor) const;
  absl::Status CheckSameColumns(const v1::UploadDatasetRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ReceiveChunk(const v1::UploadDatasetRequest& request, const Attachments& attachments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Append(size_t column, absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether all bytes are there, and are those that were declared.
  absl::Status CheckFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<Dataset> dataset_;
  const std::string client_;
  const std::chrono::system_clock::time_point created_;
  const bool temporary_;
  const std::vector<std::optional<uint32_t>> declared_crcs_;

  mutable Mutex mu_;
  std::vector<uint32_t> crcs_ ABSL_GUARDED_BY(mu_);  // Checksums of the received bytes.
  bool stored_ ABSL_GUARDED_BY(mu_);
  std::vector<Stored> awaiting_ ABSL_GUARDED_BY(mu_);  // Commits that wait for the store.
  Clock::time_point last_used_ ABSL_GUARDED_BY(mu_) = Clock::now();
};

using HostedDatasetPtr = std::shared_ptr<HostedDataset>;

// The column as UploadDataset declares it, without its checksum.
void Describe(const Dataset& dataset, const Column& column, v1::Column* proto);

// The datasets of a server.
class Datasets : public Registry<HostedDataset> {
 public:
  explicit Datasets(int64_t limit, const Tenants* tenants = nullptr)
      : Registry("dataset", limit, "--max_datasets", tenants, &Quotas::datasets), tenants_(tenants) {}

  // A dataset that can be used. FAILED_PRECONDITION: it is not committed.
  absl::StatusOr<std::shared_ptr<const Dataset>> Committed(const std::string& name) const;

  // The dataset, if it is that of the etag. ABORTED, with the reason VERSION_CHANGED: it is another one.
  absl::StatusOr<HostedDatasetPtr> Expect(const std::string& name, const std::string& etag) const {
    ASSIGN_OR_RETURN(HostedDatasetPtr hosted, Find(name));
    if (hosted->etag() != etag) return Changed(name);
    return hosted;
  }

  // UploadDataset, but for the store: as HostedDataset::Receive. Sets `hosted` where it returns kStore.
  absl::StatusOr<HostedDataset::Next> Upload(const v1::UploadDatasetRequest& request, const Attachments& attachments,
                                             Allocator& host, HostedDataset::Stored stored, HostedDatasetPtr* hosted,
                                             v1::UploadDatasetResponse* response);

 private:
  const Tenants* const tenants_;
};

}  // namespace gluond::server

#endif  // SERVER_HOSTED_HOSTED_DATASET_H_
