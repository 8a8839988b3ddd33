// The memory that this process may use.

#ifndef SERVER_START_MACHINE_MEMORY_H_
#define SERVER_START_MACHINE_MEMORY_H_

#include <cstdint>

namespace gluond::server {

// Bytes that the machine has, or that its control group may have (a container's limit): the smaller number.
int64_t MachineMemory();

}  // namespace gluond::server

#endif  // SERVER_START_MACHINE_MEMORY_H_
