#include "engine/train/metric.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/train/metrics.h"

namespace gluond {

Floats::Floats(const Tensor& tensor) : size_(tensor.Size()) {
  if (tensor.dtype() != DType::kFloat32) {
    space_.resize(static_cast<size_t>(size_));
    ConvertValues(tensor.data(), tensor.dtype(), space_.data(), DType::kFloat32, size_);
  }
  data_ = tensor.dtype() == DType::kFloat32 ? tensor.data<float>() : space_.data();
}

absl::StatusOr<std::unique_ptr<Scores>> Scores::Of(const Tensor& prediction, const Tensor& label, int axis) {
  if (!label.defined()) return absl::InvalidArgumentError("it wants labels; send a tensor 'label'");
  const Shape& shape = prediction.shape();
  const int at = axis < 0 ? axis + shape.ndim() : axis;
  if (at < 0 || at >= shape.ndim()) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is none of predictions ", shape.ToString()));
  }
  const int64_t inner = shape.Size(at + 1, shape.ndim());
  if (label.Size() != shape.Size(0, at) * inner || shape[at] == 0) {
    return absl::InvalidArgumentError(absl::StrCat("it wants one label for each row of predictions ", shape.ToString(),
                                                   " along axis ", axis, ", got ", label.shape().ToString()));
  }
  return std::unique_ptr<Scores>(new Scores(prediction, label, shape[at], inner));
}

int64_t Scores::label(int64_t sample) const { return Convert<int64_t>(labels[sample]); }

int64_t Scores::Best(int64_t sample) const {
  const float* const values = row(sample);
  int64_t best = 0;
  for (int64_t c = 1; c < classes_; ++c) {
    const float value = values[c * stride()], most = values[best * stride()];
    if (value > most || (value != value && most == most)) best = c;
  }
  return best;
}

absl::Status Scores::CheckLabel(int64_t sample) const {
  const float y = labels[sample];
  if (y >= 0 && y < static_cast<float>(classes_)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("label ", y, " of sample ", sample, " is no class; want 0 to ", classes_ - 1));
}

absl::Status CheckAlike(const Tensor& prediction, const Tensor& label) {
  if (!label.defined()) return absl::InvalidArgumentError("it wants labels; send a tensor 'label'");
  if (prediction.Size() == label.Size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it wants one label for each prediction, got ", label.shape().ToString(),
                                                 " for predictions ", prediction.shape().ToString()));
}

const MetricCatalog& Metrics() {
  static const MetricCatalog& catalog = *new MetricCatalog("metric", [] {
    std::vector<MetricCatalog::Entry> entries = ClassMetrics(), numbers = NumberMetrics();
    std::move(numbers.begin(), numbers.end(), std::back_inserter(entries));
    return entries;
  }());
  return catalog;
}

}  // namespace gluond
