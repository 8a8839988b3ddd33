#include "engine/train/metric.h"

#include <vector>

#include "engine/core/convert.h"

namespace gluond {
namespace {

struct TopKParam : Param<TopKParam> {
  int top_k;
  static void Fields(Schema<TopKParam>& s) {
    s.Field("top_k", &TopKParam::top_k).Default(1).AtLeast(1).Describe("Among how many best classes the label counts.");
  }
};

// The values of a tensor as floats: its own memory, or converted into `space`.
const float* Floats(const Tensor& tensor, std::vector<float>* space) {
  if (tensor.dtype() == DType::kFloat32) return tensor.data<float>();
  space->resize(static_cast<size_t>(tensor.Size()));
  ConvertValues(tensor.data(), tensor.dtype(), space->data(), DType::kFloat32, tensor.Size());
  return space->data();
}

// The share of samples whose label is among the k classes of the largest predictions, ties in favour of the lower
// class. Predictions are (batch, classes, ...), labels class numbers (batch, ...). If there are as many predictions as
// labels, predictions are class numbers, too.
class TopK : public Metric {
 public:
  explicit TopK(int k) : k_(k) {}

  absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor&, MetricSum* sum) const override {
    if (!label.defined()) return absl::InvalidArgumentError("accuracy wants labels");
    std::vector<float> prediction_space, label_space;
    const float* const p = Floats(prediction, &prediction_space);
    const float* const y = Floats(label, &label_space);
    const Shape& shape = prediction.shape();
    const int64_t count = label.Size();
    if (shape.ndim() < 2 || count == prediction.Size()) {
      if (count != prediction.Size()) return Mismatch(prediction, label);
      for (int64_t i = 0; i < count; ++i) sum->sum += p[i] == y[i];
      sum->count += count;
      return absl::OkStatus();
    }
    const int64_t classes = shape[1], inner = shape.Size(2, shape.ndim());
    if (count != shape[0] * inner) return Mismatch(prediction, label);
    for (int64_t i = 0; i < count; ++i) {
      const float* const row = p + i / inner * classes * inner + i % inner;
      const auto wanted = static_cast<int64_t>(y[i] >= 0 && y[i] < static_cast<float>(classes) ? y[i] : -1);
      sum->sum += wanted >= 0 && Rank(row, classes, inner, wanted) < k_;
    }
    sum->count += count;
    return absl::OkStatus();
  }

 private:
  static absl::Status Mismatch(const Tensor& prediction, const Tensor& label) {
    return absl::InvalidArgumentError(absl::StrCat("accuracy wants one label for each row of predictions ",
                                                   prediction.shape().ToString(), ", got ",
                                                   label.shape().ToString()));
  }

  // The number of classes before `wanted`. NaN comes before all numbers.
  static int64_t Rank(const float* row, int64_t classes, int64_t stride, int64_t wanted) {
    const float value = row[wanted * stride];
    int64_t rank = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const float other = row[c * stride];
      rank += other > value || (other == value && c < wanted) || other != other;
    }
    return rank;
  }

  const int k_;
};

class LossMean : public Metric {
 public:
  absl::Status Add(const Tensor&, const Tensor&, const Tensor& loss, MetricSum* sum) const override {
    std::vector<float> space;
    const float* const values = Floats(loss, &space);
    for (int64_t i = 0; i < loss.Size(); ++i) sum->sum += values[i];
    sum->count += loss.Size();
    return absl::OkStatus();
  }
};

using Made = absl::StatusOr<std::unique_ptr<Metric>>;

}  // namespace

const MetricCatalog& Metrics() {
  static const MetricCatalog& catalog = *new MetricCatalog("metric", {
      {"accuracy", "The share of samples whose largest prediction is the label's.", {},
       [](const AttrDict& attrs) -> Made {
         RETURN_IF_ERROR(ParseAttrs<NoParam>(attrs).status());
         return std::make_unique<TopK>(1);
       }},
      {"top_k_accuracy", "The share of samples whose label is among the top_k largest predictions.",
       TopKParam::__FIELDS__(),
       [](const AttrDict& attrs) -> Made {
         ASSIGN_OR_RETURN(const TopKParam p, ParseAttrs<TopKParam>(attrs));
         return std::make_unique<TopK>(p.top_k);
       }},
      {"loss", "The mean of the loss.", {},
       [](const AttrDict& attrs) -> Made {
         RETURN_IF_ERROR(ParseAttrs<NoParam>(attrs).status());
         return std::make_unique<LossMean>();
       }},
  });
  return catalog;
}

}  // namespace gluond
