// Metrics of classes: how often the right one is predicted, and how surely.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/train/metrics.h"

namespace gluond {
namespace {

// The share of samples whose label is among the k classes of the largest predictions, ties in favour of the lower
// class. If there are as many predictions as labels, predictions are class numbers, too.
class TopK : public Metric {
 public:
  TopK(int k, int axis) : k_(k), axis_(axis) {}

  absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor&, MetricSum* sum) const override {
    if (label.defined() && label.Size() == prediction.Size()) {
      const Floats p(prediction), y(label);
      for (int64_t i = 0; i < y.size(); ++i) sum->sum += p[i] == y[i];
      sum->count += y.size();
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<Scores> scores, Scores::Of(prediction, label, axis_));
    for (int64_t i = 0; i < scores->samples(); ++i) {
      sum->sum += scores->CheckLabel(i).ok() && Rank(*scores, i, scores->label(i)) < k_;
    }
    sum->count += scores->samples();
    return absl::OkStatus();
  }

 private:
  // The number of classes before `wanted`. NaN comes before all numbers.
  static int64_t Rank(const Scores& scores, int64_t sample, int64_t wanted) {
    const float* const row = scores.row(sample);
    const float value = row[wanted * scores.stride()];
    int64_t rank = 0;
    for (int64_t c = 0; c < scores.classes(); ++c) {
      const float other = row[c * scores.stride()];
      rank += other > value || (other == value && c < wanted) || other != other;
    }
    return rank;
  }

  const int k_, axis_;
};

struct AccuracyParam : Param<AccuracyParam> {
  int axis;
  static void Fields(Schema<AccuracyParam>& s) { s.Field("axis", &AccuracyParam::axis).Default(1).Describe("The classes' axis."); }
};
struct Accuracy : TopK {
  explicit Accuracy(const AccuracyParam& p) : TopK(1, p.axis) {}
};

struct TopKParam : Param<TopKParam> {
  int top_k;
  static void Fields(Schema<TopKParam>& s) {
    s.Field("top_k", &TopKParam::top_k).Default(1).AtLeast(1).Describe("Among how many best classes the label counts.");
  }
};
struct TopKAccuracy : TopK {
  explicit TopKAccuracy(const TopKParam& p) : TopK(p.top_k, 1) {}
};

struct BinaryParam : Param<BinaryParam> {
  int average;
  static void Fields(Schema<BinaryParam>& s) { AverageField(s); }
};

// A score of counts of samples by label and prediction, of two classes.
class Binary : public Metric {
 public:
  using Counts = std::array<std::array<double, 2>, 2>;  // [label][prediction].
  using Score = double (*)(const Counts&);
  Binary(const BinaryParam& p, Score score) : average_(p.average), score_(score) {}

  absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor&, MetricSum* sum) const override {
    ASSIGN_OR_RETURN(const std::unique_ptr<Scores> scores, Scores::Of(prediction, label, 1));
    Counts counts = {};
    std::optional<int64_t> other;  // The class that is not 1.
    for (int64_t i = 0; i < scores->samples(); ++i) {
      const int64_t y = scores->label(i);
      if (y != 1 && other.value_or(y) != y) {
        return absl::InvalidArgumentError(absl::StrCat("it wants two classes, got the labels ", *other, " and ", y, " beside 1"));
      }
      if (y != 1) other = y;
      ++counts[y == 1][scores->Best(i) == 1];
    }
    if (average_ == kMacro) {
      sum->sum += score_(counts);
      ++sum->count;
      return absl::OkStatus();
    }
    sum->parts.resize(4);
    for (int k = 0; k < 4; ++k) sum->parts[static_cast<size_t>(k)] += counts[k / 2][k % 2];
    return absl::OkStatus();
  }

  double Value(const MetricSum& sum) const override {
    if (average_ == kMacro || sum.parts.empty()) return sum.mean();
    return score_({{{sum.parts[0], sum.parts[1]}, {sum.parts[2], sum.parts[3]}}});
  }

 private:
  const int average_;
  const Score score_;
};

double F1Score(const Binary::Counts& n) {
  const double both = 2 * n[1][1] + n[0][1] + n[1][0];
  return both == 0 ? 0 : 2 * n[1][1] / both;
}
struct F1 : Binary {
  explicit F1(const BinaryParam& p) : Binary(p, F1Score) {}
};

// Sums of a row or column that are 0 are left out of the divisor.
double MatthewsScore(const Binary::Counts& n) {
  double product = 1;
  for (const double term : {n[1][1] + n[0][1], n[1][1] + n[1][0], n[0][0] + n[0][1], n[0][0] + n[1][0]}) {
    if (term != 0) product *= term;
  }
  return (n[1][1] * n[0][0] - n[0][1] * n[1][0]) / std::sqrt(product);
}
struct Mcc : Binary {
  explicit Mcc(const BinaryParam& p) : Binary(p, MatthewsScore) {}
};

// The correlation of labels and predictions as classes, from the counts of their pairs: parts[label, prediction].
class Pcc : public Metric {
 public:
  static constexpr int64_t kMostClasses = 256;
  explicit Pcc(const NoParam&) {}

  absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor&, MetricSum* sum) const override {
    ASSIGN_OR_RETURN(const std::unique_ptr<Scores> scores, Scores::Of(prediction, label, 1));
    const int64_t n = scores->classes();
    if (n > kMostClasses) {
      return absl::InvalidArgumentError(absl::StrCat("there are ", n, " classes; want ", kMostClasses, " at most"));
    }
    for (int64_t i = 0; i < scores->samples(); ++i) RETURN_IF_ERROR(scores->CheckLabel(i));
    sum->parts.resize(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < scores->samples(); ++i) {
      ++sum->parts[static_cast<size_t>(scores->label(i) * n + scores->Best(i))];
    }
    return absl::OkStatus();
  }

  double Value(const MetricSum& sum) const override {
    if (sum.parts.empty()) return 0;
    const auto n = static_cast<size_t>(std::sqrt(static_cast<double>(sum.parts.size())) + 0.5);
    std::vector<double> x(n), y(n);
    double total = 0, xx = 0, yy = 0, xy = 0;
    for (size_t k = 0; k < n * n; ++k) x[k / n] += sum.parts[k], y[k % n] += sum.parts[k], total += sum.parts[k];
    for (size_t k = 0; k < n; ++k) {
      xx += x[k] * (total - x[k]);
      yy += y[k] * (total - y[k]);
      xy += sum.parts[k * n + k] * total - x[k] * y[k];
    }
    return xy / std::sqrt(xx * yy);
  }
};

struct PerplexityParam : Param<PerplexityParam> {
  std::optional<int> ignore_label;
  int axis;
  static void Fields(Schema<PerplexityParam>& s) {
    s.Field("ignore_label", &PerplexityParam::ignore_label).Default(std::nullopt).Describe("Samples of this label do not count.");
    s.Field("axis", &PerplexityParam::axis).Default(-1).Describe("The classes' axis.");
  }
};

// exp of the mean of -log p, where p is the label's probability, at least 1e-10. A label beyond the classes counts as
// the nearest one.
class Perplexity : public Metric {
 public:
  explicit Perplexity(const PerplexityParam& p) : p_(p) {}

  absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor&, MetricSum* sum) const override {
    ASSIGN_OR_RETURN(const std::unique_ptr<Scores> scores, Scores::Of(prediction, label, p_.axis));
    for (int64_t i = 0; i < scores->samples(); ++i) {
      const int64_t y = scores->label(i);
      if (p_.ignore_label.has_value() && y == *p_.ignore_label) continue;
      const double p = scores->row(i)[std::clamp<int64_t>(y, 0, scores->classes() - 1) * scores->stride()];
      sum->sum -= std::log(p < 1e-10 ? 1e-10 : p);
      ++sum->count;
    }
    return absl::OkStatus();
  }
  double Value(const MetricSum& sum) const override { return sum.count == 0 ? 0 : std::exp(sum.mean()); }

 private:
  const PerplexityParam p_;
};

struct CrossEntropyParam : Param<CrossEntropyParam> {
  double eps;
  static void Fields(Schema<CrossEntropyParam>& s) {
    s.Field("eps", &CrossEntropyParam::eps).Default(1e-12).AtLeast(0).Describe("Keeps the logarithm finite.");
  }
};

class CrossEntropy : public Metric {
 public:
  explicit CrossEntropy(const CrossEntropyParam& p) : eps_(p.eps) {}

  absl::Status Add(const Tensor& prediction, const Tensor& label, const Tensor&, MetricSum* sum) const override {
    ASSIGN_OR_RETURN(const std::unique_ptr<Scores> scores, Scores::Of(prediction, label, 1));
    double added = 0;
    for (int64_t i = 0; i < scores->samples(); ++i) {
      RETURN_IF_ERROR(scores->CheckLabel(i));
      added -= std::log(scores->row(i)[scores->label(i) * scores->stride()] + eps_);
    }
    sum->sum += added;
    sum->count += scores->samples();
    return absl::OkStatus();
  }

 private:
  const double eps_;
};

}  // namespace

std::vector<MetricCatalog::Entry> ClassMetrics() {
  return {
      MakeMetricEntry<Accuracy, AccuracyParam>("accuracy", "The share of samples whose largest prediction is the label's.",
                                               {"acc"}),
      MakeMetricEntry<TopKAccuracy, TopKParam>("top_k_accuracy",
                                               "The share of samples whose label is among the top_k largest predictions.",
                                               {"top_k_acc", "topkaccuracy"}),
      MakeMetricEntry<F1, BinaryParam>("f1", "2 precision recall / (precision + recall) of class 1 of two."),
      MakeMetricEntry<Mcc, BinaryParam>("mcc", "Matthews' correlation coefficient of two classes."),
      MakeMetricEntry<Pcc, NoParam>("pcc", "The correlation of labels and predicted classes."),
      MakeMetricEntry<Perplexity, PerplexityParam>("perplexity",
                                                   "exp of the mean of -log p, where p is the label's predicted probability."),
      MakeMetricEntry<CrossEntropy, CrossEntropyParam>(
          "cross-entropy", "The mean of -log(p + eps), where p is the label's predicted probability.", {"ce", "crossentropy"}),
      MakeMetricEntry<CrossEntropy, CrossEntropyParam>("nll-loss", "cross-entropy, by another name.",
                                                       {"nll_loss", "negativeloglikelihood"}),
  };
}

}  // namespace gluond
