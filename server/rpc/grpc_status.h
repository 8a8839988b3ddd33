// The one conversion of a Status at the edge.

#ifndef SERVER_RPC_GRPC_STATUS_H_
#define SERVER_RPC_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace gluond::server {

// A payload: the traceback of a client whose function failed, as its language prints it.
inline constexpr char kTraceback[] = "gluond/traceback";

// A traceback follows the message, or the end of it where that is long: a status travels in a header.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace gluond::server

#endif  // SERVER_RPC_GRPC_STATUS_H_
