// The memory that this process may use, and what it gives back.

#ifndef SERVER_START_MEMORY_H_
#define SERVER_START_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace gluond::server {

// Bytes that the machine has, or that its control group may have (a container's limit): the smaller number.
int64_t MachineMemory();

// The pages that tcmalloc keeps free. Sweep, called every second, gives the kernel those that nobody has wanted for five, but for
// some. Without tcmalloc Sweep does nothing.
class FreedMemory {
 public:
  void Sweep();

 private:
  std::array<size_t, 5> free_ = {};
};

}  // namespace gluond::server

#endif  // SERVER_START_MEMORY_H_
