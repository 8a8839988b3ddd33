#include "server/durable/saved_sessions.h"

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "server/codec/duration.h"
#include "server/codec/tensor_codec.h"
#include "server/identity/secret.h"

namespace gluond::server {
namespace {

constexpr size_t kMostManifest = 4 << 20;

// The memory of an array's name and type.
constexpr int64_t kBytesPerArray = 256;
// The file's text, what was read of it, and the answer have the manifest and the types at the same time.
constexpr int64_t kCopies = 4;

absl::Status WrongKey(const std::string& name) {
  return WithInfo(
      absl::PermissionDeniedError(absl::StrCat(
          "'", name,
          "' was saved with another key; give the one that the answer to its SaveSession told, or save under another name")),
      reason::kWrongKey, {{"name", name}});
}

absl::Status CheckNewKey(absl::string_view key) {
  constexpr size_t kShortest = 16, kLongest = 128;
  if (key.size() >= kShortest && key.size() <= kLongest) return absl::OkStatus();
  return InField("key", Invalid("the key of a new name has ", key.size(), " bytes, want ", kShortest, " to ", kLongest,
                                "; choose another one, or leave it to the server"));
}

}  // namespace

SavedSessions::SavedSessions(Runner& runner, std::unique_ptr<CheckpointStore> store, int64_t most_bytes, LogSink log)
    : store_(store == nullptr ? nullptr : std::make_unique<SessionStore>(std::move(store))),
      tenants_(runner.tenants),
      most_bytes_(most_bytes),
      log_(std::move(log)),
      turns_(runner),
      entries_("saved session", runner.limits.max_saved_sessions, "--max_saved_sessions", &runner.tenants,
               &Quotas::saved_sessions) {}

void SavedSessions::Load() {
  if (store_ == nullptr) return;
  const auto log = [this](const std::string& what, const absl::Status& status) {
    log_(EventLine("saved_session_not_loaded", LogLevel::kError, absl::StrCat(what, ": ", status.message())));
  };
  const absl::StatusOr<std::vector<std::string>> names = store_->Names();
  if (!names.ok()) return log("no saved session can be loaded", names.status());
  for (const std::string& name : *names) {
    absl::StatusOr<SessionSummary> summary = store_->LoadSummary(name);
    if (summary.ok()) {
      entries_.Load(name, NewEntry(*std::move(summary)));
      continue;
    }
    log(absl::StrCat("the saved session '", name, "' was not loaded and stays on the disk"), summary.status());
    if (absl::IsDataLoss(summary.status())) continue;
    auto entry = std::make_shared<Entry>();
    entry->status = Annotate(summary.status(),
                             absl::StrCat("'", name, "' is on the disk, and this server cannot read it; choose another name"));
    entries_.Load(name, std::move(entry));
  }
}

SavedSessions::EntryPtr SavedSessions::NewEntry(SessionSummary summary) {
  auto entry = std::make_shared<Entry>();
  entry->bytes = summary.bytes();
  entry->num_arrays = static_cast<int64_t>(summary.arrays.size());
  entry->told_bytes = static_cast<int64_t>(summary.manifest.size());
  for (const SessionSummary::Array& array : summary.arrays) {
    entry->told_bytes += static_cast<int64_t>(array.name.size()) + kBytesPerArray;
  }
  entry->used = summary.created;
  entry->summary = std::move(summary);
  entry->summary.manifest.clear();
  entry->summary.arrays.clear();
  return entry;
}

absl::StatusOr<SavedSessions::EntryPtr> SavedSessions::Find(const std::string& name, const std::string& key) const {
  ASSIGN_OR_RETURN(EntryPtr entry, entries_.Find(name));
  RETURN_IF_ERROR(entry->status);
  if (!IsSecret(entry->summary.key_hash, HashOf(key))) return WrongKey(name);
  entry->used = std::chrono::system_clock::now();
  return entry;
}

absl::Status SavedSessions::CheckKey(const std::string& name, const std::string& key) const {
  const absl::Status found = Find(name, key).status();
  return absl::IsNotFound(found) ? absl::OkStatus() : found;
}

absl::Status SavedSessions::CheckSave(const std::string& name, const std::string& key) const {
  if (!key.empty() || !entries_.Find(name).ok()) return CheckKey(name, key);
  return WithInfo(absl::AlreadyExistsError(absl::StrCat("there is a saved session '", name,
                                                        "' already; give its key to replace it, or choose another name")),
                  reason::kAlreadyExists, {{"kind", "saved session"}, {"name", name}});
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
  for (const auto& [name, entry] : entries_.List()) {
    if (entry->status.ok()) list.push_back(Describe(name, *entry));
  }
  return list;
}

// Saving.

void SavedSessions::Save(const std::string& name, const std::string& key, SessionSave save,
                         std::function<void(absl::StatusOr<v1::SavedSession>)> done) {
  if (const absl::Status may = CheckSave(name, key); !may.ok()) return done(may);
  turns_.Run(name, [this, name, key, save = std::move(save), done = std::move(done)]() mutable {
    done(SaveNow(name, key, std::move(save)));
  });
}

absl::StatusOr<v1::SavedSession> SavedSessions::SaveNow(const std::string& name, const std::string& key, SessionSave save) {
  SessionSummary& summary = save.summary;
  if (summary.manifest.size() > kMostManifest) {
    return Invalid("the manifest has ", summary.manifest.size(), " bytes, the limit is ", kMostManifest,
                   "; keep what is large in arrays");
  }
  RETURN_IF_ERROR(CheckSave(name, key));
  RETURN_IF_ERROR(entries_.CanAdd(name, /*replace=*/true));
  std::string its_key = key;
  if (const absl::StatusOr<EntryPtr> before = entries_.Find(name); before.ok()) {
    summary.version = (*before)->summary.version;
  } else if (key.empty()) {
    ASSIGN_OR_RETURN(its_key, NewSecret());
  } else {
    RETURN_IF_ERROR(CheckNewKey(key));
  }
  summary.key_hash = HashOf(its_key);
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
  saved.set_key(its_key);
  return saved;
}

int64_t SavedSessions::BytesWith(const std::string& name, int64_t bytes, absl::string_view tenant) const {
  for (const auto& [other, kept] : entries_.List()) {
    if (other != name && (tenant.empty() || TenantOf(other) == tenant)) bytes += kept->bytes + kept->told_bytes;
  }
  return bytes;
}

absl::Status SavedSessions::KeepInMemory(const std::string& name, const EntryPtr& entry, std::shared_ptr<const SessionSave> save) {
  entry->in_memory = std::move(save);
  MutexLock lock(memory_mu_);
  const int64_t own = entry->bytes + entry->told_bytes;
  if (const TenantPtr owner = tenants_.OwnerOf(name); owner != nullptr) {
    const int64_t most = owner->Most(&Quotas::saved_session_bytes, most_bytes_), bytes = BytesWith(name, own, owner->name());
    if (bytes > most) {
      return OverLimit("--tenants:saved_session_bytes", "the saved sessions of tenant '", owner->name(), "' would have ", bytes,
                       " bytes in memory, and its quota is saved_session_bytes=", most, "; delete some");
    }
  }
  const int64_t bytes = BytesWith(name, own, "");
  if (bytes > most_bytes_) {
    return OverLimit("--max_named_session_bytes", "the saved sessions would have ", bytes,
                     " bytes in memory, the limit of --max_named_session_bytes is ", most_bytes_,
                     "; delete some, or start the server with --store_dir, which keeps them on the disk");
  }
  return entries_.Add(name, entry, /*replace=*/true);
}

// Opening.

void SavedSessions::Open(Opening opening, std::function<void(absl::StatusOr<Opened>)> done) {
  if (const absl::Status may = CheckKey(opening.name, opening.key); !may.ok()) return done(may);
  const std::string name = opening.name;
  turns_.Run(name, [this, opening = std::move(opening), done = std::move(done)] { done(OpenNow(opening)); });
}

absl::StatusOr<SavedSessions::Opened> SavedSessions::OpenNow(const Opening& opening) {
  const std::string& name = opening.name;
  ASSIGN_OR_RETURN(const EntryPtr entry, Find(name, opening.key));
  const uint64_t version = entry->summary.version;
  if (opening.version.value_or(version) != version) {
    return WithInfo(absl::AbortedError(absl::StrCat("'", name, "' has version ", version, ", expected ", *opening.version,
                                                    ": it was saved again meanwhile; look at it, and try again")),
                    reason::kVersionChanged, {{"version", absl::StrCat(version)}});
  }
  Opened opened;
  opened.kept = Reservation(opening.budget);
  RETURN_IF_ERROR(opened.kept.Grow(kCopies * entry->told_bytes));
  SessionSummary summary;
  if (entry->in_memory != nullptr) {
    summary = entry->in_memory->summary;
    if (opening.memory != nullptr) opened.save = entry->in_memory;
  } else if (opening.memory != nullptr) {
    ASSIGN_OR_RETURN(SessionSave save, store_->Load(name, *opening.memory));
    summary = save.summary;
    opened.save = std::make_shared<const SessionSave>(std::move(save));
  } else {
    ASSIGN_OR_RETURN(summary, store_->LoadSummary(name));
  }
  opened.saved = Describe(name, *entry);
  opened.saved.set_manifest(std::move(summary.manifest));
  for (const SessionSummary::Array& array : summary.arrays) {
    TypeToProto(array.shape, array.dtype, &(*opened.saved.mutable_arrays())[array.name]);
  }
  return opened;
}

// Deleting.

void SavedSessions::Delete(const std::string& name, const std::string& key, std::function<void(const absl::Status&)> done) {
  if (const absl::Status may = CheckKey(name, key); !may.ok()) return done(may);
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
