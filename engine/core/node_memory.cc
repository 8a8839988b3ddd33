#include "engine/core/node_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace gluond {
namespace {

// A slab is a header and then room for nodes. It begins at a multiple of kSlabAlign, so that a node finds its slab.
constexpr size_t kNodeAlign = 64, kSlabAlign = size_t{1} << 12;
constexpr size_t kSlabBytes = kSlabAlign - kNodeAlign;  // The allocator's own words fit before the next slab.

struct SlabHeader {
  std::atomic<uint32_t> users{1};  // The nodes, and the thread that fills the slab.
};
static_assert(sizeof(SlabHeader) <= kNodeAlign);

void Release(SlabHeader* slab) {
  if (slab->users.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  slab->~SlabHeader();
  std::free(slab);
}

// The slab that a thread fills.
class SlabFiller {
 public:
  ~SlabFiller() { Leave(); }

  void* Take(size_t bytes) {
    bytes = (bytes + kNodeAlign - 1) / kNodeAlign * kNodeAlign;
    if (slab_ == nullptr || used_ + bytes > kSlabBytes) Begin();
    slab_->users.fetch_add(1, std::memory_order_relaxed);
    void* const taken = reinterpret_cast<char*>(slab_) + used_;
    used_ += bytes;
    return taken;
  }

 private:
  void Begin() {
    Leave();
    void* memory;
    if (posix_memalign(&memory, kSlabAlign, kSlabBytes) != 0) std::abort();  // As operator new ends a program without exceptions.
    slab_ = new (memory) SlabHeader;
    used_ = kNodeAlign;
  }
  void Leave() {
    if (slab_ != nullptr) Release(slab_);
    slab_ = nullptr;
  }

  SlabHeader* slab_ = nullptr;
  size_t used_ = 0;
};

thread_local SlabFiller slab_filler;

template <class T>
struct SlabAllocator {
  using value_type = T;

  SlabAllocator() = default;
  template <class U>
  SlabAllocator(const SlabAllocator<U>&) {}  // NOLINT: allocators of all types are one.

  T* allocate(size_t n) {
    static_assert(sizeof(T) <= kSlabBytes - kNodeAlign && alignof(T) <= kNodeAlign);
    return static_cast<T*>(slab_filler.Take(n * sizeof(T)));
  }
  void deallocate(T* node, size_t) {
    Release(reinterpret_cast<SlabHeader*>(reinterpret_cast<uintptr_t>(node) / kSlabAlign * kSlabAlign));
  }
  template <class U>
  bool operator==(const SlabAllocator<U>&) const {
    return true;
  }
};

}  // namespace

// A sanitizer sees who reads a node that has ended only where each node has memory of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(GLUOND_THREAD_SANITIZER)
NodePtr NewNode() { return std::make_shared<Node>(); }
#else
NodePtr NewNode() { return std::allocate_shared<Node>(SlabAllocator<Node>()); }
#endif

}  // namespace gluond
