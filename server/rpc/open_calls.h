// OpenCalls are the calls under way. When a credential ends, or is taken from its owner, the owner's streams end, too: otherwise
// they would last as long as their client likes. A client that reads too slowly, or not at all, loses the call, so that the
// memory of what it is sent comes back. Thread-safe.

#ifndef SERVER_RPC_OPEN_CALLS_H_
#define SERVER_RPC_OPEN_CALLS_H_

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/core/mutex.h"

namespace gluond::server {

class Stream;

class OpenCalls {
 public:
  // The call is there until Remove.
  void Add(Stream* call);
  // Waits while the call is being revoked, or cancelled.
  void Remove(Stream* call);
  // Revokes each call that may not go on, for the reason that `may_go_on` tells. One caller at a time. `may_go_on` must not
  // call this.
  void RevokeUnless(absl::FunctionRef<absl::Status(const Stream& call)> may_go_on);
  // Cancels the calls whose clients have not taken in time what was sent to them.
  void CancelLate();

 private:
  Mutex mu_;
  CondVar revoked_;
  absl::flat_hash_set<Stream*> calls_ ABSL_GUARDED_BY(mu_);
  Stream* revoking_ ABSL_GUARDED_BY(mu_) = nullptr;  // Null: none.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_OPEN_CALLS_H_
