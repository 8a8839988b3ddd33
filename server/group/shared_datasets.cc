#include "server/group/shared_datasets.h"

#include <algorithm>

#include "engine/store/crc32c.h"
#include "server/hosted/hosted_dataset.h"

namespace gluond::server {
namespace {

v1::JoinResponse OfferOf(uint64_t number, const Dataset& dataset) {
  v1::JoinResponse offer;
  offer.mutable_dataset()->set_number(number);
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    v1::Column& column = *offer.mutable_dataset()->add_columns();
    Describe(dataset, dataset.columns()[i], &column);
    const Tensor& values = dataset.tensor(i);
    column.set_crc32c(Crc32c({values.data<char>(), values.bytes()}));
  }
  return offer;
}

}  // namespace

std::optional<uint64_t> SharedDatasets::Find(const std::shared_ptr<const Dataset>& dataset) const {
  for (const auto& [number, shared] : datasets_) {
    if (shared.dataset.lock() == dataset) return number;
  }
  return std::nullopt;
}

void SharedDatasets::Use(const std::shared_ptr<const Dataset>& dataset) {
  std::optional<uint64_t> number = Find(dataset);
  if (!number.has_value()) {
    number = ++last_;
    datasets_[*number].dataset = dataset;
  }
  if (!copies_.empty()) Sum(*number, datasets_.at(*number));
}

void SharedDatasets::Sum(uint64_t number, Shared& shared) {
  const std::shared_ptr<const Dataset> dataset = shared.dataset.lock();
  if (dataset == nullptr || std::exchange(shared.is_summed, true)) return;
  dispatch_.Run(Weight::kHeavy, [this, loop = loop_, number, dataset] {
    loop->Post([this, number, offer = OfferOf(number, *dataset)] {
      const auto found = datasets_.find(number);
      if (found == datasets_.end()) return;
      found->second.offer = offer;
      for (const auto& [member, copies] : copies_) Offer(member, found->second);
    });
  });
}

void SharedDatasets::Offer(Member member, const Shared& shared) const {
  if (shared.offer.has_value()) send_(member, *shared.offer, Attachments());
}

void SharedDatasets::Joined(Member member) {
  copies_[member];
  for (auto& [number, shared] : datasets_) {
    Offer(member, shared);
    Sum(number, shared);
  }
}

void SharedDatasets::Heard(Member member, const v1::JoinRequest::Fetch& fetch) {
  const auto found = datasets_.find(fetch.dataset());
  const auto copies = copies_.find(member);
  if (found == datasets_.end() || copies == copies_.end()) return;
  const std::shared_ptr<const Dataset> dataset = found->second.dataset.lock();
  if (dataset == nullptr) return;
  Copy& copy = copies->second[fetch.dataset()];
  const size_t columns = dataset->columns().size();
  while (copy.column < columns && copy.offset == dataset->tensor(copy.column).bytes()) {
    ++copy.column;
    copy.offset = 0;
  }
  if (copy.column == columns) return;  // The member has been sent all.
  const Tensor& values = dataset->tensor(copy.column);
  const size_t bytes = std::min(kPartBytes, values.bytes() - copy.offset);
  v1::JoinResponse message;
  v1::JoinResponse::DatasetPart& part = *message.mutable_dataset_part();
  part.set_dataset(fetch.dataset());
  part.set_column(static_cast<int32_t>(copy.column));
  part.mutable_chunk()->set_offset(copy.offset);
  Attachments attachments;
  using Kept = std::shared_ptr<const Dataset>;
  part.mutable_chunk()->set_data(attachments.Add(grpc::Slice(
      values.data<char>() + copy.offset, bytes, [](void* kept) { delete static_cast<Kept*>(kept); }, new Kept(dataset))));
  copy.offset += bytes;
  send_(member, message, attachments);
}

void SharedDatasets::Heard(Member member, const v1::JoinRequest::Copied& copied) {
  const auto copies = copies_.find(member);
  if (!datasets_.contains(copied.dataset()) || copies == copies_.end()) return;
  copies->second[copied.dataset()].is_there = copied.has_copy();
}

std::optional<uint64_t> SharedDatasets::NumberOf(Member member, const std::shared_ptr<const Dataset>& dataset) const {
  const auto copies = copies_.find(member);
  const std::optional<uint64_t> number = dataset == nullptr ? std::nullopt : Find(dataset);
  if (!number.has_value() || copies == copies_.end()) return std::nullopt;
  const auto copy = copies->second.find(*number);
  return copy != copies->second.end() && copy->second.is_there ? number : std::nullopt;
}

int64_t SharedDatasets::BytesOf(Member member) const {
  int64_t bytes = 0;
  const auto copies = copies_.find(member);
  if (copies == copies_.end()) return bytes;
  for (const auto& [number, copy] : copies->second) {
    const std::shared_ptr<const Dataset> dataset = datasets_.at(number).dataset.lock();
    if (copy.is_there && dataset != nullptr) bytes += dataset->bytes();
  }
  return bytes;
}

void SharedDatasets::Tick() {
  for (auto next = datasets_.begin(); next != datasets_.end();) {
    const auto shared = next++;
    if (!shared->second.dataset.expired()) continue;
    v1::JoinResponse gone;
    gone.mutable_dataset()->set_number(shared->first);
    gone.mutable_dataset()->set_is_gone(true);
    for (auto& [member, copies] : copies_) {
      if (shared->second.offer.has_value()) send_(member, gone, Attachments());
      copies.erase(shared->first);
    }
    datasets_.erase(shared);
  }
}

}  // namespace gluond::server
