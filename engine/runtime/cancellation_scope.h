// While there is a CancellationScope, kernels and passes on its thread ask a Cancellation whether they are still wanted
// (engine/core/interruption.h).
//
//   const CancellationScope scope(cancellation.get());
//   ASSIGN_OR_RETURN(auto executor, Executor::Compile(...));   // Or CANCELLED, soon after the client has gone.

#ifndef ENGINE_RUNTIME_CANCELLATION_SCOPE_H_
#define ENGINE_RUNTIME_CANCELLATION_SCOPE_H_

#include "absl/status/status.h"
#include "engine/core/interruption.h"
#include "engine/runtime/cancellation.h"

namespace gluond {

class CancellationScope {
 public:
  // `cancellation` outlives it. Null: nobody cancels.
  explicit CancellationScope(const Cancellation* cancellation) : question_{cancellation} {}

 private:
  struct Question {
    const Cancellation* cancellation;
    absl::Status operator()() const { return cancellation == nullptr ? absl::OkStatus() : cancellation->Check(); }
  };

  const Question question_;
  const InterruptionScope scope_{question_};
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_CANCELLATION_SCOPE_H_
