// The check of addresses that may be served without TLS.

#ifndef SERVER_START_ADDRESS_H_
#define SERVER_START_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gluond::server {

// "127.0.0.1:50051", "localhost:0", "[::1]:50051", "unix:PATH" are for this machine only.
bool IsLocal(const std::string& address);

// INVALID_ARGUMENT: it is no address. FAILED_PRECONDITION: others can reach the address, and `insecure_public` was not given.
absl::Status CheckAddress(const std::string& address, bool insecure_public);

// The same for --metrics_address, "IP:PORT" or "localhost:PORT": a token, too, makes one that others can reach acceptable.
// Returns the address with its number, "127.0.0.1:9100".
absl::StatusOr<std::string> CheckMetricsAddress(const std::string& address, bool insecure_public, bool has_token);

}  // namespace gluond::server

#endif  // SERVER_START_ADDRESS_H_
