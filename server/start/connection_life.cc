#include "server/start/connection_life.h"

#include <array>
#include <climits>

#include "engine/core/status_macros.h"
#include "server/start/limits.h"

namespace gluond::server {
namespace {

struct Age {
  const char* flag;
  const char* argument;  // gRPC's.
  int64_t seconds;
};

std::array<Age, 4> AgesOf(const ConnectionLife& life) {
  return {{{"--max_connection_age_seconds", GRPC_ARG_MAX_CONNECTION_AGE_MS, life.age},
           {"--max_connection_age_grace_seconds", GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, life.age_grace},
           // A client whose machine is gone does not hold its connection for ever, and a client may ask likewise.
           {"--keepalive_seconds", GRPC_ARG_KEEPALIVE_TIME_MS, life.keepalive},
           {"--keepalive_timeout_seconds", GRPC_ARG_KEEPALIVE_TIMEOUT_MS, life.keepalive_timeout}}};
}

}  // namespace

absl::Status CheckConnectionLife(const ConnectionLife& life) {
  constexpr int64_t kLongest = 24 * 24 * 3600;  // gRPC counts milliseconds in 31 bits; the largest number means "for ever".
  for (const Age& age : AgesOf(life)) RETURN_IF_ERROR(CheckInRange(age.flag, age.seconds, 0, kLongest));
  return absl::OkStatus();
}

void LimitConnections(const ConnectionLife& life, grpc::ServerBuilder* builder) {
  for (const Age& age : AgesOf(life)) {
    builder->AddChannelArgument(age.argument, age.seconds == 0 ? INT_MAX : static_cast<int>(age.seconds * 1000));
  }
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

}  // namespace gluond::server
