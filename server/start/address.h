// The check of addresses that may be served without TLS and identity.

#ifndef SERVER_START_ADDRESS_H_
#define SERVER_START_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

// "127.0.0.1:50051", "localhost:0", "[::1]:50051", "unix:PATH", "unix-abstract:NAME" are for this machine only.
bool IsLocal(const std::string& address);

// The value of --insecure_public: which ports other machines may reach though nothing protects them. Written as a list
// of `grpc` and `metrics`, or as true (both) and false (none).
struct InsecurePublic {
  bool grpc = false;
  bool metrics = false;
};
bool AbslParseFlag(absl::string_view text, InsecurePublic* flag, std::string* error);
std::string AbslUnparseFlag(const InsecurePublic& flag);
// The flag as it may stand alone, --insecure_public or --noinsecure_public, with the value that Abseil wants of a flag that
// is no bool; any other argument as it is.
const char* WithValue(const char* argument);

// `identified`: connections are encrypted, and callers have to say who they are.
// INVALID_ARGUMENT: it is no address. FAILED_PRECONDITION: others can reach the address, and neither `identified` nor
// `insecure_public` was given.
absl::Status CheckAddress(const std::string& address, bool identified, bool insecure_public);

// Whether a file can be at a path that the flag names: its folder is there. FAILED_PRECONDITION names both.
absl::Status CheckFolderOf(const std::string& path, absl::string_view flag);

// The same for --metrics_address, "IP:PORT" or "localhost:PORT": a token, too, makes one that others can reach acceptable.
// Returns the address with its number, "127.0.0.1:9100".
absl::StatusOr<std::string> CheckMetricsAddress(const std::string& address, bool insecure_public, bool has_token);

}  // namespace gluond::server

#endif  // SERVER_START_ADDRESS_H_
