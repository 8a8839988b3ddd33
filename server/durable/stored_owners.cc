#include "server/durable/stored_owners.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/store/json.h"
#include "engine/store/manifest.h"
#include "engine/store/notes.h"

namespace gluond::server {
namespace {

constexpr int64_t kFormatVersion = 1;
constexpr char kName[] = "owners";
constexpr Thing kThings[] = {Thing::kModel, Thing::kDataset, Thing::kCheckpoint, Thing::kVersions, Thing::kSavedSession};

Json ToJson(const Owners::Names& names) {
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

absl::StatusOr<Owners::Names> ReadOwners(const Json& json) {
  RETURN_IF_ERROR(CheckFormatVersion(json, kFormatVersion));
  Owners::Names names;
  for (const Thing thing : kThings) {
    ASSIGN_OR_RETURN(const Json* const owners, json.GetChild(NameOf(thing), Json::kObject));
    for (const auto& [name, owner] : owners->members()) RETURN_IF_ERROR(owner.Get(&names[{thing, name}]));
  }
  return names;
}

}  // namespace

StoredOwners::StoredOwners(Runner& runner, std::unique_ptr<CheckpointStore> store, LogSink log)
    : runner_(runner), store_(std::move(store)), log_(std::move(log)), turns_(runner) {
  runner_.owners.OnChange([this] { Changed(); });
}

void StoredOwners::Load() {
  const absl::StatusOr<Json> notes = store_->ReadNotes(kName);
  absl::StatusOr<Owners::Names> names = notes.ok() ? ReadOwners(*notes) : notes.status();
  if (names.ok()) return runner_.owners.Load(*std::move(names));
  if (absl::IsNotFound(names.status())) return;  // The store of a server that kept none.
  log_(absl::StrCat("gluond-server: the owners of what is in the store are lost, and all of it is the admin's: ",
                    names.status().message(), "\n"));
}

void StoredOwners::Changed() {
  if (!will_save_.exchange(true)) turns_.Run(kName, [this] { Save(); });
}

void StoredOwners::Save() {
  will_save_ = false;  // A change from here on has another save.
  Checkpoint checkpoint;
  checkpoint.notes = ToJson(runner_.owners.Take());
  if (const absl::Status saved = SaveOverDamaged(*store_, kName, checkpoint); !saved.ok()) {
    log_(absl::StrCat("gluond-server: the owners of things were not saved, and are forgotten with this server: ", saved.message(),
                      "\n"));
  }
}

}  // namespace gluond::server
