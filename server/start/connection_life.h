// ConnectionLife: how old a connection gets, and how gRPC finds out that nobody is at its other end.

#ifndef SERVER_START_CONNECTION_LIFE_H_
#define SERVER_START_CONNECTION_LIFE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "grpcpp/server_builder.h"

namespace gluond::server {

// In seconds; 0: no limit.
struct ConnectionLife {
  int64_t age = 0;                 // A connection that is so old takes no new calls: its client makes another one.
  int64_t age_grace = 0;           // Its calls have so long after that.
  int64_t keepalive = 60;          // One that is silent for so long is asked whether its client is still there,
  int64_t keepalive_timeout = 20;  // which has so long to answer.
};

// INVALID_ARGUMENT names a flag whose value gRPC cannot count.
absl::Status CheckConnectionLife(const ConnectionLife& life);

void LimitConnections(const ConnectionLife& life, grpc::ServerBuilder* builder);

}  // namespace gluond::server

#endif  // SERVER_START_CONNECTION_LIFE_H_
