// ShardedStep: which part of a step's batch a process computes, where several processes compute a step together.
//
// The batch's rows are in `shards` shards, each in a fixed place: shard s has the rows [FirstRow(s), FirstRow(s + 1)), perhaps
// none. A process computes consecutive shards. Each shard is a batch of its own: its random numbers depend on its number, its
// running statistics begin with the model's. Gradients are sums over rows, added up in a binary tree over the shards,
// ((0 + 1) + (2 + 3)) + ..., within a process (shard_sums.h) and then over the processes (gradient_reducer.h). So the number of
// processes, a power of two, changes no bit of a step.

#ifndef ENGINE_TRAIN_SHARDED_STEP_H_
#define ENGINE_TRAIN_SHARDED_STEP_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "engine/train/batches.h"

namespace gluond {

struct ShardedStep {
  static constexpr int64_t kMostShards = 4096;
  static constexpr int64_t kMostRows = int64_t{1} << 40;

  int64_t rows = 0;    // The whole batch's, over all processes.
  int64_t shards = 1;  // A power of two; a model has the same number for good.
  // This process computes the shards [first, first + count): `count` is a power of two that divides `first`. 0: none; a spare
  // process is handed the sums by its reducer, and follows.
  int64_t first = 0;
  int64_t count = 1;
  // If given, becomes the trainer's position in its dataset when the step is applied.
  std::optional<DatasetPosition> position = {};

  int64_t FirstRow(int64_t shard) const { return shard * rows / shards; }
  // The rows of this process: [begin(), end()).
  int64_t begin() const { return FirstRow(first); }
  int64_t end() const { return FirstRow(first + count); }

  // INVALID_ARGUMENT: a number is out of its range.
  absl::Status Check() const;
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_SHARDED_STEP_H_
