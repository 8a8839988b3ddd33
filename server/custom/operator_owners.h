// OperatorOwners are the identities that own the shared operators of a graph, by op_type. The owners of the operators of a
// published version are settled when the version is published, and nobody else is shown the version's values afterwards. A
// client may have no name of its own, as all clients on a server that knows no identities. Its operators have no owner:
// whoever shares one computes it.

#ifndef SERVER_CUSTOM_OPERATOR_OWNERS_H_
#define SERVER_CUSTOM_OPERATOR_OWNERS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/custom_host.h"
#include "engine/core/graph.h"

namespace gluond::server {

using OperatorOwners = std::map<std::string, std::string>;

// The owners of the shared operators that the outputs need, among those that `tenant`'s clients share now. `hosts`: the
// host of the server; where that is no CustomHosts there are no owners. UNAVAILABLE: nobody shares one of them.
absl::StatusOr<OperatorOwners> OwnersOf(const std::vector<NodeEntry>& outputs, const std::string& tenant,
                                        const CustomHostPtr& hosts);

// Keeps the names for these owners, as before a restart.
void Keep(const OperatorOwners& owners, const std::string& tenant, const CustomHostPtr& hosts);

// The server's `hosts` as the graphs of one tenant, "acme/", or of one published version, see it. The scopes in these graphs
// are the tenant's. An operator without a scope is one that the tenant's clients share; where its owner is known, only the
// owner computes it.
CustomHostPtr HostsOf(const CustomHostPtr& hosts, const std::string& tenant, OperatorOwners owners = {});

// The same graph, whose shared operators `host` has computed from now on. Errors are those of the operators' attributes.
absl::StatusOr<std::vector<NodeEntry>> ComputedBy(const CustomHostPtr& host, const std::vector<NodeEntry>& outputs);

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_OPERATOR_OWNERS_H_
