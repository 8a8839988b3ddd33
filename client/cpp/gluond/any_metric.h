// Metric: how good predictions are, in one number. gluond/metric.h has each of the server's by name, with its options.
//
//   metric::Accuracy accuracy;
//   for (const auto& [image, label] : loader) accuracy.Update(label, net(image));
//   absl::StatusOr<double> share = accuracy.Get();

#ifndef GLUOND_ANY_METRIC_H_
#define GLUOND_ANY_METRIC_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"
#include "gluond/types.h"
#include "gluond/value.h"

namespace gluond::client::metric {

// Copies are the same metric. One thread at a time.
class GLUOND_EXPORT Metric {
 public:
  // The server's metric of this name. INVALID_ARGUMENT, by Get: it has none, or the attributes are wrong.
  explicit Metric(const std::string& name, const Attributes& attributes = {});

  // Adds a batch: the arrays' values of now, which autograd does not record. Waits for no array, unless a batch of 32 or more calls
  // ago is not there yet. metric::Loss wants no label, and the loss as the prediction.
  void Update(const NDArray& label, const NDArray& prediction, Place place = Place::Here());
  // Waits. The number over all batches since the beginning or Reset; 0 where there were none. Else the first error of a batch.
  absl::StatusOr<double> Get(Place place = Place::Here()) const;
  void Reset();

  // For CreateTrainer, so that reports have it.
  const Component& component() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gluond::client::metric

#endif  // GLUOND_ANY_METRIC_H_
