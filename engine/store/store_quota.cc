#include "engine/store/store_quota.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/store/checkpoint.h"

namespace gluond {
namespace {

bool IsInFolder(absl::string_view name) { return absl::StrContains(name, '/'); }

}  // namespace

void StoreQuota::AddFolder(const std::string& folder) {
  MutexLock lock(mu_);
  folders_.push_back(folder);
}

absl::StatusOr<StoreQuota::Room> StoreQuota::Reserve(const std::string& name, int64_t bytes) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Used used, UsedByOthersLocked(name));
  if (!IsInFolder(name) && used.checkpoints >= limits_.max_checkpoints) {
    return absl::ResourceExhaustedError(absl::StrCat("the store has ", used.checkpoints, " other checkpoints, the limit of "
                                                     "--max_checkpoints; delete some"));
  }
  if (limits_.max_store_bytes > 0 && bytes > limits_.max_store_bytes - used.bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the checkpoint takes about ", bytes, " bytes, the store's others ",
                                                     used.bytes, ", together more than --max_store_bytes=",
                                                     limits_.max_store_bytes, "; delete some"));
  }
  RETURN_IF_ERROR(CheckDiskLocked(bytes));
  const auto reserved = reserved_.emplace(name, bytes);
  return Room(this, [this, reserved](const void*) { GiveBack(reserved); });
}

absl::StatusOr<int64_t> StoreQuota::UsedBytes() const {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Used used, UsedByOthersLocked(/*name=*/""));
  return used.bytes;
}

void StoreQuota::GiveBack(std::multimap<std::string, int64_t>::iterator reserved) {
  MutexLock lock(mu_);
  reserved_.erase(reserved);
}

// A save's reservation stands for the files that it has written so far, and for those that it replaces.
absl::StatusOr<StoreQuota::Used> StoreQuota::UsedByOthersLocked(const std::string& name) const {
  Used used;
  std::string last = name;
  for (const auto& [other, bytes] : reserved_) {
    if (other == name) continue;
    used.checkpoints += other != last && !IsInFolder(other);
    used.bytes += bytes;
    last = other;
  }
  RETURN_IF_ERROR(files_.List(directory_).status());
  AddUsedLocked("", name, &used);
  for (const std::string& folder : folders_) AddUsedLocked(folder, name, &used);
  return used;
}

void StoreQuota::AddUsedLocked(const std::string& folder, const std::string& but_for, Used* used) const {
  const absl::StatusOr<std::vector<std::string>> entries = files_.List(directory_ + folder);
  if (!entries.ok()) return;
  for (const std::string& entry : *entries) {
    const std::string name = folder + entry, path = directory_ + name;
    if (name == but_for || reserved_.contains(name) || !CheckName("checkpoint", entry).ok()) continue;
    if (!files_.IsDirectory(path)) continue;
    const absl::StatusOr<int64_t> bytes = files_.TreeBytes(path);
    if (!bytes.ok()) continue;  // It may just have been deleted.
    used->bytes += *bytes;
    used->checkpoints += folder.empty();
  }
}

absl::Status StoreQuota::CheckDiskLocked(int64_t bytes) const {
  if (!limits_.keep_reserve) return absl::OkStatus();
  ASSIGN_OR_RETURN(const FileSystem::DiskSpace space, files_.Space(directory_));
  const int64_t reserve = std::min(int64_t{1} << 30, space.capacity / 20);
  int64_t wanted = bytes;
  for (const auto& [name, other] : reserved_) wanted += other;
  if (wanted <= space.available - reserve) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the checkpoint, with those that are being saved, takes about ", wanted,
                                                   " bytes, and the disk of --store_dir has ", space.available,
                                                   ", of which ", reserve, " stay free; delete some"));
}

}  // namespace gluond
