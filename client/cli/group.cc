// gluond group: the servers that train models together.

#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/group_table.h"
#include "client/cli/json.h"
#include "gluond/status_macros.h"

namespace gluond::cli {

absl::Status Group(const Arguments& arguments) {
  std::string leader, member;
  bool json = false;
  ServerOptions server;
  Options options("gluond group",
                  "Shows the group of servers that a server leads, or lets a member of it leave. For each process: its place; the "
                  "changes that it is behind (lag); the time since its last word; and the mean time that it has waited for others "
                  "in a step. The slowest waits least.");
  options.AddExample("gluond group");
  options.AddExample("gluond group gpu-box:50051 --json");
  options.AddExample("gluond group drain 2");
  options.AddPositional(
      "ADDRESS|drain", &leader,
      "The leader, in the place of --address; or `drain`: the MEMBER leaves between two steps, and joins again only "
      "when it is started anew.");
  options.AddPositional("MEMBER", &member, "The number of the member that is to leave.");
  AddJson(&options, &json);
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  const bool drains = leader == "drain";
  int64_t number = 0;
  if (drains && !absl::SimpleAtoi(member, &number)) {
    return options.Fail(absl::StrCat("`drain` wants the number of a MEMBER, which `gluond group` lists, and got '", member, "'"));
  }
  if (!drains && !member.empty()) {
    return options.Fail(absl::StrCat("unexpected argument '", member, "'; `drain` before it lets that member leave"));
  }
  if (!drains && !leader.empty()) server.address = leader;

  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  if (drains) {
    GLUOND_RETURN_IF_ERROR(client.DrainMember(number));
    std::cout << "member " << number << " leaves after the step under way\n";
    return absl::OkStatus();
  }
  GLUOND_ASSIGN_OR_RETURN(const client::GetGroupResponse group, client.GetGroup());
  if (json) {
    PrintJson(std::vector<client::GetGroupResponse>{group});
    return absl::OkStatus();
  }
  std::cout << GroupTable(group);
  return absl::OkStatus();
}

}  // namespace gluond::cli
