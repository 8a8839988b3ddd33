#include "server/start/freed_memory.h"

#include <algorithm>

#include "gperftools/malloc_extension_c.h"

// Sanitizers have allocators of their own, without these.
#pragma weak MallocExtension_GetNumericProperty
#pragma weak MallocExtension_ReleaseToSystem

namespace gluond::server {
namespace {

// Messages and tensors come and go by the hundred kilobytes. To give their pages back at each free and to ask for them
// again would cost more than the computation: so many bytes of them may stay.
constexpr size_t kKeptBytes = 64 << 20;

}  // namespace

void FreedMemory::Sweep() {
  if (&MallocExtension_GetNumericProperty == nullptr) return;
  size_t free = 0;
  if (MallocExtension_GetNumericProperty("tcmalloc.pageheap_free_bytes", &free) == 0) return;
  std::rotate(free_.begin(), free_.begin() + 1, free_.end());
  free_.back() = free;
  const size_t least = *std::min_element(free_.begin(), free_.end());
  if (least > kKeptBytes) MallocExtension_ReleaseToSystem(least - kKeptBytes);
}

}  // namespace gluond::server
