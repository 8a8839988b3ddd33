// Optimizer: the rule by which a trainer updates a parameter from its gradient: the states, the nodes of the update,
// and their numbers at each step. Operators do the arithmetic, on the model's own memory and device. They are those
// that the Python client's optimizer calls, in the same order and with the same attributes, so that results have the same
// bits. Where one operator stands for several of these, it rounds as they do.

#ifndef ENGINE_TRAIN_OPTIMIZER_H_
#define ENGINE_TRAIN_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/core/node_attrs.h"
#include "engine/nn/catalog.h"
#include "engine/train/update_graph.h"

namespace gluond {

// The attributes of every optimizer, with MXNet's names.
struct OptimizerParam {
  double learning_rate;
  double wd;
  // Each element of a gradient is cut to [-clip_gradient, clip_gradient]; none, or not positive: not cut.
  std::optional<double> clip_gradient;
  bool multi_precision;  // Updates of a 16-bit parameter add up in a float32 weight, its state.

  bool clips() const { return clip_gradient.value_or(0) > 0; }
  // The attributes that every update operator has, but for `name`'s, the limit of gradients.
  AttrDict UpdateAttrs(const char* clip_name = "clip_gradient") const;
};

// A state: a tensor for each parameter, which begins as zeros.
struct OptimizerState {
  enum Form {
    kLikeWeight,  // The weight's shape and type; float32 for a type of 16 bits.
    kRows,        // The same type, one element for each row: [rows, 1].
    kNumber,      // float64 [1].
  };
  const char* name;
  Form form = kLikeWeight;
};
using OptimizerStates = absl::InlinedVector<OptimizerState, 3>;

// One update of one parameter.
struct UpdateRates {
  int64_t t;             // The update's number, from 1.
  double learning_rate;  // The trainer's.
  double lr, wd;         // The parameter's own: multiplied by its lr_mult and wd_mult.
};

// A number of the update graph that changes from step to step.
struct StepNumber {
  const char* name;
  double value;
};
using StepNumbers = absl::InlinedVector<StepNumber, 8>;

class Optimizer {
 public:
  explicit Optimizer(const OptimizerParam& param) : param_(param) {}
  virtual ~Optimizer() = default;

  const OptimizerParam& param() const { return param_; }

  virtual OptimizerStates states() const { return {}; }
  // Makes the nodes of an update. A weight of 16 bits is updated in float32: in its state weight32, or, where it has
  // none, in a value of this step. INVALID_ARGUMENT: a weight that this optimizer cannot update.
  virtual absl::Status Build(UpdateGraph& u) const;
  // The numbers that the nodes read. There is one more, "rescale_grad".
  virtual StepNumbers numbers(const UpdateRates& at) const { return {{"lr", at.lr}, {"wd", at.wd}}; }

 protected:
  // The nodes for a weight of 32 or 64 bits.
  virtual absl::Status Expand(UpdateGraph& u) const = 0;

  // clip(rescale_grad grad).
  NodeEntry Scaled(UpdateGraph& u) const { return Clipped(u, u.Times(u.grad, "rescale_grad")); }
  // clip(rescale_grad grad + wd w).
  NodeEntry Decayed(UpdateGraph& u) const { return Clipped(u, u.Times(u.grad, "rescale_grad") + u.Times(u.weight, "wd")); }

 private:
  NodeEntry Clipped(UpdateGraph& u, const NodeEntry& g) const;

  const OptimizerParam param_;
};

// An optimizer that is one update operator.
class OperatorOptimizer : public Optimizer {
 public:
  using Optimizer::Optimizer;

  // The operator's name. Its inputs are weight, gradient and states(), which it writes. Where there is an operator
  // "mp_<name>", that has one more input: a float32 weight, which it updates, and of which the first becomes a copy.
  virtual std::string op() const = 0;
  // The operator's constant attributes. Its numbers are attributes, too.
  virtual AttrDict attrs() const = 0;

  absl::Status Build(UpdateGraph& u) const override;

 protected:
  absl::Status Expand(UpdateGraph& u) const override;

 private:
  void Call(UpdateGraph& u, const std::string& op, bool with_weight32) const;
};

// The states and numbers of an optimizer's updates, as they lie in memory.

inline constexpr char kWeight32[] = "weight32";

inline bool HasSixteenBits(DType type) { return type == DType::kFloat16 || type == DType::kBfloat16; }
// Whether such a weight has the state weight32, which is the last one.
inline bool HasWeight32(const Optimizer& optimizer, DType type) {
  return optimizer.param().multi_precision && HasSixteenBits(type);
}

// A state as it lies in memory.
struct StateSignature {
  std::string name;
  Shape shape;
  DType dtype;
};
// The states of a weight of that shape and type.
std::vector<StateSignature> StatesOf(const Optimizer& optimizer, const Shape& shape, DType dtype);

// The number behind 8 bytes of memory.
struct NumberPlace {
  size_t parameter;
  size_t index;  // Among the parameter's numbers.
  DType type;
};
// The numbers of a parameter's next update: the optimizer's, and rescale_grad.
StepNumbers NumbersOf(const Optimizer& optimizer, const UpdateRates& at, double rescale);
// By place of `joint`. INTERNAL: the optimizer has no such number.
absl::StatusOr<std::vector<NumberPlace>> NumberPlaces(const JointUpdate& joint, const Optimizer& optimizer);
// Writes the numbers, 8 bytes for each place. `of` has those of a parameter.
void WriteNumbers(absl::Span<const NumberPlace> places, absl::FunctionRef<StepNumbers(size_t)> of, char* to);

using OptimizerCatalog = Catalog<absl::StatusOr<std::unique_ptr<Optimizer>>(const AttrDict&)>;
// MXNet's but for its Test, and adamw.
const OptimizerCatalog& Optimizers();

}  // namespace gluond

#endif  // ENGINE_TRAIN_OPTIMIZER_H_
