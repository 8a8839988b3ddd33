#include "server/net/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gluond::server {
namespace {

constexpr absl::string_view kOpens = "ipv6:%5B", kCloses = "%5D";
constexpr size_t kPrefixBytes = 8;

}  // namespace

std::string NetworkOf(absl::string_view peer) {
  const absl::string_view without_port = peer.substr(0, peer.rfind(':'));
  absl::string_view address = without_port;
  in6_addr bits{};
  if (!absl::ConsumePrefix(&address, kOpens) || !absl::ConsumeSuffix(&address, kCloses)) return std::string(without_port);
  // A link's address may have its interface behind it.
  if (inet_pton(AF_INET6, std::string(address.substr(0, address.find('%'))).c_str(), &bits) != 1) return std::string(without_port);
  std::memset(bits.s6_addr + kPrefixBytes, 0, sizeof(bits.s6_addr) - kPrefixBytes);
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, &bits, text, sizeof(text));
  return absl::StrCat("ipv6:", text, "/64");
}

}  // namespace gluond::server
