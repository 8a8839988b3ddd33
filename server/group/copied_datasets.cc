#include "server/group/copied_datasets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/rpc/log.h"

namespace gluond::server {

void CopiedDatasets::Joined() {
  offered_.clear();
  coming_.clear();
}

void CopiedDatasets::Heard(const v1::JoinResponse::Dataset& offer) {
  if (offer.is_gone()) {
    if (const auto gone = offered_.extract(offer.number()); !gone.empty()) copies_.erase(gone.mapped());
    const bool is_first = !coming_.empty() && coming_.front().number == offer.number();
    std::erase_if(coming_, [&offer](const Coming& coming) { return coming.number == offer.number(); });
    if (is_first) BeginNext();
    return;
  }
  if (has_given_up_) return;
  v1::UploadDatasetRequest columns;
  *columns.mutable_columns() = offer.columns();
  offered_[offer.number()] = columns.SerializeAsString();
  if (copies_.contains(offered_[offer.number()])) return Copied(offer.number(), /*has_copy=*/true);
  coming_.push_back({offer.number(), std::move(columns), nullptr});
  if (coming_.size() == 1) BeginNext();
}

void CopiedDatasets::BeginNext() {
  while (!coming_.empty()) {
    const absl::Status begun = Begin(coming_.front());
    if (begun.ok()) return Fetch();
    LeaveOut(begun);
  }
}

absl::Status CopiedDatasets::Begin(Coming& coming) {
  absl::StatusOr<HostedDatasetPtr> copy = HostedDataset::Create(coming.request, {}, host_);
  if (absl::IsResourceExhausted(copy.status())) {
    // An earlier leader's datasets make room.
    std::erase_if(copies_, [this](const auto& kept) {
      return std::none_of(offered_.begin(), offered_.end(), [&](const auto& offered) { return offered.second == kept.first; });
    });
    copy = HostedDataset::Create(coming.request, {}, host_);
  }
  RETURN_IF_ERROR(copy.status());
  coming.copy = *std::move(copy);
  coming.request.clear_columns();
  return absl::OkStatus();
}

void CopiedDatasets::Heard(v1::JoinResponse::DatasetPart part) {
  if (coming_.empty() || coming_.front().number != part.dataset()) return;  // It is gone meanwhile.
  const absl::StatusOr<bool> is_whole = Take(coming_.front(), std::move(part));
  if (is_whole.ok() && !*is_whole) return Fetch();
  if (is_whole.ok()) {
    const Coming& whole = coming_.front();
    copies_[offered_.at(whole.number)] = whole.copy->dataset();
    Copied(whole.number, /*has_copy=*/true);
    coming_.pop_front();
  } else {
    LeaveOut(is_whole.status());
  }
  BeginNext();
}

absl::StatusOr<bool> CopiedDatasets::Take(Coming& coming, v1::JoinResponse::DatasetPart part) {
  const Dataset& dataset = *coming.copy->dataset();
  if (part.column() < 0 || part.column() >= static_cast<int64_t>(dataset.columns().size())) {
    return Invalid("the leader has sent column ", part.column(), " of a dataset that has ", dataset.columns().size());
  }
  coming.request.set_column(dataset.columns()[static_cast<size_t>(part.column())].name);
  *coming.request.mutable_chunk() = std::move(*part.mutable_chunk());
  v1::UploadDatasetResponse received;
  RETURN_IF_ERROR(coming.copy->Receive(coming.request, {}, Attachments(), nullptr, &received).status());
  int64_t bytes = 0;
  for (const auto& [name, column_bytes] : received.received()) bytes += static_cast<int64_t>(column_bytes);
  if (bytes < dataset.bytes()) return false;
  coming.request.Clear();
  coming.request.set_commit(true);
  RETURN_IF_ERROR(coming.copy->Receive(coming.request, {}, Attachments(), nullptr, &received).status());
  return true;
}

void CopiedDatasets::Fetch() const {
  v1::JoinRequest fetch;
  fetch.mutable_fetch()->set_dataset(coming_.front().number);
  say_(fetch);
}

void CopiedDatasets::Copied(uint64_t number, bool has_copy) const {
  v1::JoinRequest copied;
  copied.mutable_copied()->set_dataset(number);
  copied.mutable_copied()->set_has_copy(has_copy);
  say_(copied);
}

void CopiedDatasets::LeaveOut(const absl::Status& why) {
  LogEvent("group_dataset_not_copied", LogLevel::kWarning,
           absl::StrCat(why.message(), "; the leader sends this process the rows of each step"));
  coming_.pop_front();
}

void CopiedDatasets::GiveUp() {
  has_given_up_ = true;
  for (const auto& [number, columns] : offered_) {
    if (copies_.contains(columns)) Copied(number, /*has_copy=*/false);
  }
  copies_.clear();
  Joined();
}

absl::StatusOr<std::shared_ptr<const Dataset>> CopiedDatasets::Find(uint64_t number) const {
  const auto offered = offered_.find(number);
  const auto copy = offered == offered_.end() ? copies_.end() : copies_.find(offered->second);
  if (copy == copies_.end()) return NotFound("a member of the group has no copy of the leader's dataset ", number);
  return copy->second;
}

}  // namespace gluond::server
