// CheckpointSchedule: how often the server saves what it holds, as --checkpoint_every says it.

#ifndef SERVER_START_CHECKPOINT_SCHEDULE_H_
#define SERVER_START_CHECKPOINT_SCHEDULE_H_

#include <chrono>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

struct CheckpointSchedule {
  int64_t steps = 0;               // After so many steps of a model; 0: whatever their number.
  std::chrono::seconds period{0};  // When a change is so old; 0: however old it is.

  bool any() const { return steps > 0 || period.count() > 0; }
};

// "500steps", "10m" (or s, h), both with a comma between them, or nothing. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<CheckpointSchedule> ParseCheckpointSchedule(absl::string_view text);

}  // namespace gluond::server

#endif  // SERVER_START_CHECKPOINT_SCHEDULE_H_
