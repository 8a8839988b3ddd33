// Processors: how much of the machine this process may use at this moment.
//
//   Processors processors;
//   const ProcessorShare share = processors.Read();
//
// The kernel's answers change while a process runs. A person moves the affinity mask, a cluster the quota of the
// control group (version 1 or 2), or the quota of any group above that.

#ifndef ENGINE_RUNTIME_PROCESSORS_H_
#define ENGINE_RUNTIME_PROCESSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gluond {

struct ProcessorShare {
  int count = 1;          // The mask's processors, but no more than the quota keeps busy, rounded up.
  int64_t throttled = 0;  // Periods that ended early so far because a quota was used up.
};

// A control group that may have a limit.
struct ControlGroup {
  std::string folder;
  bool second_version;
};
// The groups of this process that limit "cpu" or "memory", and the groups above them. `root`: where the kernel's file systems are.
std::vector<ControlGroup> ControlGroups(absl::string_view controller, const std::string& root = "");

// Not thread-safe.
class Processors {
 public:
  // `root`: as of ControlGroups, for tests.
  explicit Processors(const std::string& root = "") : groups_(ControlGroups("cpu", root)) {}
  ProcessorShare Read() const;

 private:
  const std::vector<ControlGroup> groups_;
};

// The length of the calling thread's turns on a processor, from Linux 6.12 on: the kernel lets a thread begin within the turn
// of one whose turns are longer. Its part of the time stays the same. Older kernels change nothing.
void TakeShortTurns();  // 0.1 ms, the shortest that there are.
void TakeUsualTurns();  // The calling thread gets turns of the kernel's default length. A new thread has its maker's.

}  // namespace gluond

#endif  // ENGINE_RUNTIME_PROCESSORS_H_
