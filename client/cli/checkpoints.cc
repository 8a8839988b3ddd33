// gluond checkpoints: lists the checkpoints in the server's store.

#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "client/cpp/status_macros.h"

namespace gluond::cli {

absl::Status Checkpoints(const Arguments& arguments) {
  std::string name;
  bool erase = false, json = false;
  ServerOptions server;
  Options options("gluond checkpoints",
                  "Lists the checkpoints in a server's store, or deletes one.");
  options.AddExample("gluond checkpoints");
  options.AddExample("gluond checkpoints lenet --delete");
  options.AddPositional("NAME", &name, "The checkpoint to delete.");
  options.Add("delete", &erase, "Deletes the checkpoint NAME.");
  AddJson(&options, &json);
  server.AddTo(&options);
  CLIENT_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  if (erase == name.empty()) {
    return options.Fail("--delete and the NAME of a checkpoint belong together");
  }

  CLIENT_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  if (erase) {
    CLIENT_RETURN_IF_ERROR(client.DeleteCheckpoint(name));
    std::cout << "deleted checkpoint " << name << "\n";
    return absl::OkStatus();
  }
  CLIENT_ASSIGN_OR_RETURN(const auto checkpoints, client.ListCheckpoints());
  if (json) return PrintJson(checkpoints);
  Table rows = {{"checkpoint", "step", "size", "saved"}};
  for (const v1::Checkpoint& checkpoint : checkpoints) {
    if (!checkpoint.damage().empty()) {
      rows.push_back({checkpoint.name(), "", "", absl::StrCat("damaged: ", checkpoint.damage())});
      continue;
    }
    const absl::Time saved = absl::FromUnixSeconds(checkpoint.created().seconds());
    rows.push_back({checkpoint.name(), absl::StrCat(checkpoint.step()), Bytes(checkpoint.bytes()),
                    absl::FormatTime("%Y-%m-%d %H:%M:%S", saved, absl::LocalTimeZone())});
  }
  std::cout << (checkpoints.empty() ? "no checkpoints; `gluond train` saves one\n" : Aligned(rows));
  return absl::OkStatus();
}

}  // namespace gluond::cli
