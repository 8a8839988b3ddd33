// OpenCalls are the calls under way of callers who have credentials. When a credential ends, or is taken from its owner, the
// owner's streams end, too: otherwise they would last as long as their client likes. Thread-safe.

#ifndef SERVER_RPC_OPEN_CALLS_H_
#define SERVER_RPC_OPEN_CALLS_H_

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "server/rpc/stream.h"

namespace gluond::server {

class OpenCalls {
 public:
  // The call is there until Remove.
  void Add(Stream* call);
  // Waits while the call is being revoked.
  void Remove(Stream* call);
  // Revokes each call that may not go on, for the reason that `may_go_on` tells. One caller at a time. `may_go_on` must not
  // call this.
  void RevokeUnless(absl::FunctionRef<absl::Status(const Stream& call)> may_go_on);

 private:
  Mutex mu_;
  CondVar revoked_;
  absl::flat_hash_set<Stream*> calls_ ABSL_GUARDED_BY(mu_);
  Stream* revoking_ ABSL_GUARDED_BY(mu_) = nullptr;  // Null: none.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_OPEN_CALLS_H_
