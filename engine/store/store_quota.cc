#include "engine/store/store_quota.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/stored_name.h"

namespace gluond {
namespace {

bool IsInFolder(absl::string_view name) { return absl::StrContains(name, '/'); }

// The entry without the folder.
absl::string_view LastOf(absl::string_view entry) { return entry.substr(entry.rfind('/') + 1); }

// The owner is "acme" of "acme+digits", in a folder or not, set aside or not. Empty: the default tenant.
absl::string_view OwnerOf(absl::string_view entry) {
  entry = LastOf(entry);
  absl::ConsumePrefix(&entry, ".");
  const size_t plus = entry.find('+');
  return plus == absl::string_view::npos ? absl::string_view() : entry.substr(0, plus);
}

}  // namespace

// The disk is read without the mutex: saves go on meanwhile.
std::optional<int64_t> StoreQuota::BytesOf(const std::string& entry) const {
  if (!NameOfFile(LastOf(entry)).has_value() && !NameOfAside(LastOf(entry)).has_value()) return std::nullopt;
  const std::string path = directory_ + entry;
  if (!files_.IsDirectory(path)) return std::nullopt;
  const absl::StatusOr<int64_t> bytes = files_.TreeBytes(path);
  return bytes.ok() ? std::optional(*bytes) : std::nullopt;
}

void StoreQuota::SetLocked(const std::string& entry, std::optional<int64_t> bytes) {
  const bool is_aside = LastOf(entry)[0] == '.';
  const int64_t is_counted = !IsInFolder(entry) && !is_aside;
  const auto add = [&](int64_t more, int64_t entries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (Sum* const sum : {&sum_, &sums_[std::string(OwnerOf(entry))]}) {
      sum->bytes += more;
      sum->checkpoints += is_counted * entries;
    }
    if (is_aside) aside_bytes_ += more;
  };
  if (const auto found = stored_.find(entry); found != stored_.end()) {
    add(-found->second, -1);
    stored_.erase(found);
  }
  if (!bytes.has_value()) return;
  stored_[entry] = *bytes;
  add(*bytes, 1);
}

void StoreQuota::Scan(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> entries = files_.List(directory_ + folder);
  for (const std::string& entry : entries.ok() ? *entries : std::vector<std::string>()) Look(folder + entry);
}

void StoreQuota::Look(const std::string& entry) {
  const std::optional<int64_t> bytes = BytesOf(entry);
  MutexLock lock(mu_);
  SetLocked(entry, bytes);
}

absl::StatusOr<StoreQuota::Room> StoreQuota::Reserve(const std::string& name, int64_t bytes) {
  MutexLock lock(mu_);
  const Used used = UsedByOthersLocked(name);
  if (!IsInFolder(name)) RETURN_IF_ERROR(CheckCount(used));
  if (limits_.max_store_bytes > 0 && bytes > limits_.max_store_bytes - used.all.bytes) {
    return OverLimit("--max_store_bytes", "the checkpoint takes about ", bytes, " bytes, the store's others ", used.all.bytes,
                     ", together more than --max_store_bytes=", limits_.max_store_bytes, "; delete some");
  }
  RETURN_IF_ERROR(CheckTenant(OwnerOf(name), bytes, used));
  RETURN_IF_ERROR(CheckDiskLocked(bytes));
  const auto reserved = reserved_.emplace(name, bytes);
  return Room(this, [this, reserved](const void*) { GiveBack(reserved); });
}

int64_t StoreQuota::UsedBytes() const {
  MutexLock lock(mu_);
  return UsedByOthersLocked(/*name=*/"").all.bytes;
}

int64_t StoreQuota::AsideBytes() const {
  MutexLock lock(mu_);
  return aside_bytes_;
}

void StoreQuota::GiveBack(std::multimap<std::string, int64_t>::iterator reserved) {
  const std::optional<int64_t> bytes = BytesOf(reserved->first);
  MutexLock lock(mu_);
  SetLocked(reserved->first, bytes);
  reserved_.erase(reserved);
}

// A save's reservation stands for the files that it has written so far, and for those that it replaces.
StoreQuota::Used StoreQuota::UsedByOthersLocked(const std::string& name) const {
  const absl::string_view owner = OwnerOf(name);
  Used used{sum_, {}};
  if (const auto found = sums_.find(owner); found != sums_.end()) used.tenants = found->second;
  const auto add = [&](const std::string& entry, int64_t bytes, int64_t entries) {
    used.all.bytes += bytes;
    used.all.checkpoints += entries;
    if (OwnerOf(entry) != owner) return;
    used.tenants.bytes += bytes;
    used.tenants.checkpoints += entries;
  };
  const auto leave_out = [&](const std::string& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto found = stored_.find(entry);
    if (found != stored_.end()) add(entry, -found->second, IsInFolder(entry) ? 0 : -1);
  };
  leave_out(name);
  const std::string* last = &name;
  for (const auto& [other, bytes] : reserved_) {
    if (other == name) continue;
    if (other != *last) leave_out(other);
    add(other, bytes, other != *last && !IsInFolder(other) ? 1 : 0);
    last = &other;
  }
  return used;
}

absl::Status StoreQuota::CheckCount(const Used& used) const {
  const int64_t most = limits_.max_checkpoints;
  if (used.all.checkpoints >= most) {
    return OverLimit("--max_checkpoints", "the store has ", used.all.checkpoints,
                     " other checkpoints, the limit of "
                     "--max_checkpoints; delete some");
  }
  if (!limits_.has_tenants || used.tenants.checkpoints < PartOfOneTenant(most)) return absl::OkStatus();
  return OverLimit("--max_checkpoints", "the caller's tenant has ", used.tenants.checkpoints, " other checkpoints, half of the ",
                   most, " of --max_checkpoints, and none may have more; delete some");
}

absl::Status StoreQuota::CheckTenant(absl::string_view tenant, int64_t bytes, const Used& used) const {
  if (tenant.empty() || limits_.tenant_bytes == nullptr) return absl::OkStatus();
  const int64_t most = limits_.tenant_bytes(tenant);
  if (most == 0 || bytes <= most - used.tenants.bytes) return absl::OkStatus();
  return OverLimit("--tenants:store_bytes", "it takes about ", bytes, " bytes, the tenant's others in the store ",
                   used.tenants.bytes, ", together more than the quota store_bytes=", most, "; delete some");
}

absl::Status StoreQuota::CheckDiskLocked(int64_t bytes) const {
  if (!limits_.keep_reserve) return absl::OkStatus();
  ASSIGN_OR_RETURN(const FileSystem::DiskSpace space, files_.Space(directory_));
  const int64_t reserve = std::min(int64_t{1} << 30, space.capacity / 20);
  int64_t wanted = bytes;
  for (const auto& [name, other] : reserved_) wanted += other;
  if (wanted <= space.available - reserve) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the checkpoint, with those that are being saved, takes about ", wanted,
                                                   " bytes, and the disk of --store_dir has ", space.available, ", of which ",
                                                   reserve, " stay free; delete some"));
}

}  // namespace gluond
