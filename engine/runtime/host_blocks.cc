#include "engine/runtime/host_blocks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "engine/core/start_thread.h"
#include "engine/runtime/fair_semaphore.h"

namespace gluond {
namespace {

// A block as large as this gets huge pages where the kernel has some: one fault where there were 512.
constexpr size_t kHuge = 2 << 20;

size_t PageBytes() {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return page;
}

size_t InPages(size_t bytes) { return (bytes + PageBytes() - 1) / PageBytes() * PageBytes(); }

// FindPages has the kernel find memory for the block now. One processor at most does so at a time, in pieces that
// threads take in turns. On a virtual machine whose host has to find the memory, too, this takes up to thirty times as
// long as clearing the memory. The processor does nothing else meanwhile. Clients that fill memory on all processors
// would stop everybody's work.
void FindPages(char* data, size_t bytes) {
  static FairSemaphore& semaphore = *new FairSemaphore(1);
  for (size_t begin = 0; begin < bytes; begin += kHuge) {
    semaphore.Do([&] {
      for (size_t i = begin; i < std::min(bytes, begin + kHuge); i += PageBytes()) {
        *const_cast<volatile char*>(data + i) = 0;
      }
    });
  }
}

void* FromKernel(size_t bytes, bool find_pages) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (bytes >= kHuge) (void)madvise(data, bytes, MADV_HUGEPAGE);  // Small pages do as well.
  if (find_pages) FindPages(static_cast<char*>(data), bytes);
  return data;
}

}  // namespace

HostBlocks& HostBlocks::OfProcess() {
  static HostBlocks& blocks = *[] {
    auto* const made = new HostBlocks;
    // Without it, idle blocks go when others are wanted.
    if (std::thread drops; TryToStart(&drops, [made] { made->DropIdleOnes(); })) drops.detach();
    return made;
  }();
  return blocks;
}

void* HostBlocks::Take(size_t bytes, bool find_pages) {
  if (bytes > std::numeric_limits<size_t>::max() / 2) return nullptr;
  const size_t size = InPages(bytes);
  if (void* const kept = TakeKept(size); kept != nullptr) return kept;
  if (void* const fresh = FromKernel(size, find_pages); fresh != nullptr) return fresh;
  KeepAtMost(0);
  return FromKernel(size, find_pages);
}

// The one that was used last: it may still be in the processor's cache.
void* HostBlocks::TakeKept(size_t bytes) {
  MutexLock lock(mu_);
  const auto newest = std::find_if(blocks_.rbegin(), blocks_.rend(), [=](const Block& b) { return b.bytes == bytes; });
  if (newest == blocks_.rend()) return nullptr;
  void* const data = newest->data;
  kept_bytes_ -= static_cast<int64_t>(bytes);
  blocks_.erase(std::next(newest).base());
  return data;
}

void HostBlocks::GiveBack(void* block, size_t bytes) {
  const size_t size = InPages(bytes);
  Dropped dropped;
  MutexLock lock(mu_);
  blocks_.push_back({block, size, Clock::now()});
  kept_bytes_ += static_cast<int64_t>(size);
  while (kept_bytes_ > most_kept_) TakeFirst(&dropped.blocks);
  if (blocks_.size() == 1) holds_some_.NotifyOne();
}

void HostBlocks::KeepAtMost(int64_t bytes) {
  Dropped dropped;
  MutexLock lock(mu_);
  while (!blocks_.empty() && kept_bytes_ > bytes) TakeFirst(&dropped.blocks);
}

void HostBlocks::DropKeptBefore(Clock::time_point time) {
  Dropped dropped;
  MutexLock lock(mu_);
  while (!blocks_.empty() && blocks_.front().kept < time) TakeFirst(&dropped.blocks);
}

void HostBlocks::TakeFirst(std::vector<Block>* blocks) {
  kept_bytes_ -= static_cast<int64_t>(blocks_.front().bytes);
  blocks->push_back(blocks_.front());
  blocks_.pop_front();
}

HostBlocks::Dropped::~Dropped() {
  for (const Block& block : blocks) munmap(block.data, block.bytes);
}

void HostBlocks::DropIdleOnes() {
  while (true) {
    {
      MutexLock lock(mu_);
      while (blocks_.empty()) holds_some_.Wait(mu_);
    }
    std::this_thread::sleep_for(kIdle / 2);
    DropKeptBefore(Clock::now() - kIdle);
  }
}

}  // namespace gluond
