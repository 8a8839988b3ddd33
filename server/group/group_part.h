// GroupPart: a server's part in its group, if any: it leads the group, or it is a member.

#ifndef SERVER_GROUP_GROUP_PART_H_
#define SERVER_GROUP_GROUP_PART_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/group/group.h"
#include "server/group/group_options.h"
#include "server/group/join_stream.h"
#include "server/group/membership.h"

namespace gluond::server {

struct GroupPart {
  std::unique_ptr<Group> leads;       // Null: the server leads none.
  std::unique_ptr<Membership> joins;  // Null: the server is no member.
  // The members' Joins. They end after the group.
  std::unique_ptr<SharedStreams<JoinStream>> streams;
};
// `own_address`: the server's, and `has_tls` whether it encrypts. The others outlive the part. INVALID_ARGUMENT,
// FAILED_PRECONDITION, UNAVAILABLE: an option, which the error names.
absl::StatusOr<std::unique_ptr<GroupPart>> TakePart(const GroupOptions& options, const std::string& own_address, bool has_tls,
                                                    Runner& runner, Devices& devices, Models& models);

}  // namespace gluond::server

#endif  // SERVER_GROUP_GROUP_PART_H_
