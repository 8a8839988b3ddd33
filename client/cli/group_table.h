// A group of servers (GetGroup of docs/wire.md), as a text.

#ifndef GLUOND_CLIENT_CLI_GROUP_TABLE_H_
#define GLUOND_CLIENT_CLI_GROUP_TABLE_H_

#include <string>

#include "gluond/types.h"

namespace gluond::cli {

// Lines on the whole group, then a line for each process. Where one rank has waited less for others than any other rank, they
// have waited for it: it is marked as the slowest.
std::string GroupTable(const client::GetGroupResponse& group);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_GROUP_TABLE_H_
