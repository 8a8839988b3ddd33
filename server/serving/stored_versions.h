// StoredVersions: published versions in one directory of the store. Each is a checkpoint, `<name>.<number>`; the index of
// a name, `<name>.index`, has its versions' options, the routes to them, and the next number. A version that its index
// does not name was never published, or is retired. `names.retired` has the last numbers of a tenant's names without versions.
//
// Its functions wait for the disk.

#ifndef SERVER_SERVING_STORED_VERSIONS_H_
#define SERVER_SERVING_STORED_VERSIONS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/nn/model.h"
#include "engine/store/checkpoint.h"
#include "server/serving/options.h"
#include "server/serving/retired_names.h"

namespace gluond::server {

// All about a version but its values.
struct VersionFacts {
  std::string source;           // The model or the checkpoint.
  uint64_t source_version = 0;  // The version of the model.
  std::chrono::system_clock::time_point created = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  ServingOptions options;
  // The call that published it, of a client that numbers its calls on the model: the number is 0 where none did.
  std::string client;
  uint64_t number = 0;
  // The checksum of its files at the leader that this server follows. Absent: it is no leader's.
  std::optional<uint32_t> checksum = std::nullopt;
};

// The label of the version for requests that name none.
inline constexpr char kStable[] = "stable";

// Which version a request gets.
struct Routes {
  std::map<std::string, int64_t> labels;
  std::map<int64_t, uint32_t> weights;
  bool are_lost = false;  // With a damaged index; nobody has set them again.

  bool operator==(const Routes&) const = default;
};

struct VersionIndex {
  int64_t next = 1;
  int64_t revision = 0;  // Counts changes.
  std::map<int64_t, VersionFacts> versions;
  Routes routes;
};

class StoredVersions {
 public:
  static constexpr int64_t kFormatVersion = 1;
  // Names leave room for the number.
  static constexpr size_t kLongestName = 100;

  // `store` holds versions alone.
  explicit StoredVersions(std::unique_ptr<CheckpointStore> store) : store_(std::move(store)) {}

  // Errors as of CheckpointStore.
  absl::Status SaveValues(const std::string& name, int64_t number, ModelState state);
  absl::StatusOr<ModelState> LoadValues(const std::string& name, int64_t number, Allocator& host_allocator) const;
  absl::Status DeleteValues(const std::string& name, int64_t number);
  // The files of the values, for another server, by the checksum that they have here.
  absl::StatusOr<uint32_t> Checksum(const std::string& name, int64_t number) const;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenFile(const std::string& name, int64_t number, uint32_t checksum,
                                                         const std::string& file) const;

  // SaveIndex replaces a damaged index.
  absl::Status SaveIndex(const std::string& name, const VersionIndex& index);
  absl::StatusOr<VersionIndex> LoadIndex(const std::string& name) const;
  absl::Status DeleteIndex(const std::string& name);

  // `tenant`: the prefix of its names. SaveRetired replaces damaged ones.
  absl::Status SaveRetired(const std::string& tenant, const RetiredNames& names);
  absl::StatusOr<RetiredNames> LoadRetired(const std::string& tenant) const;
  // The tenants that have retired names.
  absl::StatusOr<std::vector<std::string>> ListRetired() const;
  // All names with an index or a version's values, and the numbers of those versions, sorted.
  absl::StatusOr<std::map<std::string, std::vector<int64_t>>> List() const;

 private:
  const std::unique_ptr<CheckpointStore> store_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_STORED_VERSIONS_H_
