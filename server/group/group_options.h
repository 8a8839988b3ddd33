// GroupOptions: a server's part in a group, as its flags say it.

#ifndef SERVER_GROUP_GROUP_OPTIONS_H_
#define SERVER_GROUP_GROUP_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

enum class GroupRole : uint8_t {
  kByAddress,  // Leads where the group's address is one of this machine, and has the server's port.
  kLeader,
  kMember,
};

struct GroupOptions {
  std::string address;  // The leader's, HOST:PORT. Empty: there is no group.
  GroupRole role = GroupRole::kByAddress;
  int64_t min = 1, max = 1;  // Processes.
  bool allow_solo = false;
  std::string interface = {};  // The ring's; empty: the loopback, with a leader of this machine.
  bool insecure = false;       // The ring may lie in a public network.
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  std::string gloo_plugin = {};
  std::string token_file = {}, authority = {};  // A member's. Empty: no token, no encryption.
  std::string libraries = {};                   // The digests of the libraries of operators, which decide about bits, too.
};

// "2:4", or "4" for "4:4". INVALID_ARGUMENT: it is none.
absl::Status ParseGroupSize(absl::string_view text, GroupOptions* options);

}  // namespace gluond::server

#endif  // SERVER_GROUP_GROUP_OPTIONS_H_
