// The error of whatever comes while the server stops.

#ifndef SERVER_RPC_DRAINING_H_
#define SERVER_RPC_DRAINING_H_

#include "absl/status/status.h"
#include "engine/core/error_info.h"

namespace gluond::server {

inline absl::Status Draining() {
  return WithInfo(absl::UnavailableError("the server is stopping: it ends what it has begun and takes nothing new; call "
                                         "another one, or try again when it has been started anew"),
                  reason::kDraining);
}

}  // namespace gluond::server

#endif  // SERVER_RPC_DRAINING_H_
