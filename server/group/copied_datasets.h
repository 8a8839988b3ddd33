// CopiedDatasets: a member's copies of its leader's datasets (shared_datasets.h). They spare each step its rows, and nothing depends
// on them: a member that has no memory for a dataset goes on without.
//
// A copy is an upload (HostedDataset): its parts and its checksums are checked as a client's. A copy stays when the Join ends, for
// the same columns in the next one. All functions are for the loop.

#ifndef SERVER_GROUP_COPIED_DATASETS_H_
#define SERVER_GROUP_COPIED_DATASETS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/tensor.h"
#include "engine/train/dataset.h"
#include "gluond/v1/dataset.pb.h"
#include "gluond/v1/group.pb.h"
#include "server/hosted/hosted_dataset.h"

namespace gluond::server {

class CopiedDatasets {
 public:
  // `say` sends a message to the leader. `host` outlives the copies.
  CopiedDatasets(Allocator& host, std::function<void(const v1::JoinRequest&)> say) : host_(host), say_(std::move(say)) {}

  // A Join begins, whose leader has offered nothing yet.
  void Joined();
  void Heard(const v1::JoinResponse::Dataset& offer);
  void Heard(v1::JoinResponse::DatasetPart part);
  // Lets go of all copies, and makes none any more: their memory is wanted for models.
  void GiveUp();
  // NOT_FOUND: there is no copy.
  absl::StatusOr<std::shared_ptr<const Dataset>> Find(uint64_t number) const;

 private:
  // The serialized columns, with their checksums, make a dataset the same in another Join.
  using Columns = std::string;
  struct Coming {
    uint64_t number = 0;
    v1::UploadDatasetRequest request;  // The upload's next one.
    HostedDatasetPtr copy;             // Null: not begun.
  };

  // Begins with the first one of `coming_` for which there is room.
  void BeginNext();
  absl::Status Begin(Coming& coming);
  // Returns whether the copy is whole.
  absl::StatusOr<bool> Take(Coming& coming, v1::JoinResponse::DatasetPart part);
  void Fetch() const;
  void Copied(uint64_t number, bool has_copy) const;
  // Leaves the first one of `coming_` out, for the rest of the Join.
  void LeaveOut(const absl::Status& why);

  Allocator& host_;
  const std::function<void(const v1::JoinRequest&)> say_;
  std::map<Columns, std::shared_ptr<const Dataset>> copies_;
  std::map<uint64_t, Columns> offered_;  // By the numbers of this Join.
  std::deque<Coming> coming_;            // The first one is being copied.
  bool has_given_up_ = false;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_COPIED_DATASETS_H_
