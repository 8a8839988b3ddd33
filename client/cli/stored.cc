// gluond checkpoints, datasets, sessions: lists what a server keeps besides models, and deletes one of it.

#include <iostream>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

using client::Client;

// A kind of thing that a server keeps under names.
template <class Item>
struct Kept {
  const char* command;  // "checkpoints".
  const char* one;      // "checkpoint".
  const char* none;     // Said where there are none.
  absl::StatusOr<std::vector<Item>> (Client::*list)() const;
  absl::Status (Client::*erase)(const std::string&) const;  // Null: the command deletes none.
  std::vector<std::string> columns;
  std::vector<std::string> (*row)(const Item&);
};

std::string When(std::optional<absl::Time> time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time.value_or(absl::UnixEpoch()), absl::LocalTimeZone());
}

template <class Item>
absl::Status Run(const Kept<Item>& kept, const Arguments& arguments) {
  std::string name;
  bool erase = false, json = false;
  ServerOptions server;
  const bool deletes = kept.erase != nullptr;
  Options options(absl::StrCat("gluond ", kept.command),
                  absl::StrCat("Lists the ", kept.command, " of a server", deletes ? ", or deletes one." : "."));
  options.AddExample(absl::StrCat("gluond ", kept.command));
  if (deletes) {
    options.AddExample(absl::StrCat("gluond ", kept.command, " lenet --delete"));
    options.AddPositional("NAME", &name, absl::StrCat("The ", kept.one, " to delete."));
    options.Add("delete", &erase, absl::StrCat("Deletes the ", kept.one, " NAME."));
  }
  AddJson(&options, &json);
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  if (erase == name.empty()) {
    return options.Fail(absl::StrCat("--delete and the NAME of a ", kept.one, " belong together"));
  }

  GLUOND_ASSIGN_OR_RETURN(const Client client, server.Connect());
  if (erase) {
    GLUOND_RETURN_IF_ERROR((client.*kept.erase)(name));
    std::cout << "deleted " << kept.one << " " << name << "\n";
    return absl::OkStatus();
  }
  GLUOND_ASSIGN_OR_RETURN(const std::vector<Item> items, (client.*kept.list)());
  if (json) {
    PrintJson(items);
    return absl::OkStatus();
  }
  Table rows = {kept.columns};
  for (const Item& item : items) rows.push_back(kept.row(item));
  std::cout << (items.empty() ? absl::StrCat(kept.none, "\n") : Aligned(rows));
  return absl::OkStatus();
}

std::vector<std::string> CheckpointRow(const client::Checkpoint& checkpoint) {
  if (!checkpoint.damage.empty()) return {checkpoint.name, "", "", absl::StrCat("damaged: ", checkpoint.damage)};
  return {checkpoint.name, absl::StrCat(checkpoint.step), Bytes(checkpoint.bytes), When(checkpoint.created)};
}

std::vector<std::string> DatasetRow(const client::Dataset& dataset) {
  const std::string columns = absl::StrJoin(dataset.columns, " ", [](std::string* out, const client::Column& column) {
    absl::StrAppend(out, column.name, "(", absl::StrJoin(column.shape, ","), ")");
  });
  return {dataset.name, absl::StrCat(dataset.rows), Bytes(dataset.bytes),
          !dataset.committed ? "being uploaded"
          : dataset.stored   ? "stored"
                             : "in memory",
          columns};
}

std::vector<std::string> SessionRow(const client::SavedSession& session) {
  return {session.name,          absl::StrCat(session.num_arrays),
          Bytes(session.bytes),  session.stored ? "stored" : "in memory",
          When(session.created), session.client_id};
}

}  // namespace

absl::Status Checkpoints(const Arguments& arguments) {
  static const auto& kept = *new Kept<client::Checkpoint>{"checkpoints",
                                                          "checkpoint",
                                                          "no checkpoints; `gluond train` saves one",
                                                          &Client::ListCheckpoints,
                                                          &Client::DeleteCheckpoint,
                                                          {"checkpoint", "step", "size", "saved"},
                                                          CheckpointRow};
  return Run(kept, arguments);
}

absl::Status Datasets(const Arguments& arguments) {
  static const auto& kept = *new Kept<client::Dataset>{"datasets",
                                                       "dataset",
                                                       "no datasets; `gluond train` uploads one, and so does mx.remote.Dataset",
                                                       &Client::ListDatasets,
                                                       &Client::DeleteDataset,
                                                       {"dataset", "rows", "size", "kept", "columns"},
                                                       DatasetRow};
  return Run(kept, arguments);
}

absl::Status Sessions(const Arguments& arguments) {
  // A session's key, without which none deletes it, stays with the program that saved it.
  static const auto& kept = *new Kept<client::SavedSession>{"sessions",
                                                            "session",
                                                            "no saved sessions; mx.save_session(NAME) saves one",
                                                            &Client::ListSavedSessions,
                                                            nullptr,
                                                            {"session", "arrays", "size", "kept", "saved", "by"},
                                                            SessionRow};
  return Run(kept, arguments);
}

}  // namespace gluond::cli
