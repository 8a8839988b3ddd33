#include "server/start/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "engine/runtime/processors.h"
#include "gperftools/malloc_extension_c.h"

// Sanitizers have allocators of their own, without these.
#pragma weak MallocExtension_GetNumericProperty
#pragma weak MallocExtension_ReleaseToSystem

namespace gluond::server {
namespace {

// Messages and tensors come and go by the hundred kilobytes. To give their pages back at each free and to ask for them
// again would cost more than the computation: so many bytes of them may stay.
constexpr size_t kKeptBytes = 64 << 20;

// The number in a file of a control group; `otherwise` where there is none ("max", or no such file).
int64_t NumberIn(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  std::string text;
  int64_t number = 0;
  return file >> text && absl::SimpleAtoi(text, &number) && number > 0 ? number : otherwise;
}

}  // namespace

int64_t MachineMemory() {
  int64_t least = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const ControlGroup& group : ControlGroups("memory")) {
    least = std::min(least, NumberIn(group.folder + (group.second_version ? "/memory.max" : "/memory.limit_in_bytes"), least));
  }
  return least;
}

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
