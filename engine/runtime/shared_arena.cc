#include "engine/runtime/shared_arena.h"

#include "engine/core/status_macros.h"

namespace gluond {

size_t SharedArena::bytes() const {
  MutexLock lock(mu_);
  return memory_ == nullptr ? 0 : memory_->bytes();
}

// The old memory goes first only where there is no room for both. A run that has it keeps it to its end.
absl::Status SharedArena::Grow(size_t bytes) {
  absl::StatusOr<std::shared_ptr<Buffer>> memory = allocator_.Allocate(bytes);
  if (absl::IsResourceExhausted(memory.status())) {
    {
      MutexLock lock(mu_);
      memory_ = nullptr;
    }
    memory = allocator_.Allocate(bytes);
  }
  RETURN_IF_ERROR(memory.status());
  MutexLock lock(mu_);
  if (!Holds(bytes)) std::swap(memory_, *memory);  // The old memory goes after the lock.
  return absl::OkStatus();
}

absl::Status SharedArena::Add(size_t bytes) {
  {
    MutexLock lock(mu_);
    wanted_.insert(bytes);
    if (Holds(bytes)) return absl::OkStatus();
  }
  const absl::Status grown = Grow(bytes);
  if (!grown.ok()) Remove(bytes);
  return grown;
}

void SharedArena::Remove(size_t bytes) {
  MutexLock lock(mu_);
  wanted_.erase(wanted_.find(bytes));
  const size_t most = wanted_.empty() ? 0 : *wanted_.rbegin();
  if (memory_ != nullptr && most <= memory_->bytes() / 2) memory_ = nullptr;  // The next run takes what is needed.
}

absl::StatusOr<std::shared_ptr<Buffer>> SharedArena::Take(size_t bytes, bool keeps) {
  while (true) {
    size_t most = 0;
    {
      MutexLock lock(mu_);
      most = *wanted_.rbegin();
      if (taken_ != nullptr || (keeps && most / 2 > bytes)) break;
      if (Holds(bytes)) return taken_ = memory_;
    }
    if (!Grow(most).ok()) RETURN_IF_ERROR(Grow(bytes));
  }
  return allocator_.Allocate(bytes);
}

void SharedArena::GiveBack(const std::shared_ptr<Buffer>& memory) {
  MutexLock lock(mu_);
  if (taken_ == memory) taken_ = nullptr;
}

absl::StatusOr<ArenaClaim> ArenaClaim::Make(std::shared_ptr<SharedArena> arena, size_t bytes) {
  RETURN_IF_ERROR(arena->Add(bytes));
  ArenaClaim claim;
  claim.arena_ = std::move(arena);
  claim.bytes_ = bytes;
  return claim;
}

}  // namespace gluond
