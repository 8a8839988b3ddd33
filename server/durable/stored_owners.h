// StoredOwners keeps the owners of things (identity/owners.h) in the store: all of them are one text, which is written on the
// disk's threads after changes, several of them together. A crash between a thing's making and that leaves the thing without an
// owner, as a store without this text does, and so to the admin.

#ifndef SERVER_DURABLE_STORED_OWNERS_H_
#define SERVER_DURABLE_STORED_OWNERS_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/store/checkpoint.h"
#include "engine/store/json.h"
#include "engine/store/manifest.h"
#include "engine/store/notes.h"
#include "server/durable/turns.h"
#include "server/rpc/runner.h"

namespace gluond::server {

class StoredOwners {
 public:
  // `store` holds this alone. `runner`, whose owners these are, is there until Stop returns.
  StoredOwners(Runner& runner, std::unique_ptr<CheckpointStore> store, LogSink log)
      : runner_(runner), store_(std::move(store)), log_(std::move(log)), turns_(runner) {
    runner_.owners.OnChange([this] { Changed(); });
  }

  // Reads the owners, before the first call and before anything else changes them. An unreadable text is logged.
  void Load() {
    const absl::StatusOr<Json> notes = store_->ReadNotes(kName);
    absl::StatusOr<Owners::Names> names = notes.ok() ? ReadOwners(*notes) : notes.status();
    if (names.ok()) return runner_.owners.Load(*std::move(names));
    if (absl::IsNotFound(names.status())) return;  // The store of a server that kept none.
    log_(absl::StrCat("gluond-server: the owners of what is in the store are lost, and all of it is the admin's: ",
                      names.status().message(), "\n"));
  }

  // Waits for what is under way. Requires: no more things are made.
  void Stop() { turns_.Stop(); }

 private:
  static constexpr int64_t kFormatVersion = 1;
  static constexpr char kName[] = "owners";
  static constexpr Thing kThings[] = {Thing::kModel, Thing::kDataset, Thing::kCheckpoint, Thing::kVersions, Thing::kSavedSession};

  static Json ToJson(const Owners::Names& names) {
    Json json = Json::Object();
    json.Set("format_version", kFormatVersion);
    for (const Thing thing : kThings) {
      Json owners = Json::Object();
      for (const auto& [key, owner] : names) {
        if (key.first == thing) owners.Set(key.second, owner);
      }
      json.Set(std::string(NameOf(thing)), std::move(owners));
    }
    return json;
  }

  static absl::StatusOr<Owners::Names> ReadOwners(const Json& json) {
    RETURN_IF_ERROR(CheckFormatVersion(json, kFormatVersion));
    Owners::Names names;
    for (const Thing thing : kThings) {
      ASSIGN_OR_RETURN(const Json* const owners, json.GetChild(NameOf(thing), Json::kObject));
      for (const auto& [name, owner] : owners->members()) RETURN_IF_ERROR(owner.Get(&names[{thing, name}]));
    }
    return names;
  }

  void Changed() {
    if (!will_save_.exchange(true)) turns_.Run(kName, [this] { Save(); });
  }

  void Save() {
    will_save_ = false;  // A change from here on has another save.
    Checkpoint checkpoint;
    checkpoint.notes = ToJson(runner_.owners.Take());
    if (const absl::Status saved = SaveOverDamaged(*store_, kName, checkpoint); !saved.ok()) {
      log_(absl::StrCat("gluond-server: the owners of things were not saved, and are forgotten with this server: ", saved.message(),
                        "\n"));
    }
  }

  Runner& runner_;
  const std::unique_ptr<CheckpointStore> store_;
  const LogSink log_;
  std::atomic<bool> will_save_ = false;
  Turns turns_;
};

}  // namespace gluond::server

#endif  // SERVER_DURABLE_STORED_OWNERS_H_
