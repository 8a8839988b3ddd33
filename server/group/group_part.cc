#include "server/group/group_part.h"

#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/compile/pass_set.h"
#include "engine/core/status_macros.h"
#include "server/codec/describe_operator.h"
#include "server/custom/hosts.h"
#include "server/group/gloo_plugin.h"
#include "server/group/ring_address.h"
#include "server/rpc/log.h"
#include "server/start/address.h"
#include "server/start/cpu_check.h"
#include "server/start/protocol.h"

namespace gluond::server {
namespace {

// All that decides about the bits of a step.
std::string Fingerprint(const GroupOptions& options) {
  return absl::StrCat(absl::StripAsciiWhitespace(Release()), ", operators ", RegistryHash(), ", passes ",
                      LeftOutPasses().ToString(), ", instructions ", Instructions(),
                      options.libraries.empty() ? "" : ", libraries ", options.libraries);
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return absl::StrCat(name, ":", getpid());
}

// The port of "HOST:PORT"; -1: there is none. A leader's that is 0 is any.
int PortOf(const std::string& address) {
  int port = -1;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) return -1;
  return port;
}
std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// A name that is not known yet, as after a start of the whole machine, has this time to be known.
constexpr std::chrono::seconds kLongestWaitForName{30};

absl::StatusOr<bool> Leads(const GroupOptions& options, const std::string& own_address) {
  if (options.role != GroupRole::kByAddress) return options.role == GroupRole::kLeader;
  if (PortOf(options.address) != PortOf(own_address)) return false;
  const auto until = std::chrono::steady_clock::now() + kLongestWaitForName;
  while (true) {
    absl::StatusOr<bool> is_own = IsOwnHost(HostOf(options.address));
    if (is_own.ok() || std::chrono::steady_clock::now() > until) return is_own;
    LogEvent("group_waits_for_name", LogLevel::kWarning, is_own.status().message());
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

// A leader of one process alone has no ring.
absl::StatusOr<RingPlace> RingPlaceOf(const GroupOptions& options, bool leads) {
  RingPlace place;
  if (leads && options.max == 1) return place;
  if (options.interface.empty() && !IsLocal(options.address)) {
    return Invalid("--group=", options.address, ": members of other machines need a network for their ring; name one of a private ",
                   "network with --group_interface");
  }
  ASSIGN_OR_RETURN(place.address, RingAddress(options.interface.empty() ? "127.0.0.1" : options.interface, options.insecure));
  ASSIGN_OR_RETURN(place.transports, LoadGloo(options.gloo_plugin));
  return place;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GroupPart>> TakePart(const GroupOptions& options, const std::string& own_address, bool has_tls,
                                                    Runner& runner, Devices& devices, Models& models) {
  auto part = std::make_unique<GroupPart>();
  part->streams = std::make_unique<SharedStreams<JoinStream>>("members of a group", GroupLeader::kMost, "--group_size");
  if (options.address.empty()) return part;
  if (PortOf(options.address) < 0) return Invalid("--group is '", options.address, "'; want HOST:PORT, with a port up to 65535");
  ASSIGN_OR_RETURN(const bool leads, Leads(options, own_address));
  const GroupLeader::Options sizes = {.min = options.min,
                                      .max = options.max,
                                      .allow_solo = options.allow_solo,
                                      .fingerprint = Fingerprint(options),
                                      .timeout = options.timeout};
  RETURN_IF_ERROR(GroupLeader::Create(sizes).status());
  ASSIGN_OR_RETURN(RingPlace place, RingPlaceOf(options, leads));
  if (leads) {
    ASSIGN_OR_RETURN(part->leads, Group::Create(runner, models,
                                                {.leader = sizes,
                                                 .ring = std::move(place),
                                                 .name = HostName(),
                                                 .only_local = !has_tls,
                                                 .hosts = std::dynamic_pointer_cast<CustomHosts>(devices.custom_host())}));
    models.SetLeastShards(part->leads->least_shards());
    return part;
  }
  if (options.authority.empty() && !IsLocal(options.address)) {
    return FailedPrecondition("--group=", options.address,
                              ": without encryption a member joins a leader of its own machine alone; ",
                              "name the authority of the leader's certificate with --group_ca");
  }
  Membership::Options join{.leader = options.address,
                           .authority_file = options.authority,
                           .token_file = options.token_file,
                           .name = HostName(),
                           .fingerprint = sizes.fingerprint,
                           .timeout = options.timeout,
                           .ring = std::move(place)};
  part->joins = Membership::Start(runner, devices, std::move(join));
  return part;
}

}  // namespace gluond::server
