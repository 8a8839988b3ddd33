// The private parts of Trainer.

#ifndef ENGINE_TRAIN_TRAINER_PARTS_H_
#define ENGINE_TRAIN_TRAINER_PARTS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/random_stream.h"
#include "engine/train/batches.h"
#include "engine/train/shard_sums.h"
#include "engine/train/step_graph.h"
#include "engine/train/trainer.h"
#include "engine/train/updater.h"

namespace gluond {

// The random numbers of an update alone are others than those of the model's own nodes.
inline constexpr uint64_t kUpdateSeed = NameHash("update");

// A shard's message has its numbers that are no gradients: auxiliary states, the sum and the count of losses, rows, and metrics.
// The parts of each metric have so many places.
inline constexpr size_t kMostParts = 1024;
inline int64_t MessageSize(int64_t auxiliaries, size_t metrics) {
  return auxiliaries + 3 + static_cast<int64_t>(metrics * (4 + kMostParts));
}

struct Trainer::Parts {
  Parts(Model& model, size_t num_inputs, std::unique_ptr<Optimizer> optimizer)
      : updater(model, std::move(optimizer)),
        staging(model, num_inputs),
        sums(*model.options().lane, *model.options().allocator, *model.options().host_allocator) {}

  Updater updater;
  Staging staging;
  std::unique_ptr<LrSchedule> lr_schedule;  // Null: the optimizer's rate.
  std::vector<std::pair<std::string, std::unique_ptr<Metric>>> metrics;

  ShardSums sums;
  std::vector<Tensor> shard_inputs, shard_auxiliary;  // Memory for a shard, reused.
  std::vector<Tensor> shard_device_inputs;            // Its inputs on another device than the host.
  std::optional<absl::Status> may_shard;              // CheckSharded's, once somebody wants to know.

  std::unique_ptr<StepGraphs> graphs;  // Some refer to `sums`.
  DatasetPosition position;
  Tensor host_report, host_prediction;  // Copies from another device, reused.
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_TRAINER_PARTS_H_
