// Metrics of numbers: distances and correlation of predictions and labels, and the loss itself.

#include <cmath>

#include "engine/train/metrics.h"

namespace gluond {
namespace {

enum Distance { kAbsolute, kSquare, kRoot };

// The mean over batches of a batch's distance.
template <Distance distance>
class MeanDistance : public Metric {
 public:
  explicit MeanDistance(const NoParam&) {}

  absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor&, MetricSum* sum) const override {
    RETURN_IF_ERROR(CheckAlike(prediction, label));
    const Floats p(prediction), y(label);
    double total = 0;
    for (int64_t i = 0; i < y.size(); ++i) {
      const double d = static_cast<double>(y[i]) - p[i];
      total += distance == kAbsolute ? std::abs(d) : d * d;
    }
    const double mean = total / static_cast<double>(y.size());
    sum->sum += distance == kRoot ? std::sqrt(mean) : mean;
    ++sum->count;
    return absl::OkStatus();
  }
};

struct PearsonParam : Param<PearsonParam> {
  int average;
  static void Fields(Schema<PearsonParam>& s) { AverageField(s); }
};

class Pearson : public Metric {
 public:
  explicit Pearson(const PearsonParam& p) : average_(p.average) {}

  absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor&, MetricSum* sum) const override {
    RETURN_IF_ERROR(CheckAlike(prediction, label));
    const Floats p(prediction), y(label);
    std::vector<double> moments = sum->parts;
    if (average_ == kMacro || moments.empty()) moments.assign(6, 0);
    moments[0] += static_cast<double>(y.size());
    for (int64_t i = 0; i < y.size(); ++i) {
      const double a = p[i], b = y[i];
      moments[1] += a, moments[2] += b, moments[3] += a * a, moments[4] += b * b, moments[5] += a * b;
    }
    if (average_ == kMacro) {
      sum->sum += Correlation(moments);
      ++sum->count;
    } else {
      sum->parts = std::move(moments);
    }
    return absl::OkStatus();
  }

  double Value(const MetricSum& sum) const override {
    return average_ == kMacro || sum.parts.empty() ? sum.mean() : Correlation(sum.parts);
  }

 private:
  // m: the number of samples, and the sums of x, y, x^2, y^2 and x y.
  static double Correlation(const std::vector<double>& m) {
    const double xx = m[0] * m[3] - m[1] * m[1], yy = m[0] * m[4] - m[2] * m[2];
    return (m[0] * m[5] - m[1] * m[2]) / std::sqrt(xx * yy);
  }

  const int average_;
};

class LossMean : public Metric {
 public:
  explicit LossMean(const NoParam&) {}

  absl::Status Add(const Tensor&, const Tensor&, const Tensor& loss, MetricSum* sum) const override {
    const Floats values(loss);
    for (int64_t i = 0; i < values.size(); ++i) sum->sum += values[i];
    sum->count += values.size();
    return absl::OkStatus();
  }
};

}  // namespace

std::vector<MetricCatalog::Entry> NumberMetrics() {
  return {
      MakeMetricEntry<MeanDistance<kAbsolute>, NoParam>("mae", "The mean absolute difference, the mean over batches."),
      MakeMetricEntry<MeanDistance<kSquare>, NoParam>("mse", "The mean squared difference, the mean over batches."),
      MakeMetricEntry<MeanDistance<kRoot>, NoParam>("rmse",
                                                    "The root of a batch's mean squared difference, the mean over batches."),
      MakeMetricEntry<Pearson, PearsonParam>("pearsonr", "Pearson's correlation of predictions and labels.",
                                             {"pearsoncorrelation"}),
      MakeMetricEntry<LossMean, NoParam>("loss", "The mean of the loss.", {"torch", "caffe"}),
  };
}

}  // namespace gluond
