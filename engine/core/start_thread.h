// Starting threads in a process that may be at its limit of them (ulimit -u, a container's pids.max), where std::thread
// throws. A pool that can do with fewer tries, and goes on without; one that cannot ends the process with a sentence.
//
//   if (!TryToStart(&helper, [this] { Help(); })) return;  // Those that are there compute.
//   StartOrExit(&thread_, "the listener", [this] { Loop(); });

#ifndef ENGINE_CORE_START_THREAD_H_
#define ENGINE_CORE_START_THREAD_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

namespace gluond {

// False: the process has all threads that it may have. Requires: *thread is not joinable.
bool TryToStart(std::thread* thread, std::function<void()> body);

// For threads of a process' beginning: without one, stderr gets a line that says which, and what to do, and the process ends
// with status 1.
void StartOrExit(std::thread* thread, absl::string_view what, std::function<void()> body);
// Gives these lines another form than that of a sentence. Before the first StartOrExit.
void SetLineOfNoThread(std::string (*line)(absl::string_view why));

}  // namespace gluond

#endif  // ENGINE_CORE_START_THREAD_H_
