// FreedMemory gives the kernel memory that nobody uses.

#ifndef SERVER_START_FREED_MEMORY_H_
#define SERVER_START_FREED_MEMORY_H_

#include <array>
#include <cstddef>

namespace gluond::server {

// The pages that tcmalloc keeps free. Sweep, called every second, gives the kernel those that nobody has wanted for five, but for
// some. Without tcmalloc Sweep does nothing.
class FreedMemory {
 public:
  void Sweep();

 private:
  std::array<size_t, 5> free_ = {};
};

}  // namespace gluond::server

#endif  // SERVER_START_FREED_MEMORY_H_
