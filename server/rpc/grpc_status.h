// The conversions of a Status at the edge.

#ifndef SERVER_RPC_GRPC_STATUS_H_
#define SERVER_RPC_GRPC_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace gluond::server {

// A payload: the traceback of a client whose function failed, as its language prints it.
inline constexpr char kTraceback[] = "gluond/traceback";

// The status's facts (engine/core/error_info.h) are its ErrorInfo, and a traceback is its DebugInfo. Where waiting helps it
// has a RetryInfo, and a fact `field` makes a BadRequest.
google::rpc::Status ToProto(const absl::Status& status);
// The same with ToProto as its details. It travels in a header, so a long message loses its end, and a long traceback its
// beginning.
grpc::Status ToGrpc(const absl::Status& status);
// The reason of its ErrorInfo; empty: it has none.
std::string ReasonOf(const google::rpc::Status& proto);
// The flag of the limit that refused something, "--max_models"; empty: none did.
std::string LimitOf(const google::rpc::Status& proto);

}  // namespace gluond::server

#endif  // SERVER_RPC_GRPC_STATUS_H_
