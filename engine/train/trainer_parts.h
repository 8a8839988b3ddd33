// The private parts of Trainer.

#ifndef ENGINE_TRAIN_TRAINER_PARTS_H_
#define ENGINE_TRAIN_TRAINER_PARTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/batches.h"
#include "engine/train/step_graph.h"
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

  std::unique_ptr<StepGraphs> graphs;
  DatasetPosition position;
  Tensor host_report, host_prediction;  // Copies from another device, reused.
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_TRAINER_PARTS_H_
