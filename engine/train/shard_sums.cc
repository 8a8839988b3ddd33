#include "engine/train/shard_sums.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/core/status_macros.h"
#include "engine/runtime/transfer.h"

namespace gluond {
namespace {

constexpr size_t kItemAlignment = 64;

size_t LevelsFor(int64_t count) { return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1)))); }

}  // namespace

DType ShardSums::SumType(DType type) { return IsFloating(type) && SizeOf(type) <= 4 ? DType::kFloat32 : DType::kFloat64; }

absl::StatusOr<std::vector<size_t>> ShardSums::Offsets(absl::Span<const Signature> items) {
  std::vector<size_t> offsets = {0};
  for (const Signature& item : items) {
    ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(item.shape, SizeOf(item.dtype)));
    const size_t end = offsets.back() + static_cast<size_t>(bytes);
    offsets.push_back((end + kItemAlignment - 1) / kItemAlignment * kItemAlignment);
  }
  return offsets;
}

absl::StatusOr<int64_t> ShardSums::Bytes(absl::Span<const Signature> items, int64_t count) {
  ASSIGN_OR_RETURN(const std::vector<size_t> offsets, Offsets(items));
  return static_cast<int64_t>(offsets.back() * LevelsFor(count));
}

absl::Status ShardSums::Reserve(const Needs& needs) {
  const int64_t on_host = IsOnHost() ? 0 : needs.level + needs.reducer;
  const auto all = static_cast<size_t>(needs.sums + needs.at_first + (IsOnHost() ? needs.reducer : 0));
  absl::StatusOr<std::shared_ptr<Buffer>> charged = allocator_.Charge(all);
  if (!charged.ok() && allocator_.LetGo()) charged = allocator_.Charge(all);
  RETURN_IF_ERROR(charged.status());
  if (on_host > 0) {
    ASSIGN_OR_RETURN(rest_on_host_, host_allocator_.Charge(static_cast<size_t>(on_host)));
  }
  rest_ = *std::move(charged);
  reserved_ = all - static_cast<size_t>(needs.at_first);
  reserved_on_host_ = static_cast<size_t>(on_host);
  return absl::OkStatus();
}

absl::Status ShardSums::ChargeRest() {
  const size_t allocated = levels_.size() * offsets_.back();
  if (rest_ == nullptr && reserved_ > allocated) {
    ASSIGN_OR_RETURN(rest_, allocator_.Charge(reserved_ - allocated));
  }
  if (rest_on_host_ == nullptr && reserved_on_host_ > offsets_.back()) {
    ASSIGN_OR_RETURN(rest_on_host_, host_allocator_.Charge(reserved_on_host_ - offsets_.back()));
  }
  return absl::OkStatus();
}

absl::Status ShardSums::Begin(std::vector<Signature> items, int64_t count, GradientReducer* reducer) {
  const bool same = std::equal(items.begin(), items.end(), items_.begin(), items_.end(),
                               [](const Signature& a, const Signature& b) { return a.shape == b.shape && a.dtype == b.dtype; });
  if (!same || levels_.size() != LevelsFor(count)) rest_ = nullptr;  // The memory to come is a part of it.
  if (!same) {
    ASSIGN_OR_RETURN(std::vector<size_t> offsets, Offsets(items));
    levels_.clear();
    host_ = nullptr;
    items_ = std::move(items);
    offsets_ = std::move(offsets);
    MakeBuckets();
  }
  if (levels_.size() > LevelsFor(count)) levels_.resize(LevelsFor(count));
  while (levels_.size() < LevelsFor(count)) {
    absl::StatusOr<std::shared_ptr<Buffer>> level = allocator_.Allocate(offsets_.back());
    if (!level.ok()) return Annotate(level.status(), "the sums of a step's shards");
    // Buckets have the gaps between their items.
    RETURN_IF_ERROR(lane_.driver().Zero((*level)->data(), offsets_.back(), lane_.stream()));
    levels_.push_back(*std::move(level));
  }
  if (host_ == nullptr && !IsOnHost()) {
    rest_on_host_ = nullptr;
    absl::StatusOr<std::shared_ptr<Buffer>> host = host_allocator_.Allocate(offsets_.back());
    if (!host.ok()) return Annotate(host.status(), "the host's copy of the sums of a step's shards");
    host_ = *std::move(host);
  }
  RETURN_IF_ERROR(Annotate(ChargeRest(), "what is reserved for a step's shards"));
  for (Bucket& bucket : buckets_) bucket.missing = bucket.last - bucket.first;
  count_ = count;
  reducer_ = reducer;
  next_bucket_ = 0;
  status_ = absl::OkStatus();
  context_ = lane_.NewContext(/*training=*/true);
  shard_ = 0;
  level_ = 0;
  sums_ = 0;
  is_zero_ = false;
  are_zeros_.assign(levels_.size(), false);
  if (reducer == nullptr) return absl::OkStatus();
  std::vector<GradientReducer::View> views;
  for (const Bucket& bucket : buckets_) {
    views.push_back(ViewOf(bucket));
    views.back().data = nullptr;
  }
  reducer->Begin(views);
  return absl::OkStatus();
}

