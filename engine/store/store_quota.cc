#include "engine/store/store_quota.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/stored_name.h"

namespace gluond {
namespace {

bool IsInFolder(absl::string_view name) { return absl::StrContains(name, '/'); }

// The owner is "acme" of "acme+digits", in a folder or not. Empty: the default tenant.
absl::string_view OwnerOf(absl::string_view name) {
  if (const size_t slash = name.rfind('/'); slash != absl::string_view::npos) name.remove_prefix(slash + 1);
  const size_t plus = name.find('+');
  return plus == absl::string_view::npos ? absl::string_view() : name.substr(0, plus);
}

}  // namespace

void StoreQuota::AddFolder(const std::string& folder) {
  MutexLock lock(mu_);
  folders_.push_back(folder);
}

absl::StatusOr<StoreQuota::Room> StoreQuota::Reserve(const std::string& name, int64_t bytes) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Used used, UsedByOthersLocked(name));
  if (!IsInFolder(name)) RETURN_IF_ERROR(CheckCount(used));
  if (limits_.max_store_bytes > 0 && bytes > limits_.max_store_bytes - used.bytes) {
    return OverLimit("--max_store_bytes", "the checkpoint takes about ", bytes, " bytes, the store's others ", used.bytes,
                     ", together more than --max_store_bytes=", limits_.max_store_bytes, "; delete some");
  }
  RETURN_IF_ERROR(CheckTenant(OwnerOf(name), bytes, used));
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
    const bool is_counted = other != last && !IsInFolder(other), is_its = OwnerOf(other) == OwnerOf(name);
    used.checkpoints += is_counted;
    used.tenant_checkpoints += is_counted && is_its;
    used.bytes += bytes;
    if (is_its) used.tenant_bytes += bytes;
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
    if (name == but_for || reserved_.contains(name) || !NameOfFile(entry).has_value()) continue;
    if (!files_.IsDirectory(path)) continue;
    const absl::StatusOr<int64_t> bytes = files_.TreeBytes(path);
    if (!bytes.ok()) continue;  // It may just have been deleted.
    used->bytes += *bytes;
    const bool is_its = OwnerOf(entry) == OwnerOf(but_for);
    if (is_its) used->tenant_bytes += *bytes;
    used->checkpoints += folder.empty();
    used->tenant_checkpoints += folder.empty() && is_its;
  }
}

absl::Status StoreQuota::CheckCount(const Used& used) const {
  const int64_t most = limits_.max_checkpoints;
  if (used.checkpoints >= most) {
    return OverLimit("--max_checkpoints", "the store has ", used.checkpoints, " other checkpoints, the limit of "
                     "--max_checkpoints; delete some");
  }
  if (!limits_.has_tenants || used.tenant_checkpoints < PartOfOneTenant(most)) return absl::OkStatus();
  return OverLimit("--max_checkpoints", "the caller's tenant has ", used.tenant_checkpoints, " other checkpoints, half of the ",
                   most, " of --max_checkpoints, and none may have more; delete some");
}

absl::Status StoreQuota::CheckTenant(absl::string_view tenant, int64_t bytes, const Used& used) const {
  if (tenant.empty() || limits_.tenant_bytes == nullptr) return absl::OkStatus();
  const int64_t most = limits_.tenant_bytes(tenant);
  if (most == 0 || bytes <= most - used.tenant_bytes) return absl::OkStatus();
  return OverLimit("--tenants:store_bytes", "it takes about ", bytes, " bytes, the tenant's others in the store ",
                   used.tenant_bytes, ", together more than the quota store_bytes=", most, "; delete some");
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
