// The one conversion of a Status at the edge.

#ifndef SERVER_GRPC_STATUS_H_
#define SERVER_GRPC_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace gluond::server {

inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace gluond::server

#endif  // SERVER_GRPC_STATUS_H_
