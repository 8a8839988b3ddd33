// The formulas of metrics: what the server computes of a batch, and the number that is made of it.

#ifndef GLUOND_CLIENT_CPP_GLUON_METRIC_ROWS_H_
#define GLUOND_CLIENT_CPP_GLUON_METRIC_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gluond/ndarray.h"
#include "gluond/tensor.h"

namespace gluond::client::metric {

struct Settings {
  int axis = 1;
  int64_t top_k = 1;
  bool is_micro = false;
  std::optional<int64_t> ignore_label = {};
  double eps = 1e-12;
};

// An array whose shape is known.
struct Shaped {
  NDArray array;
  Shape shape;

  int64_t size() const;
};

struct Formula {
  const char* name;
  // A batch's numbers, float64 of one axis, on the server. label: null, or the batch's labels.
  absl::StatusOr<NDArray> (*row)(const Settings& settings, const Shaped* label, const Shaped& prediction);
  // The metric of such numbers.
  absl::StatusOr<double> (*value)(absl::Span<const double> row);
  // Whether rows are always added up; else with `micro` alone, and otherwise the value is the mean of the batches'.
  bool adds;
  int axis = 1;  // The axis of classes, unless told.
};

// Null: there is none.
const Formula* FindFormula(const std::string& name);
std::string NamesOfFormulas();

}  // namespace gluond::client::metric

#endif  // GLUOND_CLIENT_CPP_GLUON_METRIC_ROWS_H_
