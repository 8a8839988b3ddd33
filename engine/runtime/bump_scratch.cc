#include "engine/runtime/bump_scratch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/core/status_macros.h"

namespace gluond {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

absl::StatusOr<void*> BumpScratch::Get(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() / 4) {
    return absl::InvalidArgumentError(absl::StrCat("cannot have ", bytes, " bytes of scratch space"));
  }
  const size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (block_ != nullptr && rounded <= block_->bytes() - mark_) {
    void* const data = static_cast<char*>(block_->data()) + mark_;
    mark_ += rounded;
    return data;
  }
  auto buffer = allocator_.Allocate(rounded);
  if (!buffer.ok()) return Annotate(buffer.status(), "scratch space of an operator");
  overflow_.push_back(*std::move(buffer));
  return overflow_.back()->data();
}

absl::Status BumpScratch::Reserve(size_t bytes) {
  Reset();
  if (block_ != nullptr && block_->bytes() >= bytes) return absl::OkStatus();
  auto block = allocator_.Allocate(bytes);
  if (!block.ok()) return Annotate(block.status(), "scratch space of operators");
  (void)driver_.Synchronize(stream_);  // As in Reset.
  block_ = *std::move(block);
  return absl::OkStatus();
}

void BumpScratch::Reset() {
  if (!overflow_.empty()) {
    const size_t used = mark_ + overflow_bytes();
    const bool keeps = used <= kMostKeptBytes || allocator_.device().type != DeviceType::kCpu;
    // Frees first, so that the new block need not fit beside the pieces. A failure is not this call's: the end of the
    // run reports the stream's own error. Without a new block the old block stays, which may be reserved.
    (void)driver_.Synchronize(stream_);
    overflow_.clear();
    if (keeps) {
      if (auto block = allocator_.Allocate(used); block.ok()) block_ = *std::move(block);
    }
  }
  mark_ = 0;
}

void BumpScratch::Release() {
  (void)driver_.Synchronize(stream_);
  overflow_.clear();
  block_.reset();
  mark_ = 0;
}

size_t BumpScratch::overflow_bytes() const {
  size_t sum = 0;
  for (const auto& buffer : overflow_) sum += buffer->bytes();
  return sum;
}

}  // namespace gluond
