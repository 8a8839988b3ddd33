// Functions that the stores of datasets and of sessions share: both write checkpoints with notes instead of a model.

#ifndef ENGINE_STORE_NOTES_H_
#define ENGINE_STORE_NOTES_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "engine/core/status_macros.h"
#include "engine/store/checkpoint.h"

namespace gluond {

inline int64_t ToMicros(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}
inline std::chrono::system_clock::time_point FromMicros(int64_t micros) {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::microseconds(micros)));
}

// As CheckpointStore::Save, and replaces a damaged checkpoint, too.
inline absl::Status SaveOverDamaged(CheckpointStore& store, const std::string& name, const Checkpoint& checkpoint) {
  absl::Status status = store.Save(name, checkpoint).status();
  if (!absl::IsDataLoss(status)) return status;
  RETURN_IF_ERROR(store.Delete(name));
  return store.Save(name, checkpoint).status();
}

}  // namespace gluond

#endif  // ENGINE_STORE_NOTES_H_
