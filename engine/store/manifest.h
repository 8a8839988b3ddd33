// Manifest: the contents of a checkpoint's manifest.json: the sizes and checksums of the files beside it, and all state
// but tensors.

#ifndef ENGINE_STORE_MANIFEST_H_
#define ENGINE_STORE_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/random_state.h"
#include "engine/store/json.h"
#include "engine/train/trainer.h"

namespace gluond {

struct FileEntry {
  std::string name;
  int64_t bytes = 0;
  uint32_t crc32c = 0;
};

// A model's place on a server, which a live checkpoint has beside the model itself.
struct Hosting {
  std::string device;                 // As Device::Parse takes it.
  uint64_t seed = 0;                  // The model's, from which parameters get their first values.
  std::optional<double> ttl_seconds;  // The model ends after so long without a call. Absent: never.
  uint64_t version = 0;               // Counts the changes of parameters.
  // The last numbered call of each client that the model's state has in it, by the client's name.
  std::vector<std::pair<std::string, uint64_t>> applied;
  // Likewise of clients that have been silent for long, as the server that wrote it packs them, by identity.
  std::map<std::string, std::string> silent;
  // Clients in `applied` of whose last call the state has the first steps alone.
  std::set<std::string> in_part = {};
};

struct Manifest {
  int64_t saved_unix_seconds = 0;
  RandomState random;
  std::optional<TrainerState> trainer;         // Without the optimizer's tensors.
  std::optional<Hosting> hosting;              // A live checkpoint has it.
  std::optional<int64_t> virtual_shards = {};  // As a Checkpoint's,
  std::optional<Json> notes;                   // as these.
  std::vector<FileEntry> files;

  int64_t step() const { return trainer.has_value() ? trainer->step : 0; }
  int64_t bytes() const;  // All files'.
  // DATA_LOSS: the file is not listed.
  absl::StatusOr<FileEntry> Find(absl::string_view file) const;
};

// OK: the member `format_version` is `known`. FAILED_PRECONDITION: a newer server wrote it. INVALID_ARGUMENT: it is
// missing or older.
absl::Status CheckFormatVersion(const Json& json, int64_t known);

Json ManifestToJson(const Manifest& manifest);
// FAILED_PRECONDITION: written by a newer server. INVALID_ARGUMENT: a member is missing or wrong; names it.
absl::StatusOr<Manifest> ManifestFromJson(const Json& json);

}  // namespace gluond

#endif  // ENGINE_STORE_MANIFEST_H_
