#include "engine/store/checkpoint.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/state_json.h"
#include "engine/store/version_files.h"

namespace gluond {
namespace {

constexpr char kLock[] = ".lock-";  // The checkpoint's name follows; no such name begins with a dot.
constexpr char kCurrent[] = "CURRENT";
constexpr char kNextCurrent[] = "CURRENT.tmp";
constexpr char kManifest[] = "manifest.json";
constexpr char kGraph[] = "graph.json";
constexpr char kParameters[] = "parameters.safetensors";
constexpr char kOptimizer[] = "optimizer.safetensors";
constexpr const char* kFiles[] = {kManifest, kGraph, kParameters, kOptimizer};
constexpr int64_t kMaxVersion = int64_t{1} << 53;

std::string In(const std::string& directory, absl::string_view entry) { return absl::StrCat(directory, "/", entry); }
std::string VersionName(int64_t version) { return absl::StrCat("v", version); }

CheckpointSummary Summarize(absl::string_view name, const Manifest& manifest) {
  CheckpointSummary summary;
  summary.name = std::string(name);
  summary.step = manifest.step();
  summary.has_trainer = manifest.trainer.has_value();
  summary.bytes = manifest.bytes();
  summary.saved_unix_seconds = manifest.saved_unix_seconds;
  return summary;
}

// The size of the files, within a few percent: the tensors, and an entry for each tensor and node.
int64_t AboutBytes(const Checkpoint& checkpoint) {
  constexpr int64_t kOfEach = 256, kManifestBytes = 4096;
  int64_t bytes = kManifestBytes;
  const auto add = [&bytes](const NamedTensors& tensors) {
    for (const NamedTensor& tensor : tensors) {
      bytes += kOfEach + static_cast<int64_t>(tensor.name.size() + tensor.tensor.bytes());
    }
  };
  add(checkpoint.model.parameters);
  if (checkpoint.trainer.has_value()) add(checkpoint.trainer->states);
  PostOrderVisit(checkpoint.model.definition.outputs, [&bytes](const NodePtr&) { bytes += kOfEach; });
  return bytes;
}

absl::Status InTheWay(const absl::Status& status, absl::string_view of_what) {
  return WithMessage(status, absl::StrCat(status.message(), "; it stands in the place of ", of_what));
}

absl::Status At(absl::string_view name, const absl::Status& status) {
  return Annotate(status, absl::StrCat("checkpoint '", name, "'"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(FileSystem& files, std::string directory, int64_t max_bytes,
                                                                       const StoreLimits& limits) {
  if (directory.empty()) return absl::InvalidArgumentError("the directory of the checkpoint store has no name");
  auto quota = std::make_shared<StoreQuota>(files, directory + "/", limits);
  std::unique_ptr<CheckpointStore> store(new CheckpointStore(files, directory, max_bytes, std::move(quota), ""));
  RETURN_IF_ERROR(store->Prepare());
  return store;
}

std::unique_ptr<CheckpointStore> CheckpointStore::OpenApart(absl::string_view folder) const {
  const std::string place = absl::StrCat(folder, "/");
  std::unique_ptr<CheckpointStore> store(new CheckpointStore(files_, absl::StrCat(directory_, folder), max_bytes_, quota_, place));
  if (const absl::Status prepared = store->Prepare(); !prepared.ok()) {
    store->faults_.push_back(InTheWay(prepared, "a folder of the store; remove it, and start the server again"));
  }
  return store;
}

absl::Status CheckpointStore::Prepare() {
  RETURN_IF_ERROR(files_.MakeDirectory(directory_));
  // If the parent cannot be opened, this process has made nothing in it.
  files_.SyncDirectory(directory_ + "..").IgnoreError();
  RETURN_IF_ERROR(RemoveLeftovers());
  quota_->Scan(folder_);
  return absl::OkStatus();
}

std::string CheckpointStore::Path(absl::string_view name) const { return absl::StrCat(directory_, FileOf(name)); }

std::string CheckpointStore::LockPath(absl::string_view name) const { return absl::StrCat(directory_, kLock, FileOf(name)); }

absl::StatusOr<std::unique_ptr<FileLock>> CheckpointStore::Lock(absl::string_view name, FileSystem::LockMode mode) const {
  absl::StatusOr<std::unique_ptr<FileLock>> lock = files_.Lock(LockPath(name), mode);
  if (absl::IsFailedPrecondition(lock.status())) return InTheWay(lock.status(), "a lock, an empty file; remove it");
  return lock;
}

absl::Status CheckpointStore::MissingCheckpoint(absl::string_view name) const {
  std::vector<std::string> names;
  if (absl::StatusOr<std::vector<std::string>> found = Names(); found.ok()) names = *std::move(found);
  const absl::string_view tenant = TenantPrefix(name);
  std::erase_if(names, [tenant](const std::string& each) { return TenantPrefix(each) != tenant; });
  return absl::NotFoundError(absl::StrCat("there is no checkpoint '", name, "'", DidYouMean(name, names)));
}

absl::StatusOr<CheckpointStore::Current> CheckpointStore::ReadCurrent(absl::string_view name) const {
  const std::string directory = Path(name);
  if (!files_.IsDirectory(directory)) return MissingCheckpoint(name);  // A link is no checkpoint.
  const absl::StatusOr<std::string> text = ReadWhole(files_, In(directory, kCurrent), 64);
  if (absl::IsNotFound(text.status())) return MissingCheckpoint(name);
  Current current;
  if (text.ok()) {
    const std::vector<absl::string_view> parts = absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ');
    if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &current.version) && current.version >= 1 &&
        current.version < kMaxVersion && absl::SimpleAtoi(parts[1], &current.manifest_crc)) {
      return current;
    }
  } else if (!absl::IsResourceExhausted(text.status())) {
    return Damaged(text.status(), kCurrent);
  }
  return absl::DataLossError("CURRENT is damaged; delete the checkpoint");
}

absl::StatusOr<CheckpointSummary> CheckpointStore::Save(absl::string_view name, const Checkpoint& checkpoint, bool overwrite) {
  RETURN_IF_ERROR(CheckStoredName("checkpoint", name));
  ASSIGN_OR_RETURN(const auto lock, Lock(name, FileSystem::LockMode::kExclusive));
  absl::StatusOr<CheckpointSummary> saved = SaveLocked(name, checkpoint, overwrite);
  if (!saved.ok()) RemoveUnusedLock(name);
  return saved;
}

absl::StatusOr<CheckpointSummary> CheckpointStore::SaveLocked(absl::string_view name, const Checkpoint& checkpoint,
                                                              bool overwrite) {
  const std::string directory = Path(name);
  const absl::StatusOr<Current> current = ReadCurrent(name);
  if (!current.ok() && !absl::IsNotFound(current.status())) return At(name, current.status());
  if (current.ok() && !overwrite) {
    return absl::AlreadyExistsError(
        absl::StrCat("there is a checkpoint '", name, "' already; set `overwrite` or choose another name"));
  }
  const int64_t version = current.ok() ? current->version + 1 : 1;
  const absl::StatusOr<StoreQuota::Room> room = quota_->Reserve(folder_ + FileOf(name), AboutBytes(checkpoint));
  if (!room.ok()) return At(name, room.status());
  RETURN_IF_ERROR(At(name, files_.MakeDirectory(directory)));
  RETURN_IF_ERROR(files_.SyncDirectory(directory_));

  const absl::StatusOr<Manifest> manifest = WriteVersion(directory, version, checkpoint);
  if (!manifest.ok()) {  // The disk may be full: remove the written files.
    RemoveOthers(directory, version - 1);
    if (!current.ok()) RemoveIfEmpty(directory);
    return At(name, manifest.status());
  }
  RETURN_IF_ERROR(At(name, Publish(directory)));
  RemoveOthers(directory, version);
  CheckpointSummary summary = Summarize(name, *manifest);
  if (const absl::StatusOr<Current> now = ReadCurrent(name); now.ok()) summary.revision = now->revision();
  return summary;
}

absl::StatusOr<Manifest> CheckpointStore::WriteVersion(const std::string& directory, int64_t version,
                                                       const Checkpoint& checkpoint) {
  std::optional<Json> graph;
  if (!checkpoint.notes.has_value()) {
    graph = DefinitionToJson(checkpoint.model.definition);
    RETURN_IF_ERROR(Annotate(DefinitionFromJson(*graph).status(), "the model cannot be read back"));
  }

  const std::string version_directory = In(directory, VersionName(version));
  if (files_.IsDirectory(version_directory) && !IsOurVersion(directory, VersionName(version))) {
    return absl::FailedPreconditionError(absl::StrCat(version_directory,
                                                      " holds files that are no checkpoint's; "
                                                      "choose another name"));
  }
  RETURN_IF_ERROR(files_.RemoveTree(version_directory));  // A stopped save may have left this directory.
  RETURN_IF_ERROR(files_.MakeDirectory(version_directory));
  VersionWriter writer(files_, version_directory);
  Manifest manifest;
  const auto add = [&manifest](absl::StatusOr<FileEntry> written) {
    if (written.ok()) manifest.files.push_back(*std::move(written));
    return written.status();
  };
  if (graph.has_value()) RETURN_IF_ERROR(add(writer.Write(kGraph, *graph)));
  RETURN_IF_ERROR(add(writer.Write(kParameters, checkpoint.model.parameters)));
  if (checkpoint.trainer.has_value()) RETURN_IF_ERROR(add(writer.Write(kOptimizer, checkpoint.trainer->states)));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  manifest.saved_unix_seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  manifest.random = checkpoint.model.random;
  manifest.trainer = checkpoint.trainer;
  manifest.hosting = checkpoint.hosting;
  manifest.virtual_shards = checkpoint.virtual_shards;
  manifest.notes = checkpoint.notes;
  ASSIGN_OR_RETURN(const FileEntry listed, writer.Write(kManifest, ManifestToJson(manifest)));
  RETURN_IF_ERROR(files_.SyncDirectory(version_directory));

  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> next, files_.Create(In(directory, kNextCurrent)));
  RETURN_IF_ERROR(next->Append(absl::StrCat(version, " ", listed.crc32c, "\n")));
  RETURN_IF_ERROR(next->Sync());
  RETURN_IF_ERROR(files_.SyncDirectory(directory));
  return manifest;
}

// After the rename CURRENT names the new version, before it the old one. If an error leaves open which, both stay.
absl::Status CheckpointStore::Publish(const std::string& directory) {
  RETURN_IF_ERROR(files_.Rename(In(directory, kNextCurrent), In(directory, kCurrent)));
  return files_.SyncDirectory(directory);
}

bool CheckpointStore::IsOurVersion(const std::string& directory, const std::string& entry) const {
  int64_t version = 0;
  if (entry[0] != 'v' || !absl::SimpleAtoi(entry.substr(1), &version) || VersionName(version) != entry) return false;
  if (!files_.IsDirectory(In(directory, entry))) return false;
  const absl::StatusOr<std::vector<std::string>> names = files_.List(In(directory, entry));
  return names.ok() && std::all_of(names->begin(), names->end(), [](const std::string& name) {
           return std::find(std::begin(kFiles), std::end(kFiles), name) != std::end(kFiles);
         });
}

void CheckpointStore::RemoveOthers(const std::string& directory, int64_t keep) {
  const absl::StatusOr<std::vector<std::string>> entries = files_.List(directory);
  if (!entries.ok()) return;
  for (const std::string& entry : *entries) {
    if (entry == kNextCurrent || (entry != VersionName(keep) && IsOurVersion(directory, entry))) {
      files_.RemoveTree(In(directory, entry)).IgnoreError();
    }
  }
}

void CheckpointStore::RemoveIfEmpty(const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> entries = files_.List(directory);
  if (entries.ok() && entries->empty()) files_.RemoveTree(directory).IgnoreError();
}

// A save that waits for this lock then locks a new file.
void CheckpointStore::RemoveUnusedLock(absl::string_view name) {
  if (!files_.IsDirectory(Path(name))) files_.RemoveTree(LockPath(name)).IgnoreError();
}

absl::Status CheckpointStore::RemoveLeftovers() {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, files_.List(directory_));
  for (absl::string_view file : files) {
    const bool is_lock = absl::ConsumePrefix(&file, kLock);
    const std::string name = NameOfFile(file).value_or("");
    if (name.empty() || is_lock == files_.IsDirectory(Path(name))) continue;
    const absl::StatusOr<std::unique_ptr<FileLock>> lock = Lock(name, FileSystem::LockMode::kExclusive);
    if (!lock.ok()) {
      faults_.push_back(lock.status());
      continue;
    }
    if (is_lock) {
      RemoveUnusedLock(name);
      continue;
    }
    const absl::StatusOr<Current> current = ReadCurrent(name);
    if (current.ok()) RemoveOthers(Path(name), current->version);
    if (absl::IsNotFound(current.status())) RemoveOthers(Path(name), 0);
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> CheckpointStore::ReadManifest(absl::string_view name, const Current& current,
                                                       std::string* version_directory) const {
  *version_directory = In(Path(name), VersionName(current.version));
  if (!files_.IsDirectory(*version_directory)) {
    return absl::DataLossError(absl::StrCat("the directory ", VersionName(current.version), " is missing"));
  }
  return ReadManifest(VersionReader(files_, *version_directory, max_bytes_), current.manifest_crc);
}

absl::StatusOr<Manifest> CheckpointStore::ReadManifest(const VersionReader& reader, uint32_t checksum) {
  ASSIGN_OR_RETURN(const Json json, reader.ReadJson(kManifest, checksum));
  absl::StatusOr<Manifest> manifest = ManifestFromJson(json);
  if (!manifest.ok()) return Damaged(manifest.status(), kManifest);
  return manifest;
}

absl::StatusOr<Checkpoint> CheckpointStore::Load(absl::string_view name, Allocator& host_allocator) const {
  RETURN_IF_ERROR(CheckStoredName("checkpoint", name));
  if (!files_.IsDirectory(Path(name))) return MissingCheckpoint(name);  // Locking would leave a file behind.
  ASSIGN_OR_RETURN(const auto lock, Lock(name, FileSystem::LockMode::kShared));
  if (absl::IsNotFound(ReadCurrent(name).status())) return MissingCheckpoint(name);
  absl::StatusOr<Checkpoint> checkpoint = LoadLocked(name, host_allocator);
  if (!checkpoint.ok()) return At(name, checkpoint.status());
  return checkpoint;
}

absl::StatusOr<ModelDefinition> CheckpointStore::ReadDefinition(const VersionReader& reader, const Manifest& manifest) {
  ASSIGN_OR_RETURN(const FileEntry graph, manifest.Find(kGraph));
  ASSIGN_OR_RETURN(const Json json, reader.ReadJson(graph));
  absl::StatusOr<ModelDefinition> definition = DefinitionFromJson(json);
  if (absl::IsNotFound(definition.status())) return Annotate(definition.status(), kGraph);  // An operator.
  RETURN_IF_ERROR(Damaged(definition.status(), kGraph));
  return definition;
}

absl::StatusOr<std::string> CheckpointStore::Revision(absl::string_view name) const {
  RETURN_IF_ERROR(CheckName("checkpoint", name));
  const absl::StatusOr<Current> current = ReadCurrent(name);
  if (absl::IsNotFound(current.status())) return current.status();
  if (!current.ok()) return At(name, current.status());
  return current->revision();
}

absl::StatusOr<uint32_t> CheckpointStore::Checksum(absl::string_view name) const {
  RETURN_IF_ERROR(CheckStoredName("checkpoint", name));
  const absl::StatusOr<Current> current = ReadCurrent(name);
  if (absl::IsNotFound(current.status())) return current.status();
  if (!current.ok()) return At(name, current.status());
  return current->manifest_crc;
}

absl::StatusOr<std::unique_ptr<ReadableFile>> CheckpointStore::OpenFile(absl::string_view name, uint32_t checksum,
                                                                        absl::string_view file) const {
  RETURN_IF_ERROR(CheckStoredName("checkpoint", name));
  ASSIGN_OR_RETURN(const Current current, ReadCurrent(name));
  if (current.manifest_crc != checksum) {
    return absl::NotFoundError(absl::StrCat("the checkpoint '", name, "' has the checksum ", current.manifest_crc, ", expected ",
                                            checksum, "; list it again"));
  }
  if (std::find(std::begin(kFiles), std::end(kFiles), file) == std::end(kFiles)) {
    return absl::NotFoundError(absl::StrCat("a checkpoint has no file '", Excerpt(file), "'"));
  }
  return files_.Open(In(In(Path(name), VersionName(current.version)), file));
}

absl::StatusOr<ModelState> CheckpointStore::LoadModel(const VersionReader& reader, uint32_t checksum, Allocator& host_allocator) {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(reader, checksum));
  ModelState model;
  ASSIGN_OR_RETURN(model.definition, ReadDefinition(reader, manifest));
  ASSIGN_OR_RETURN(const FileEntry parameters, manifest.Find(kParameters));
  ASSIGN_OR_RETURN(model.parameters, reader.ReadTensors(parameters, host_allocator));
  model.random = manifest.random;
  return model;
}

bool CheckpointStore::Has(absl::string_view name) const {
  return CheckStoredName("checkpoint", name).ok() && !absl::IsNotFound(ReadCurrent(name).status());
}

absl::StatusOr<Json> CheckpointStore::ReadNotes(absl::string_view name) const {
  RETURN_IF_ERROR(CheckStoredName("checkpoint", name));
  const absl::StatusOr<Manifest> manifest = ReadManifestUnlocked(name);
  if (absl::IsNotFound(manifest.status())) return manifest.status();
  if (!manifest.ok()) return At(name, manifest.status());
  if (!manifest->notes.has_value()) return At(name, absl::DataLossError("its manifest has no notes"));
  return *manifest->notes;
}

absl::StatusOr<Checkpoint> CheckpointStore::LoadLocked(absl::string_view name, Allocator& host_allocator) const {
  std::string version_directory;
  ASSIGN_OR_RETURN(const Current current, ReadCurrent(name));
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(name, current, &version_directory));
  const VersionReader reader(files_, version_directory, max_bytes_);
  Checkpoint checkpoint;
  checkpoint.notes = manifest.notes;
  if (!checkpoint.notes.has_value()) {
    ASSIGN_OR_RETURN(checkpoint.model.definition, ReadDefinition(reader, manifest));
  }
  ASSIGN_OR_RETURN(const FileEntry parameters, manifest.Find(kParameters));
  ASSIGN_OR_RETURN(checkpoint.model.parameters, reader.ReadTensors(parameters, host_allocator));
  checkpoint.model.random = manifest.random;
  checkpoint.trainer = manifest.trainer;
  checkpoint.hosting = manifest.hosting;
  checkpoint.virtual_shards = manifest.virtual_shards;
  if (checkpoint.trainer.has_value()) {
    ASSIGN_OR_RETURN(const FileEntry optimizer, manifest.Find(kOptimizer));
    ASSIGN_OR_RETURN(checkpoint.trainer->states, reader.ReadTensors(optimizer, host_allocator));
  }
  return checkpoint;
}

// A save may remove the version that CURRENT has just named; CURRENT names another one then.
absl::StatusOr<Manifest> CheckpointStore::ReadManifestUnlocked(absl::string_view name, Current* of) const {
  ASSIGN_OR_RETURN(Current current, ReadCurrent(name));
  while (true) {
    std::string version_directory;
    absl::StatusOr<Manifest> manifest = ReadManifest(name, current, &version_directory);
    if (manifest.ok() && of != nullptr) *of = current;
    if (manifest.ok()) return manifest;
    ASSIGN_OR_RETURN(const Current now, ReadCurrent(name));
    if (now == current) return manifest;
    current = now;
  }
}

absl::StatusOr<std::vector<CheckpointSummary>> CheckpointStore::List() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  std::vector<CheckpointSummary> summaries;
  for (const std::string& name : names) {
    Current current;
    const absl::StatusOr<Manifest> manifest = ReadManifestUnlocked(name, &current);
    if (manifest.ok()) {
      summaries.push_back(Summarize(name, *manifest));
      summaries.back().revision = current.revision();
    } else if (!absl::IsNotFound(manifest.status())) {  // A save that has not ended, or a deletion.
      summaries.push_back({.name = name, .revision = {}, .damage = std::string(manifest.status().message())});
    }
  }
  return summaries;
}

