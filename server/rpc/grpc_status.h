// The one conversion of a Status at the edge.

#ifndef SERVER_RPC_GRPC_STATUS_H_
#define SERVER_RPC_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace gluond::server {

// A payload: the traceback of a client whose function failed, as its language prints it.
inline constexpr char kTraceback[] = "gluond/traceback";

// A payload: a word that a program may act on, with its value. It leads the message on the wire: "REWOUND 5: TrainStep: ...".
inline constexpr char kReason[] = "gluond/reason";
// A numbered call is ahead of a server that was started anew. The value: the last number that is left.
inline constexpr char kRewound[] = "REWOUND";
// A numbered call was applied, and its answer is gone. The value: the last number applied.
inline constexpr char kApplied[] = "APPLIED";

// A traceback follows the message, or the end of it where that is long: a status travels in a header.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace gluond::server

#endif  // SERVER_RPC_GRPC_STATUS_H_
