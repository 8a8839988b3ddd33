// The address at which a rank's ring listens. Nothing on a ring is encrypted, and whoever reaches one of its ports while it forms can
// end the process. So the address is one of a network that operators name, and that is private.

#ifndef SERVER_GROUP_RING_ADDRESS_H_
#define SERVER_GROUP_RING_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace gluond::server {

// Whether an address, as a number, is of this machine only or of a private network: RFC 1918, RFC 6598, RFC 4193.
bool IsPrivateAddress(const std::string& address);

// `place`: the name of a network interface ("eth1"), or an address of this machine ("10.0.0.7"). Returns the address as a number; of
// an interface an IPv4 one first. INVALID_ARGUMENT: there is no such place here. FAILED_PRECONDITION: machines outside of a private
// network might reach the address, and `insecure` is not given.
absl::StatusOr<std::string> RingAddress(const std::string& place, bool insecure);

// Whether a host, as a name or a number, is this machine. UNAVAILABLE: nothing tells, as of a name that is not known yet.
absl::StatusOr<bool> IsOwnHost(const std::string& host);

}  // namespace gluond::server

#endif  // SERVER_GROUP_RING_ADDRESS_H_