absl::StatusOr<std::vector<std::string>> CheckpointStore::Names() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, files_.List(directory_));
  std::vector<std::string> names;
  for (const std::string& file : files) {
    const std::optional<std::string> name = NameOfFile(file);
    if (name.has_value() && files_.IsDirectory(Path(*name))) names.push_back(*name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status CheckpointStore::Delete(absl::string_view name, const std::optional<std::string>& expected) {
  RETURN_IF_ERROR(CheckStoredName("checkpoint", name));
  if (!files_.IsDirectory(Path(name))) return MissingCheckpoint(name);
  ASSIGN_OR_RETURN(const auto lock, Lock(name, FileSystem::LockMode::kExclusive));
  const absl::StatusOr<Current> current = ReadCurrent(name);
  if (absl::IsNotFound(current.status())) return MissingCheckpoint(name);
  if (expected.has_value() && (!current.ok() || current->revision() != *expected)) {
    return WithInfo(absl::AbortedError(absl::StrCat("the checkpoint '", name,
                                                    "' is another one by now than the expected; "
                                                    "list it again")),
                    reason::kVersionChanged);
  }
  const std::string directory = Path(name);
  // Without CURRENT the rest of the directory is no checkpoint.
  RETURN_IF_ERROR(At(name, files_.RemoveTree(In(directory, kCurrent))));
  RETURN_IF_ERROR(At(name, files_.SyncDirectory(directory)));
  const absl::Status removed = files_.RemoveTree(directory);
  quota_->Look(folder_ + FileOf(name));
  RETURN_IF_ERROR(At(name, removed));
  RemoveUnusedLock(name);
  return files_.SyncDirectory(directory_);
}

absl::StatusOr<std::vector<int64_t>> CheckpointStore::AsideNumbers(absl::string_view name) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, files_.List(directory_));
  std::vector<int64_t> numbers;
  for (const std::string& file : files) {
    const auto aside = NameOfAside(file);
    if (aside.has_value() && aside->first == name && files_.IsDirectory(directory_ + file)) numbers.push_back(aside->second);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::StatusOr<std::string> CheckpointStore::SetAside(absl::string_view name) {
  RETURN_IF_ERROR(CheckStoredName("checkpoint", name));
  if (!files_.IsDirectory(Path(name))) return MissingCheckpoint(name);
  ASSIGN_OR_RETURN(const auto lock, Lock(name, FileSystem::LockMode::kExclusive));
  ASSIGN_OR_RETURN(std::vector<int64_t> numbers, AsideNumbers(name));
  numbers.push_back(numbers.empty() ? 1 : numbers.back() + 1);
  const std::string aside = AsideOf(name, numbers.back());
  RETURN_IF_ERROR(At(name, files_.Rename(Path(name), directory_ + aside)));
  RETURN_IF_ERROR(files_.SyncDirectory(directory_));
  quota_->Look(folder_ + FileOf(name));
  quota_->Look(folder_ + aside);
  for (size_t i = 0; i + kMostAside < numbers.size(); ++i) {
    const std::string oldest = AsideOf(name, numbers[i]);
    files_.RemoveTree(directory_ + oldest).IgnoreError();
    quota_->Look(folder_ + oldest);
  }
  return directory_ + aside;
}

}  // namespace gluond
