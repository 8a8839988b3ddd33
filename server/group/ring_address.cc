#include "server/group/ring_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <set>

#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond::server {
namespace {

// "" of what is no address of IP, and of link-local ones, which need an interface's number beside them.
std::string TextOf(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address != nullptr && address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&ip)) inet_ntop(AF_INET6, &ip, text, sizeof(text));
  }
  return text;
}

bool IsLoopback(const std::string& address) { return address == "::1" || address.rfind("127.", 0) == 0; }

}  // namespace

bool IsPrivateAddress(const std::string& address) {
  in6_addr v6;
  if (inet_pton(AF_INET6, address.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6) || (v6.s6_addr[0] & 0xfe) == 0xfc;
  in_addr v4;
  if (inet_pton(AF_INET, address.c_str(), &v4) != 1) return false;
  const uint32_t ip = ntohl(v4.s_addr);
  return ip >> 24 == 10 || ip >> 24 == 127 || ip >> 20 == 0xac1 || ip >> 16 == 0xc0a8 || ip >> 22 == 0x191;  // The last: 100.64/10.
}

absl::StatusOr<bool> IsOwnHost(const std::string& host) {
  const bool has_brackets = host.size() > 2 && host.front() == '[';
  const std::string name = has_brackets ? host.substr(1, host.size() - 2) : host;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(name.c_str(), nullptr, nullptr, &found); error != 0) {
    return Unavailable("--group: nothing tells whether '", Excerpt(name), "' is this machine (", gai_strerror(error),
                       "), so whether this server leads; say so with --group_role");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return Unavailable("--group: the system does not tell its interfaces: ", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> interfaces(all, &freeifaddrs);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const std::string text = TextOf(address->ai_addr);
    if (IsLoopback(text)) return true;  // Debian writes 127.0.1.1 for the machine's own name.
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (!text.empty() && text == TextOf(each->ifa_addr)) return true;
    }
  }
  return false;
}

absl::StatusOr<std::string> RingAddress(const std::string& place, bool insecure) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0)
    return Unavailable("--group_interface: the system does not tell its interfaces: ", std::strerror(errno));
  std::string found;
  std::set<std::string> names;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    const std::string text = TextOf(each->ifa_addr);
    if (text.empty()) continue;
    names.insert(each->ifa_name);
    const bool is_better = found.empty() || (found.find(':') != std::string::npos && each->ifa_addr->sa_family == AF_INET);
    if ((place == each->ifa_name && is_better) || place == text) found = text;
  }
  freeifaddrs(all);
  if (found.empty()) {
    return Invalid("--group_interface: '", Excerpt(place),
                   "' is neither an interface of this machine nor one of its addresses; it has ", absl::StrJoin(names, ", "));
  }
  if (insecure || IsPrivateAddress(found)) return found;
  return FailedPrecondition(
      "--group_interface: ", found, " of '", Excerpt(place),
      "' is no private address, and nothing on a ring is encrypted; name an interface of a private network, or "
      "give --group_insecure");
}

}  // namespace gluond::server
