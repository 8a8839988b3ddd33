// SessionStore: what sessions have saved, in one directory, each written whole or not at all.
//
//   auto folder = checkpoints->OpenApart(".sessions");
//   SessionStore store(std::move(folder));
//   RETURN_IF_ERROR(store.Save("run-7", saved));
//   ASSIGN_OR_RETURN(SessionSave saved, store.Load("run-7", memory));
//
// On disk a save is a checkpoint (checkpoint.h) without a model. The arrays are the tensors "0", "1", ... The notes have
// a format_version of their own and all else.

#ifndef ENGINE_STORE_SESSION_STORE_H_
#define ENGINE_STORE_SESSION_STORE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"
#include "engine/nn/named_tensor.h"
#include "engine/runtime/random_state.h"
#include "engine/store/checkpoint.h"

namespace gluond {

// A save without its arrays' values.
struct SessionSummary {
  struct Array {
    std::string name;
    DType dtype = DType::kUnknown;
    Shape shape;
  };
  std::string key_hash;                                                              // The hash of the secret that opens it.
  uint64_t version = 0;                                                              // Counts the saves of the name.
  std::string client;                                                                // The client that saved it.
  std::chrono::system_clock::time_point created = std::chrono::system_clock::now();  // To the microsecond.
  std::string manifest;                                                              // The client's own words.
  std::vector<Array> arrays;

  int64_t bytes() const;
};

struct SessionSave {
  SessionSummary summary;
  RandomState random;
  NamedTensors arrays;  // As summary.arrays; on the host.
};

// Thread-safe. Its functions wait for the disk, as CheckpointStore's.
class SessionStore {
 public:
  // Grows when an older server would misread what this one writes.
  static constexpr int64_t kFormatVersion = 1;

  // `store` holds sessions' saves alone.
  explicit SessionStore(std::unique_ptr<CheckpointStore> store) : store_(std::move(store)) {}

  // Returns when the save is on the disk. Replaces one of that name, a damaged one, too. Errors as
  // CheckpointStore::Save; the old one is as it was then. INVALID_ARGUMENT: a bool that is neither 0 nor 1.
  absl::Status Save(const std::string& name, const SessionSave& save);
  // Errors as CheckpointStore::Load. The arrays lie in `host_allocator`'s memory.
  absl::StatusOr<SessionSave> Load(const std::string& name, Allocator& host_allocator) const;
  absl::StatusOr<SessionSummary> LoadSummary(const std::string& name) const;
  // All names, sorted, also those of damaged saves.
  absl::StatusOr<std::vector<std::string>> Names() const { return store_->Names(); }
  // Deletes damaged saves, too. NOT_FOUND: there is none.
  absl::Status Delete(const std::string& name) { return store_->Delete(name); }

 private:
  const std::unique_ptr<CheckpointStore> store_;
};

}  // namespace gluond

#endif  // ENGINE_STORE_SESSION_STORE_H_
