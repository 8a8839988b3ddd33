// A client's network is what one party has to itself: an address of IPv4, and of IPv6 all that begin with the same 64 bits.
// The renter of one machine gets 2^64 addresses of IPv6 with it, and is not to count as so many clients.

#ifndef SERVER_NET_NETWORK_H_
#define SERVER_NET_NETWORK_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gluond::server {

// The network of the peer that gRPC calls so: "ipv4:10.0.0.7" of "ipv4:10.0.0.7:41014", "ipv6:2001:db8:0:1::/64" of
// "ipv6:%5B2001:db8:0:1::7%5D:41014"; of another name all before its last colon.
std::string NetworkOf(absl::string_view peer);

}  // namespace gluond::server

#endif  // SERVER_NET_NETWORK_H_
