// StoreClaim: a store's folder is one server's at a time. Two servers would each save their own models over the other's.
//
//   ASSIGN_OR_RETURN(const StoreClaim claim, ClaimStore("/var/lib/gluond"));
//
// The claim is a lock of the folder itself, which the kernel gives back when its process is gone, however that ended.

#ifndef SERVER_START_STORE_CLAIM_H_
#define SERVER_START_STORE_CLAIM_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace gluond::server {

// The folder is claimed as long as this is there.
using StoreClaim = std::shared_ptr<void>;
// Waits a moment for a process that is just being ended. FAILED_PRECONDITION: another server has the folder, or it is none.
absl::StatusOr<StoreClaim> ClaimStore(const std::string& folder);

}  // namespace gluond::server

#endif  // SERVER_START_STORE_CLAIM_H_
