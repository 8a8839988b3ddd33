// Optimizer: the update operator that a trainer calls for each parameter, its states, and its numbers at each step. The
// operator does the arithmetic, on the model's own memory and device.

#ifndef ENGINE_TRAIN_OPTIMIZER_H_
#define ENGINE_TRAIN_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/core/node_attrs.h"
#include "engine/nn/catalog.h"

namespace gluond {

// The attributes of every optimizer, with MXNet's names.
struct OptimizerParam {
  double learning_rate;
  double wd;
  double clip_gradient;  // Each element of a gradient is cut to [-clip_gradient, clip_gradient]; not positive: not cut.
  bool multi_precision;  // Updates of a 16-bit parameter add up in a float32 weight, its state.

  // Its name in the update operators.
  AttrDict UpdateAttrs() const;
};

// A parameter of the update operator that changes from step to step.
struct StepNumber {
  const char* name;
  double value;
};

using StepNumbers = absl::InlinedVector<StepNumber, 4>;

class Optimizer {
 public:
  explicit Optimizer(const OptimizerParam& param) : param_(param) {}
  virtual ~Optimizer() = default;

  const OptimizerParam& param() const { return param_; }

  // The update operator's name. Its inputs are weight, gradient and states(); it has the parameters rescale_grad and
  // clip_gradient. The operator "mp_<name>" has one more input after the states: a float32 weight, which it updates,
  // and of which the first weight becomes a copy.
  virtual std::string op() const = 0;
  // The operator's constant attributes.
  virtual AttrDict attrs() const = 0;
  // Names of the states: tensors of the weight's shape that begin as zeros.
  virtual std::vector<std::string> states() const { return {}; }
  // The operator's numbers at update `t` of a parameter, from 1; `lr` and `wd` are that parameter's.
  virtual StepNumbers numbers(int64_t t, double lr, double wd) const { (void)t; return {{"lr", lr}, {"wd", wd}}; }

 private:
  const OptimizerParam param_;
};

using OptimizerCatalog = Catalog<absl::StatusOr<std::unique_ptr<Optimizer>>(const AttrDict&)>;
const OptimizerCatalog& Optimizers();  // sgd, nag, adam, adamw, rmsprop.

}  // namespace gluond

#endif  // ENGINE_TRAIN_OPTIMIZER_H_
