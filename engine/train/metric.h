// Metric: a mean over samples, computed on the host from predictions, labels and losses.

#ifndef ENGINE_TRAIN_METRIC_H_
#define ENGINE_TRAIN_METRIC_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "engine/core/tensor.h"
#include "engine/nn/catalog.h"

namespace gluond {

struct MetricSum {
  double sum = 0;
  int64_t count = 0;
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

class Metric {
 public:
  virtual ~Metric() = default;
  // Adds one batch. Tensors lie on the CPU; `loss` has one value for each sample; `label` may be undefined.
  // INVALID_ARGUMENT: shapes that do not fit.
  virtual absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor& loss, MetricSum* sum) const = 0;
};

using MetricCatalog = Catalog<absl::StatusOr<std::unique_ptr<Metric>>(const AttrDict&)>;
const MetricCatalog& Metrics();  // accuracy, top_k_accuracy, loss.

}  // namespace gluond

#endif  // ENGINE_TRAIN_METRIC_H_
