#include "server/durable/saved_sessions.h"

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/codec/tensor_codec.h"
#include "server/hosted/describe_model.h"
#include "server/rpc/secret.h"

namespace gluond::server {
namespace {

constexpr size_t kMostManifest = 4 << 20;

absl::Status WrongKey(const std::string& name) {
  return WithInfo(absl::PermissionDeniedError(absl::StrCat(
                      "'", name, "' was saved with another key; give the one that the answer to its SaveSession told, or "
                      "save under another name")),
                  reason::kWrongKey, {{"name", name}});
}

absl::Status CheckKey(absl::string_view key) {
  constexpr size_t kShortest = 16, kLongest = 128;
  if (key.size() >= kShortest && key.size() <= kLongest) return absl::OkStatus();
  return InField("key", absl::InvalidArgumentError(absl::StrCat("the key of a new name has ", key.size(), " bytes, want ",
                                                                kShortest, " to ", kLongest, "; choose another one, or "
                                                                "leave it to the server")));
}

}  // namespace

SavedSessions::SavedSessions(Runner& runner, std::unique_ptr<CheckpointStore> store, int64_t most_bytes, LogSink log)
    : store_(store == nullptr ? nullptr : std::make_unique<SessionStore>(std::move(store))), most_bytes_(most_bytes),
      log_(std::move(log)), turns_(runner),
      entries_("saved session", runner.limits.max_saved_sessions, "--max_saved_sessions") {}

void SavedSessions::Load() {
  if (store_ == nullptr) return;
  const auto log = [this](const std::string& what, const absl::Status& status) {
    log_(absl::StrCat("gluond-server: ", what, ": ", status.message(), "\n"));
  };
  const absl::StatusOr<std::vector<std::string>> names = store_->Names();
  if (!names.ok()) return log("no saved session can be loaded", names.status());
  for (const std::string& name : *names) {
    absl::StatusOr<SessionSummary> summary = store_->LoadSummary(name);
    absl::Status status = summary.status();
    if (status.ok()) status = entries_.Add(name, NewEntry(*std::move(summary)), /*replace=*/false);
    if (!status.ok()) log(absl::StrCat("the saved session '", name, "' was not loaded and stays on the disk"), status);
  }
}

SavedSessions::EntryPtr SavedSessions::NewEntry(SessionSummary summary) {
  auto entry = std::make_shared<Entry>();
  entry->bytes = summary.bytes();
  entry->num_arrays = static_cast<int64_t>(summary.arrays.size());
  entry->used = summary.created;
  entry->summary = std::move(summary);
  entry->summary.manifest.clear();
  entry->summary.arrays.clear();
  return entry;
}

absl::StatusOr<SavedSessions::EntryPtr> SavedSessions::Find(const std::string& name, const std::string& key) const {
  ASSIGN_OR_RETURN(EntryPtr entry, entries_.Find(name));
  if (!IsSecret(entry->summary.key, key)) return WrongKey(name);
  entry->used = std::chrono::system_clock::now();
  return entry;
}

v1::SavedSession SavedSessions::Describe(const std::string& name, const Entry& entry) const {
  v1::SavedSession saved;
  saved.set_name(name);
  saved.set_version(entry.summary.version);
  saved.set_bytes(entry.bytes);
  saved.set_num_arrays(entry.num_arrays);
  SetTime(entry.summary.created, saved.mutable_created());
  SetTime(entry.used, saved.mutable_used());
  saved.set_client_id(entry.summary.client);
  saved.set_stored(entry.in_memory == nullptr);
  return saved;
}

std::vector<v1::SavedSession> SavedSessions::List() const {
  std::vector<v1::SavedSession> list;
  for (const auto& [name, entry] : entries_.List()) list.push_back(Describe(name, *entry));
  return list;
}

// Saving.

void SavedSessions::Save(const std::string& name, SessionSave save,
                         std::function<void(absl::StatusOr<v1::SavedSession>)> done) {
  turns_.Run(name, [this, name, save = std::move(save), done = std::move(done)]() mutable {
    done(SaveNow(name, std::move(save)));
  });
}

absl::StatusOr<v1::SavedSession> SavedSessions::SaveNow(const std::string& name, SessionSave save) {
  SessionSummary& summary = save.summary;
  if (summary.manifest.size() > kMostManifest) {
    return absl::InvalidArgumentError(absl::StrCat("the manifest has ", summary.manifest.size(), " bytes, the limit is ",
                                                   kMostManifest, "; keep what is large in arrays"));
  }
  const bool is_new = !entries_.Find(name).ok();
  if (!is_new && summary.key.empty()) {
    return WithInfo(absl::AlreadyExistsError(absl::StrCat("there is a saved session '", name, "' already; give its key "
                                                          "to replace it, or choose another name")),
                    reason::kAlreadyExists, {{"kind", "saved session"}, {"name", name}});
  }
  RETURN_IF_ERROR(entries_.CanAdd(name, /*replace=*/true));
  if (is_new && summary.key.empty()) {
    ASSIGN_OR_RETURN(summary.key, NewSecret());
  } else if (is_new) {
    RETURN_IF_ERROR(CheckKey(summary.key));
  } else {
    ASSIGN_OR_RETURN(const EntryPtr before, Find(name, summary.key));
    summary.version = before->summary.version;
  }
  ++summary.version;
  summary.arrays.clear();
  for (const NamedTensor& array : save.arrays) {
    summary.arrays.push_back({array.name, array.tensor.dtype(), array.tensor.shape()});
  }
  const EntryPtr entry = NewEntry(summary);
  if (store_ == nullptr) {
    RETURN_IF_ERROR(KeepInMemory(name, entry, std::make_shared<const SessionSave>(std::move(save))));
  } else {
    RETURN_IF_ERROR(store_->Save(name, save));
    if (const absl::Status added = entries_.Add(name, entry, /*replace=*/true); !added.ok()) {
      (void)store_->Delete(name);
      return added;
    }
  }
  v1::SavedSession saved = Describe(name, *entry);
  saved.set_key(entry->summary.key);
  return saved;
}

absl::Status SavedSessions::KeepInMemory(const std::string& name, const EntryPtr& entry,
                                         std::shared_ptr<const SessionSave> save) {
  entry->bytes += static_cast<int64_t>(save->summary.manifest.size());
  entry->in_memory = std::move(save);
  MutexLock lock(memory_mu_);
  int64_t bytes = entry->bytes;
  for (const auto& [other, kept] : entries_.List()) bytes += other == name ? 0 : kept->bytes;
  if (bytes > most_bytes_) {
    return OverLimit("--max_named_session_bytes", "the saved sessions would have ", bytes, " bytes in memory, the limit "
                     "of --max_named_session_bytes is ", most_bytes_, "; delete some, or start the server with "
                     "--store_dir, which keeps them on the disk");
  }
  return entries_.Add(name, entry, /*replace=*/true);
}

// Opening.

void SavedSessions::Open(const std::string& name, const std::string& key, std::optional<uint64_t> version,
                         std::shared_ptr<Allocator> memory, std::function<void(absl::StatusOr<Opened>)> done) {
  turns_.Run(name, [this, name, key, version, memory = std::move(memory), done = std::move(done)] {
    done(OpenNow(name, key, version, memory.get()));
  });
}

absl::StatusOr<SavedSessions::Opened> SavedSessions::OpenNow(const std::string& name, const std::string& key,
                                                             std::optional<uint64_t> version, Allocator* memory) {
  ASSIGN_OR_RETURN(const EntryPtr entry, Find(name, key));
  if (version.has_value() && *version != entry->summary.version) {
    return WithInfo(absl::AbortedError(absl::StrCat("'", name, "' has version ", entry->summary.version, ", expected ",
                                                    *version, ": it was saved again meanwhile; look at it, and try again")),
                    reason::kVersionChanged, {{"version", absl::StrCat(entry->summary.version)}});
  }
  Opened opened;
  SessionSummary summary;
  if (entry->in_memory != nullptr) {
    summary = entry->in_memory->summary;
    if (memory != nullptr) opened.save = entry->in_memory;
  } else if (memory != nullptr) {
    ASSIGN_OR_RETURN(SessionSave save, store_->Load(name, *memory));
    summary = save.summary;
    opened.save = std::make_shared<const SessionSave>(std::move(save));
  } else {
    ASSIGN_OR_RETURN(summary, store_->LoadSummary(name));
  }
  opened.saved = Describe(name, *entry);
  opened.saved.set_manifest(std::move(summary.manifest));
  for (const SessionSummary::Array& array : summary.arrays) {
    v1::ArrayType& type = (*opened.saved.mutable_arrays())[array.name];
    type.set_has_shape(true);
    for (const int64_t dim : array.shape) type.add_shape(dim);
    type.set_dtype(ToProto(array.dtype));
  }
  return opened;
}

// Deleting.

void SavedSessions::Delete(const std::string& name, const std::string& key,
                           std::function<void(const absl::Status&)> done) {
  turns_.Run(name, [this, name, key, done = std::move(done)] { done(DeleteNow(name, key)); });
}

absl::Status SavedSessions::DeleteNow(const std::string& name, const std::string& key) {
  RETURN_IF_ERROR(Find(name, key).status());
  if (store_ != nullptr) {
    const absl::Status deleted = store_->Delete(name);
    if (!deleted.ok() && !absl::IsNotFound(deleted)) return deleted;
  }
  return entries_.Remove(name).status();
}

}  // namespace gluond::server
