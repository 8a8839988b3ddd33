// Parts that the metrics share. Only their files include this one.

#ifndef ENGINE_TRAIN_METRICS_H_
#define ENGINE_TRAIN_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/metric.h"

namespace gluond {

std::vector<MetricCatalog::Entry> ClassMetrics();
std::vector<MetricCatalog::Entry> NumberMetrics();

// The elements of a tensor as floats: its own memory, or a converted copy. The tensor outlives it.
class Floats {
 public:
  explicit Floats(const Tensor& tensor);
  Floats(const Floats&) = delete;

  const float* begin() const { return data_; }
  int64_t size() const { return size_; }
  float operator[](int64_t i) const { return data_[i]; }

 private:
  std::vector<float> space_;
  const float* data_;
  int64_t size_;
};

// Predictions and labels of a batch whose predictions have an axis of classes, and labels all the others.
class Scores {
 public:
  // INVALID_ARGUMENT: no labels, or another number of them than there are samples.
  static absl::StatusOr<std::unique_ptr<Scores>> Of(const Tensor& prediction, const Tensor& label, int axis);

  int64_t samples() const { return labels.size(); }
  int64_t classes() const { return classes_; }
  // A sample's value for class c is row(sample)[c * stride()].
  const float* row(int64_t sample) const { return values_.begin() + sample / inner_ * classes_ * inner_ + sample % inner_; }
  int64_t stride() const { return inner_; }
  int64_t label(int64_t sample) const;  // Truncated; NaN is 0.
  // The class of the largest value, the first of equal ones; NaN counts as largest.
  int64_t Best(int64_t sample) const;
  // INVALID_ARGUMENT: the label is no class.
  absl::Status CheckLabel(int64_t sample) const;

  const Floats labels;

 private:
  Scores(const Tensor& prediction, const Tensor& label, int64_t classes, int64_t inner)
      : labels(label), values_(prediction), classes_(classes), inner_(inner) {}

  const Floats values_;
  const int64_t classes_, inner_;
};

// INVALID_ARGUMENT: no labels, or another number of them than of predictions.
absl::Status CheckAlike(const Tensor& prediction, const Tensor& label);

// Whether a metric is the mean of the batches' values, or one value of all samples.
enum Average { kMacro, kMicro };
template <class P>
void AverageField(Schema<P>& s) {
  s.Field("average", &P::average)
      .Enum({{"macro", kMacro}, {"micro", kMicro}})
      .Default("macro")
      .Describe("macro: the mean of the batches' values. micro: the value of all samples together.");
}

// Makes a metric M from its parameters P.
template <class M, class P>
MetricCatalog::Entry MakeMetricEntry(const char* name, const char* description, std::vector<std::string> aliases = {}) {
  return {name, description, P::__FIELDS__(),
          [](const AttrDict& attrs) -> absl::StatusOr<std::unique_ptr<Metric>> {
            ASSIGN_OR_RETURN(const P p, ParseAttrs<P>(attrs));
            return std::make_unique<M>(p);
          },
          std::move(aliases)};
}

}  // namespace gluond

#endif  // ENGINE_TRAIN_METRICS_H_
