// A trial of work that may crash, hang or end its process: a child process does it first.

#ifndef SERVER_START_CHILD_TRIAL_H_
#define SERVER_START_CHILD_TRIAL_H_

#include <chrono>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace gluond::server {

// The status of the work, which loads something, in a fork of this process; there what it prints is kept, and what it changes is
// lost. FAILED_PRECONDITION: its error's text, or that the child has crashed, has ended, or was not done within the time, with the
// first words that it printed. To be called while no other thread of this process may hold a lock.
absl::Status TryInChild(absl::FunctionRef<absl::Status()> work, std::chrono::milliseconds time);

}  // namespace gluond::server

#endif  // SERVER_START_CHILD_TRIAL_H_
