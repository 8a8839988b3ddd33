#include "server/group/group_part.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/compile/pass_set.h"
#include "engine/core/status_macros.h"
#include "server/codec/describe_operator.h"
#include "server/custom/hosts.h"
#include "server/group/gloo_plugin.h"
#include "server/group/ring_address.h"
#include "server/start/address.h"
#include "server/start/cpu_check.h"
#include "server/start/protocol.h"

namespace gluond::server {
namespace {

// All that decides about the bits of a step.
std::string Fingerprint() {
  return absl::StrCat(absl::StripAsciiWhitespace(Release()), ", operators ", RegistryHash(), ", passes ",
                      LeftOutPasses().ToString(), ", instructions ", Instructions());
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return absl::StrCat(name, ":", getpid());
}

// The port of "HOST:PORT".
std::string PortOf(const std::string& address) { return address.substr(address.rfind(':') + 1); }
std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

absl::StatusOr<bool> Leads(const GroupOptions& options, const std::string& own_address) {
  if (options.role != GroupRole::kByAddress) return options.role == GroupRole::kLeader;
  if (PortOf(options.address) != PortOf(own_address)) return false;
  return IsOwnHost(HostOf(options.address));
}

absl::StatusOr<GroupRank::RingPlace> RingPlaceOf(const GroupOptions& options) {
  GroupRank::RingPlace place;
  if (options.max == 1) return place;
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
  if (options.address.rfind(':') == std::string::npos) return Invalid("--group is '", options.address, "'; want HOST:PORT");
  ASSIGN_OR_RETURN(const bool leads, Leads(options, own_address));
  const GroupLeader::Options sizes = {.min = options.min,
                                      .max = options.max,
                                      .allow_solo = options.allow_solo,
                                      .fingerprint = Fingerprint(),
                                      .timeout = options.timeout};
  RETURN_IF_ERROR(GroupLeader::Create(sizes).status());
  ASSIGN_OR_RETURN(GroupRank::RingPlace place, RingPlaceOf(options));
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
