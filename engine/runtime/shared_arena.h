// SharedArena: one piece of memory in which the steps of a program hand tensors to each other. Programs of which one
// runs at a time share the arena, which is as large as the largest program needs. A model has many programs: one for
// each batch size, for training and for inference.
//
//   ASSIGN_OR_RETURN(ArenaClaim claim, ArenaClaim::Make(arena, bytes));             // For each program.
//   ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> memory, claim.Take());           // For each of its runs.
//   claim.GiveBack(memory);
//
// Thread-safe. The memory is not at the same place in each run, and holds nothing of the run before.

#ifndef ENGINE_RUNTIME_SHARED_ARENA_H_
#define ENGINE_RUNTIME_SHARED_ARENA_H_

#include <cstddef>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/core/tensor.h"

namespace gluond {

class SharedArena {
 public:
  // The allocator outlives the arena.
  explicit SharedArena(Allocator& allocator) : allocator_(allocator) {}

  // The memory's; 0: there is none now.
  size_t bytes() const;

 private:
  friend class ArenaClaim;

  absl::Status Add(size_t bytes);
  void Remove(size_t bytes);
  absl::StatusOr<std::shared_ptr<Buffer>> Take(size_t bytes, bool keeps);
  void GiveBack(const std::shared_ptr<Buffer>& memory);
  bool Holds(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return memory_ != nullptr && memory_->bytes() >= bytes; }
  // Holds so much from here on. Others' runs do not wait for it: large memory takes long.
  absl::Status Grow(size_t bytes) ABSL_LOCKS_EXCLUDED(mu_);

  Allocator& allocator_;
  mutable Mutex mu_;
  std::multiset<size_t> wanted_ ABSL_GUARDED_BY(mu_);    // By each claim.
  std::shared_ptr<Buffer> memory_ ABSL_GUARDED_BY(mu_);  // Null: nobody has needed it since it was last dropped.
  std::shared_ptr<Buffer> taken_ ABSL_GUARDED_BY(mu_);   // By the run under way.
};

// A program's right to some bytes of an arena, until the claim goes.
class ArenaClaim {
 public:
  ArenaClaim() = default;  // To none: 0 bytes.
  // RESOURCE_EXHAUSTED: the arena would have to grow, and there is no memory.
  static absl::StatusOr<ArenaClaim> Make(std::shared_ptr<SharedArena> arena, size_t bytes);
  ArenaClaim(ArenaClaim&& other) noexcept : arena_(std::move(other.arena_)), bytes_(std::exchange(other.bytes_, 0)) {}
  ArenaClaim& operator=(ArenaClaim&& other) noexcept {
    std::swap(arena_, other.arena_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ArenaClaim() {
    if (arena_ != nullptr) arena_->Remove(bytes_);
  }

  size_t bytes() const { return bytes_; }
  // Memory of bytes() or more, which is the caller's alone until GiveBack. This is the arena's memory, or new memory
  // where another claim has the arena's. Null for 0 bytes. RESOURCE_EXHAUSTED: there is none. `keeps`: it may be held long,
  // so an arena of more than twice the bytes stays for others.
  absl::StatusOr<std::shared_ptr<Buffer>> Take(bool keeps = false) const {
    return arena_ == nullptr ? std::shared_ptr<Buffer>() : arena_->Take(bytes_, keeps);
  }
  void GiveBack(const std::shared_ptr<Buffer>& memory) const {
    if (memory != nullptr) arena_->GiveBack(memory);
  }
  // The same memory, which goes back when its last holder lets go, with or without the claim.
  std::shared_ptr<Buffer> Hold(std::shared_ptr<Buffer> memory) const {
    Buffer* const held = memory.get();
    if (held == nullptr) return nullptr;
    return std::shared_ptr<Buffer>(held, [arena = arena_, memory = std::move(memory)](Buffer*) { arena->GiveBack(memory); });
  }

 private:
  std::shared_ptr<SharedArena> arena_;
  size_t bytes_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_SHARED_ARENA_H_
