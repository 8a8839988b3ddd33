// HostBlocks: large blocks of the host's memory that were freed and are soon wanted again. The kernel clears each page
// that it hands out, and for 16 MiB that takes longer than to add two such arrays. Thread-safe.
//
// A kept block is charged to nobody. The block was charged until its user gave it back. A kept block goes back to the
// kernel as soon as a budget's new charges need the room (budget.cc), so that charged and kept blocks together never
// pass a limit. A kept block that nobody has wanted for a while goes back, too.

#ifndef ENGINE_RUNTIME_HOST_BLOCKS_H_
#define ENGINE_RUNTIME_HOST_BLOCKS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/core/mutex.h"

namespace gluond {

class HostBlocks {
 public:
  using Clock = std::chrono::steady_clock;

  // Smaller blocks are malloc's business.
  static constexpr size_t kLeastBytes = 1 << 20;
  static constexpr int64_t kMostKept = 256 << 20;
  static constexpr std::chrono::seconds kIdle{2};

  // The process's, whose idle blocks a thread gives back. Never destroyed: tensors may outlive static destructors.
  static HostBlocks& OfProcess();

  explicit HostBlocks(int64_t most_kept = kMostKept) : most_kept_(most_kept) {}
  ~HostBlocks() { KeepAtMost(0); }
  HostBlocks(const HostBlocks&) = delete;
  HostBlocks& operator=(const HostBlocks&) = delete;

  // A block of `bytes`, aligned to a page, that holds whatever it held before. nullptr: the host has no more.
  // `find_pages`: the caller writes all of it at once; the kernel finds its pages now, for one thread at a time.
  void* Take(size_t bytes, bool find_pages = false);
  // Keeps a block of Take(bytes) for the next caller that wants as much. To be called before its charge is refunded.
  void GiveBack(void* block, size_t bytes);
  // Gives blocks back to the kernel, the oldest first, until no more than so many bytes are kept.
  void KeepAtMost(int64_t bytes);
  // Likewise those that were kept before `time`.
  void DropKeptBefore(Clock::time_point time);

  int64_t kept_bytes() const { return kept_bytes_.load(std::memory_order_acquire); }

 private:
  struct Block {
    void* data;
    size_t bytes;
    Clock::time_point kept;
  };

  // Blocks for the kernel, which takes its time: they go when the lock, which is declared later, is free again.
  struct Dropped {
    ~Dropped();
    std::vector<Block> blocks;
  };

  void* TakeKept(size_t bytes);
  void TakeFirst(std::vector<Block>* blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[noreturn]] void DropIdleOnes();

  const int64_t most_kept_;
  Mutex mu_;
  CondVar holds_some_;
  std::deque<Block> blocks_ ABSL_GUARDED_BY(mu_);  // The oldest first.
  std::atomic<int64_t> kept_bytes_ = 0;            // Written under mu_.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_HOST_BLOCKS_H_