GradientReducer::View ShardSums::ViewOf(const Bucket& bucket) const {
  const Signature& last = items_[bucket.last - 1];
  const size_t begin = offsets_[bucket.first];
  const size_t bytes = offsets_[bucket.last - 1] + static_cast<size_t>(last.shape.Size() * SizeOf(last.dtype)) - begin;
  const Buffer& memory = IsOnHost() ? *levels_[0] : *host_;
  return {last.dtype, static_cast<char*>(memory.data()) + begin, static_cast<int64_t>(bytes) / SizeOf(last.dtype)};
}

void ShardSums::MakeBuckets() {
  buckets_.clear();
  for (size_t i = 0; i < items_.size(); ++i) {
    const bool full = buckets_.empty() || items_[i].dtype != items_[i - 1].dtype || i + 1 == items_.size() ||
                      offsets_[i] - offsets_[buckets_.back().first] >= kBucketBytes;
    if (full) buckets_.push_back({i, i, 0});
    buckets_.back().last = i + 1;
  }
}

absl::Status ShardSums::AddUp(size_t item) {
  bool is_zero = is_zero_;
  for (size_t from = level_; from > level_ - sums_; --from) {
    const size_t to = from - 1;
    if (!is_zero) {
      lane_.LendScratch(&context_);
      OpContext* const add_in = are_zeros_[to] ? nullptr : &context_;
      RETURN_IF_ERROR(Copy(At(from, item).blob(), At(to, item).blob(), lane_.lanes(), {.add_in = add_in}));
    }
    is_zero = is_zero && are_zeros_[to];
  }
  return absl::OkStatus();
}

void ShardSums::Made(size_t item) {
  if (status_.ok()) status_ = AddUp(item);
  if (status_.ok() && shard_ + 1 >= count_) Ended(item);
}

void ShardSums::Ended(size_t item) {
  if (reducer_ == nullptr) return;
  const auto bucket =
      std::upper_bound(buckets_.begin(), buckets_.end(), item, [](size_t i, const Bucket& each) { return i < each.last; });
  --bucket->missing;
  status_ = StartBuckets();
}

absl::Status ShardSums::StartBuckets() {
  for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].missing == 0; ++next_bucket_) {
    const GradientReducer::View view = ViewOf(buckets_[next_bucket_]);
    if (!IsOnHost()) {
      const char* const sums = static_cast<char*>(levels_[0]->data()) + offsets_[buckets_[next_bucket_].first];
      const auto bytes = static_cast<size_t>(view.elements * SizeOf(view.dtype));
      RETURN_IF_ERROR(lane_.driver().CopyToHost(view.data, sums, bytes, lane_.stream()));
    }
    reducer_->Start(view);
  }
  return absl::OkStatus();
}

absl::Status ShardSums::PutPart(size_t item) {
  return IsOnHost() ? absl::OkStatus() : Copy(HostCopy(item).blob(), Part(item).blob(), lane_.lanes());
}

absl::Status ShardSums::Reduced() {
  return IsOnHost() ? absl::OkStatus()
                    : lane_.driver().CopyFromHost(levels_[0]->data(), host_->data(), offsets_.back(), lane_.stream());
}

absl::StatusOr<Tensor> ShardSums::SumOnHost(size_t item) {
  if (IsOnHost()) return Sum(item);
  if (reducer_ == nullptr) RETURN_IF_ERROR(Copy(Sum(item).blob(), HostCopy(item).blob(), lane_.lanes()));
  return HostCopy(item);
}

absl::Status ShardSums::FillWithZeros(size_t item) {
  const Tensor zeros = IsOnHost() ? Sum(item) : HostCopy(item);
  if (zeros.dtype() == DType::kFloat64) {
    std::fill_n(zeros.data<double>(), zeros.Size(), -0.0);
  } else {
    std::fill_n(zeros.data<float>(), zeros.Size(), -0.0F);
  }
  return IsOnHost() ? absl::OkStatus() : Copy(zeros.blob(), Sum(item).blob(), lane_.lanes());
}

void ShardSums::MadeZeros() {
  is_zero_ = true;
  // Nobody has had rows.
  const bool are_all = shard_ + 1 >= count_ && std::all_of(are_zeros_.begin(), are_zeros_.begin() + static_cast<int64_t>(level_),
                                                           [](bool is_zero) { return is_zero; });
  for (size_t i = 0; i < items_.size(); ++i) {
    if (are_all && status_.ok()) status_ = FillWithZeros(i);
    Made(i);
  }
}

absl::Status ShardSums::EndShard() {
  bool is_zero = is_zero_;
  for (size_t to = level_ - sums_; to < level_; ++to) is_zero = is_zero && are_zeros_[to];
  are_zeros_[level_ - sums_] = is_zero;
  is_zero_ = false;
  ++shard_;
  level_ = static_cast<size_t>(std::popcount(static_cast<uint64_t>(shard_)));
  sums_ = static_cast<size_t>(std::countr_one(static_cast<uint64_t>(shard_)));
  return status_;
}

}  // namespace gluond
