// StoreQuota: the bytes of the disk that the checkpoints of a store may take. Thread-safe. It reads all of the disk in Scan
// alone: afterwards it keeps the sums, and looks at one checkpoint where that has changed.
//
// A save reserves its room before it writes, so that saves at the same time share the rest. Only bytes that will stay
// count: an overwritten checkpoint's bytes are its successor's room, though both are on the disk until the new one is
// whole. Files that other processes write count from the next Scan on.
//
// Checkpoints in folders of the directory take its bytes, but do not count among --max_checkpoints. Their names have the
// folder before them: ".live/acme+digits" (stored_name.h). A tenant may have a limit of its own for the bytes of all that is
// stored in his name. Folders that were set aside (".acme+digits.1") take bytes likewise, and are no checkpoints.

#ifndef ENGINE_STORE_STORE_QUOTA_H_
#define ENGINE_STORE_STORE_QUOTA_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/mutex.h"
#include "engine/store/file_system.h"

namespace gluond {

// The server has flags of these names; errors name them.
struct StoreLimits {
  int64_t max_store_bytes = 0;  // 0: as much as the disk has.
  int64_t max_checkpoints = std::numeric_limits<int64_t>::max();
  bool has_tenants = false;   // Then each, and those who are of none, have half of the checkpoints at most.
  bool keep_reserve = false;  // Leaves 1 GiB of the disk, or a twentieth of a small one, to others.
  // The most bytes of a tenant; 0: as many as there are. Null: tenants have no limits.
  std::function<int64_t(absl::string_view tenant)> tenant_bytes = nullptr;
};

class StoreQuota {
 public:
  // `directory` ends with '/'. `files` outlives the quota.
  StoreQuota(const FileSystem& files, std::string directory, const StoreLimits& limits)
      : files_(files), directory_(std::move(directory)), limits_(limits) {}

  // Counts what is in the directory ("") or in a folder of it, whose name ends with '/'. Before saves begin there.
  void Scan(const std::string& folder);
  // Counts an entry of the directory or a folder, ".live/acme+digits", as it is now. Requires: nobody else changes it.
  void Look(const std::string& entry);

  // Gives the room back when it is destroyed, and counts the checkpoint as it is then: the save has ended.
  using Room = std::shared_ptr<const void>;

  // Room for `bytes` as the checkpoint `name`. RESOURCE_EXHAUSTED tells the limit, the bytes used and the bytes wanted.
  absl::StatusOr<Room> Reserve(const std::string& name, int64_t bytes);

  // The bytes of all checkpoints, those that are being saved and those that were set aside among them.
  int64_t UsedBytes() const;
  // Those that were set aside.
  int64_t AsideBytes() const;

 private:
  struct Sum {
    int64_t bytes = 0;
    int64_t checkpoints = 0;
  };
  struct Used {
    Sum all, tenants;  // The second one is the part of the tenant who saves.
  };
  Used UsedByOthersLocked(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetLocked(const std::string& entry, std::optional<int64_t> bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The bytes of an entry; none: it is not there, or is neither a checkpoint nor set aside.
  std::optional<int64_t> BytesOf(const std::string& entry) const;
  absl::Status CheckCount(const Used& used) const;
  absl::Status CheckTenant(absl::string_view tenant, int64_t bytes, const Used& used) const;
  absl::Status CheckDiskLocked(int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveBack(std::multimap<std::string, int64_t>::iterator reserved);

  const FileSystem& files_;
  const std::string directory_;
  const StoreLimits limits_;
  mutable Mutex mu_;
  std::map<std::string, int64_t> stored_ ABSL_GUARDED_BY(mu_);         // Bytes by entry,
  Sum sum_ ABSL_GUARDED_BY(mu_);                                       // their sum,
  std::map<std::string, Sum, std::less<>> sums_ ABSL_GUARDED_BY(mu_);  // and by owner.
  int64_t aside_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::multimap<std::string, int64_t> reserved_ ABSL_GUARDED_BY(mu_);  // Bytes by checkpoint.
};

}  // namespace gluond

#endif  // ENGINE_STORE_STORE_QUOTA_H_
