// LrSchedule: the learning rate as a pure function of the number of the update, with MXNet's formulas. Having no state,
// it resumes by itself.

#ifndef ENGINE_TRAIN_LR_SCHEDULE_H_
#define ENGINE_TRAIN_LR_SCHEDULE_H_

#include <cstdint>
#include <memory>

#include "engine/nn/catalog.h"

namespace gluond {

class LrSchedule {
 public:
  virtual ~LrSchedule() = default;
  // The rate of update number `update`, from 1. Thread-safe.
  virtual double operator()(int64_t update) const = 0;
};

// `base_lr` is the optimizer's learning rate, unless the attributes have another.
using LrScheduleCatalog = Catalog<absl::StatusOr<std::unique_ptr<LrSchedule>>(const AttrDict&, double base_lr)>;
const LrScheduleCatalog& LrSchedules();  // factor, multifactor, poly, cosine.

}  // namespace gluond

#endif  // ENGINE_TRAIN_LR_SCHEDULE_H_
