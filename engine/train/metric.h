// Metric: a number that tells how good predictions are, computed on the host from predictions, labels and losses, with
// MXNet's formulas. Each metric decides whether a call's value is of its samples or of its batches.

#ifndef ENGINE_TRAIN_METRIC_H_
#define ENGINE_TRAIN_METRIC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/tensor.h"
#include "engine/nn/catalog.h"

namespace gluond {

// The sums that a metric keeps of the batches that it has seen.
struct MetricSum {
  double sum = 0;
  int64_t count = 0;
  std::vector<double> parts = {};  // Sums of metrics that are no means.
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

class Metric {
 public:
  virtual ~Metric() = default;
  // Adds one batch. Tensors lie on the CPU; `loss` has one value for each sample; `label` may be undefined.
  // INVALID_ARGUMENT: shapes that do not fit, or a label that is no class.
  virtual absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor& loss, MetricSum* sum) const = 0;
  // The value over all batches that were added; 0 before the first.
  virtual double Value(const MetricSum& sum) const { return sum.mean(); }
};

using MetricCatalog = Catalog<absl::StatusOr<std::unique_ptr<Metric>>(const AttrDict&)>;
const MetricCatalog& Metrics();

}  // namespace gluond

#endif  // ENGINE_TRAIN_METRIC_H_
