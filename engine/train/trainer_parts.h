// The private parts of Trainer.

#ifndef ENGINE_TRAIN_TRAINER_PARTS_H_
#define ENGINE_TRAIN_TRAINER_PARTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/nn/bound_graph.h"
#include "engine/train/batches.h"
#include "engine/train/trainer.h"
#include "engine/train/updater.h"

namespace gluond {

struct Trainer::Parts {
  Parts(Model& model, size_t num_inputs, std::unique_ptr<Optimizer> optimizer)
      : updater(model, std::move(optimizer)), staging(model, num_inputs) {}

  Updater updater;
  Staging staging;
  std::unique_ptr<LrSchedule> lr_schedule;  // Null: the optimizer's rate.
  std::vector<std::pair<std::string, std::unique_ptr<Metric>>> metrics;

  struct Compiled {
    std::unique_ptr<BoundGraph> graph;
    uint64_t version = 0;  // The parameter store's: which gradients the graph makes depends on it.
  };
  Compiled graphs[2][2];  // [train][weighted].
  DatasetPosition position;
  Tensor host_loss, host_prediction;  // Copies from another device, reused.
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_TRAINER_PARTS_H_
