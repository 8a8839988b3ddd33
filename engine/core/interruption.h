// Interruption: whether a run is still wanted, for kernels that may take long. The kernel asks between pieces of its work,
// on the thread that has called it:
//
//   for (const Panel& panel : panels) {
//     RETURN_IF_ERROR(CheckInterrupted());
//     Factorize(panel);
//   }
//
// An executor says what is asked meanwhile on this thread:
//
//   const auto check = [&] { return cancellation.Check(); };
//   const InterruptionScope scope(check);
//
// It belongs to the thread and not to OpContext, so that functions between an operator and its loop need not know of it.

#ifndef ENGINE_CORE_INTERRUPTION_H_
#define ENGINE_CORE_INTERRUPTION_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace gluond {

// OK, or why the run that this thread computes for is to end: CANCELLED or DEADLINE_EXCEEDED. Costs some nanoseconds.
absl::Status CheckInterrupted();

class InterruptionScope {
 public:
  explicit InterruptionScope(absl::FunctionRef<absl::Status()> check);
  ~InterruptionScope();
  InterruptionScope(const InterruptionScope&) = delete;
  InterruptionScope& operator=(const InterruptionScope&) = delete;

 private:
  friend absl::Status CheckInterrupted();

  const absl::FunctionRef<absl::Status()> check_;
  const InterruptionScope* const outer_;  // The scope around this one.
};

}  // namespace gluond

#endif  // ENGINE_CORE_INTERRUPTION_H_
