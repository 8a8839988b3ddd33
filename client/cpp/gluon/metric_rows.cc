#include "client/cpp/gluon/metric_rows.h"

#include <cmath>
#include <initializer_list>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gluond/op.h"
#include "gluond/status_macros.h"

namespace gluond::client::metric {
namespace {

constexpr int64_t kMostClasses = 256;  // The bound of pcc, which the server has as well.
constexpr double kFar = 1e30;          // Beyond all labels.

NDArray Wide(const NDArray& x) { return op::Cast(x, {.dtype = DType::kFloat64}); }
NDArray Total(const NDArray& x) { return op::Reshape(op::Sum(Wide(x)), {.shape = {1}}); }
NDArray Row(std::initializer_list<NDArray> numbers) { return op::Concat(std::vector<NDArray>(numbers), {.dim = 0}); }
// A number beside another one, on its device.
NDArray Beside(const NDArray& x, double number) { return op::OnesLike(x) * number; }
NDArray Numbers(const Shaped& x, const Shape& shape) {
  return op::Reshape(op::Cast(x.array, {.dtype = DType::kFloat32}), {.shape = shape});
}

absl::Status NoLabels() { return absl::InvalidArgumentError("a metric wants labels; give Update a label"); }

absl::Status CheckAlike(const Shaped* label, const Shaped& prediction) {
  if (label == nullptr) return NoLabels();
  if (label->size() == prediction.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a metric wants one label for each prediction, got ", ToString(label->shape),
                                                 " for predictions ", ToString(prediction.shape)));
}

// Predictions that have an axis of classes, and labels that have all the others.
struct Classes {
  NDArray values;  // (before, classes, behind).
  NDArray label;   // (before, behind): no fractions.
  NDArray valid;   // Ones where the label is a class.
  int64_t count, samples;

  // The value of the label, or of the nearest class.
  NDArray Picked() const { return op::Pick(values, label, {.axis = 1, .keepdims = true}); }
  NDArray Best() const { return op::Argmax(values, {.axis = 1}); }
  NDArray invalid() const { return Total(1 - valid); }
};

absl::StatusOr<Classes> ClassesOf(const Shaped* label, const Shaped& prediction, int axis) {
  if (label == nullptr) return NoLabels();
  const Shape& shape = prediction.shape;
  const int rank = static_cast<int>(shape.size()), at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is none of predictions ", ToString(shape)));
  }
  int64_t before = 1, behind = 1;
  for (int i = 0; i < at; ++i) before *= shape[static_cast<size_t>(i)];
  for (int i = at + 1; i < rank; ++i) behind *= shape[static_cast<size_t>(i)];
  Classes classes;
  classes.count = shape[static_cast<size_t>(at)];
  classes.samples = before * behind;
  if (label->size() != classes.samples || classes.count == 0) {
    return absl::InvalidArgumentError(absl::StrCat("a metric wants one label for each row of predictions ", ToString(shape),
                                                   " along axis ", axis, ", got ", ToString(label->shape)));
  }
  classes.values = Numbers(prediction, {before, classes.count, behind});
  const NDArray given = Numbers(*label, {before, behind});
  classes.label = op::Trunc(given);
  classes.valid = (given >= 0) * (given < static_cast<double>(classes.count));
  return classes;
}

// {right ones, all}. Predictions are classes themselves where there is one for each label.
absl::StatusOr<NDArray> TopKRow(const Settings& settings, const Shaped* label, const Shaped& prediction) {
  if (label != nullptr && label->size() == prediction.size()) {
    const NDArray right = Total(Numbers(prediction, {-1}) == Numbers(*label, {-1}));
    return Row({right, Beside(right, static_cast<double>(label->size()))});
  }
  GLUOND_ASSIGN_OR_RETURN(const Classes classes, ClassesOf(label, prediction, settings.axis));
  // Classes before the label's: larger values, equal ones of a lower class, and all that are no numbers.
  const NDArray picked = classes.Picked(), &values = classes.values;
  const NDArray index = op::Reshape(op::contrib::ArangeLike(values, {.axis = 1}), {.shape = {1, -1, 1}});
  const NDArray is_lower = op::BroadcastLesser(index, op::ExpandDims(classes.label, {.axis = 1}));
  const NDArray ahead = op::BroadcastGreater(values, picked) + op::BroadcastEqual(values, picked) * is_lower + (values != values);
  const NDArray right = Total((op::Sum(ahead, {.axis = 1}) < static_cast<double>(settings.top_k)) * classes.valid);
  return Row({right, Beside(right, static_cast<double>(classes.samples))});
}

absl::StatusOr<double> Mean(absl::Span<const double> row) { return row[1] == 0 ? 0 : row[0] / row[1]; }

// {right ones of class 1, labels of class 1, predictions of class 1, all, whether there are more than two classes}.
absl::StatusOr<NDArray> BinaryRow(const Settings&, const Shaped* label, const Shaped& prediction) {
  GLUOND_ASSIGN_OR_RETURN(const Classes classes, ClassesOf(label, prediction, 1));
  const NDArray is_one = classes.label == 1, is_best = classes.Best() == 1, other = classes.label * (1 - is_one);
  const NDArray more = op::Max(other - is_one * kFar) > op::Min(other + is_one * kFar);
  const NDArray ones = Total(is_one);
  return Row({Total(is_one * is_best), ones, Total(is_best), Beside(ones, static_cast<double>(classes.samples)), Total(more)});
}

struct Counts {
  double both, label_only, best_only, neither;
};

absl::StatusOr<Counts> CountsOf(absl::Span<const double> row) {
  if (row[4] > 0) return absl::InvalidArgumentError("a metric of two classes got labels of more, beside 1; give it two");
  return Counts{row[0], row[1] - row[0], row[2] - row[0], row[3] - row[1] - row[2] + row[0]};
}

absl::StatusOr<double> F1Value(absl::Span<const double> row) {
  GLUOND_ASSIGN_OR_RETURN(const Counts n, CountsOf(row));
  const double both = 2 * n.both + n.best_only + n.label_only;
  return both == 0 ? 0 : 2 * n.both / both;
}

// Sums of a row or column that are 0 are left out of the divisor.
absl::StatusOr<double> MccValue(absl::Span<const double> row) {
  GLUOND_ASSIGN_OR_RETURN(const Counts n, CountsOf(row));
  double product = 1;
  for (const double term : {n.both + n.best_only, n.both + n.label_only, n.neither + n.best_only, n.neither + n.label_only}) {
    if (term != 0) product *= term;
  }
  return (n.both * n.neither - n.best_only * n.label_only) / std::sqrt(product);
}

absl::Status CheckValid(double invalid) {
  if (invalid == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(invalid, " labels are no class of the predictions; give 0 to classes - 1"));
}

// {counts of samples by label and prediction..., labels that are no class}.
absl::StatusOr<NDArray> PccRow(const Settings&, const Shaped* label, const Shaped& prediction) {
  GLUOND_ASSIGN_OR_RETURN(const Classes classes, ClassesOf(label, prediction, 1));
  if (classes.count > kMostClasses) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", classes.count, " classes; want ", kMostClasses, " at most"));
  }
  const auto one_hot = [&](const NDArray& x) { return op::OneHot(op::Reshape(x, {.shape = {-1}}), {.depth = classes.count}); };
  const NDArray counts = op::Dot(one_hot(classes.label), one_hot(classes.Best()), {.transpose_a = true});
  return Row({op::Reshape(Wide(counts), {.shape = {-1}}), classes.invalid()});
}

absl::StatusOr<double> PccValue(absl::Span<const double> row) {
  GLUOND_RETURN_IF_ERROR(CheckValid(row.back()));
  const auto n = static_cast<size_t>(std::sqrt(static_cast<double>(row.size() - 1)) + 0.5);
  std::vector<double> x(n), y(n);
  double total = 0, xx = 0, yy = 0, xy = 0;
  for (size_t k = 0; k < n * n; ++k) x[k / n] += row[k], y[k % n] += row[k], total += row[k];
  for (size_t k = 0; k < n; ++k) {
    xx += x[k] * (total - x[k]);
    yy += y[k] * (total - y[k]);
    xy += row[k * n + k] * total - x[k] * y[k];
  }
  return xy / std::sqrt(xx * yy);
}

// {sum of -log p, samples that count}.
absl::StatusOr<NDArray> PerplexityRow(const Settings& settings, const Shaped* label, const Shaped& prediction) {
  GLUOND_ASSIGN_OR_RETURN(const Classes classes, ClassesOf(label, prediction, settings.axis));
  const NDArray p = Invoke1("_maximum_scalar", {Wide(classes.Picked())}, {{"scalar", 1e-10}});
  const NDArray counted = settings.ignore_label.has_value() ? classes.label != static_cast<double>(*settings.ignore_label)
                                                            : op::OnesLike(classes.label);
  return Row({-Total(op::Log(p) * Wide(op::ExpandDims(counted, {.axis = 1}))), Total(counted)});
}

absl::StatusOr<double> PerplexityValue(absl::Span<const double> row) { return row[1] == 0 ? 0 : std::exp(row[0] / row[1]); }

// {sum of -log(p + eps), samples, labels that are no class}.
absl::StatusOr<NDArray> CrossEntropyRow(const Settings& settings, const Shaped* label, const Shaped& prediction) {
  GLUOND_ASSIGN_OR_RETURN(const Classes classes, ClassesOf(label, prediction, 1));
  const NDArray sum = -Total(op::Log(Wide(classes.Picked()) + settings.eps));
  return Row({sum, Beside(sum, static_cast<double>(classes.samples)), classes.invalid()});
}

absl::StatusOr<double> CrossEntropyValue(absl::Span<const double> row) {
  GLUOND_RETURN_IF_ERROR(CheckValid(row[2]));
  return Mean(row);
}

// {a batch's distance, 1}.
enum Distance { kAbsolute, kSquare, kRoot };
template <Distance distance>
absl::StatusOr<NDArray> DistanceRow(const Settings&, const Shaped* label, const Shaped& prediction) {
  GLUOND_RETURN_IF_ERROR(CheckAlike(label, prediction));
  const NDArray difference = Wide(Numbers(*label, {-1})) - Wide(Numbers(prediction, {-1}));
  const NDArray sum = Total(distance == kAbsolute ? op::Abs(difference) : op::Square(difference));
  const NDArray mean = sum / static_cast<double>(label->size());
  return Row({distance == kRoot ? op::Sqrt(mean) : mean, op::OnesLike(mean)});
}

// {samples, and the sums of x, y, x^2, y^2 and x y}.
absl::StatusOr<NDArray> PearsonRow(const Settings&, const Shaped* label, const Shaped& prediction) {
  GLUOND_RETURN_IF_ERROR(CheckAlike(label, prediction));
  const NDArray x = Wide(Numbers(prediction, {-1})), y = Wide(Numbers(*label, {-1})), sum = Total(x);
  return Row({Beside(sum, static_cast<double>(label->size())), sum, Total(y), Total(x * x), Total(y * y), Total(x * y)});
}

absl::StatusOr<double> PearsonValue(absl::Span<const double> m) {
  const double xx = m[0] * m[3] - m[1] * m[1], yy = m[0] * m[4] - m[2] * m[2];
  return (m[0] * m[5] - m[1] * m[2]) / std::sqrt(xx * yy);
}

absl::StatusOr<NDArray> LossRow(const Settings&, const Shaped*, const Shaped& loss) {
  const NDArray sum = Total(loss.array);
  return Row({sum, Beside(sum, static_cast<double>(loss.size()))});
}

constexpr Formula kFormulas[] = {
    {"accuracy", TopKRow, Mean, true},
    {"top_k_accuracy", TopKRow, Mean, true},
    {"f1", BinaryRow, F1Value, false},
    {"mcc", BinaryRow, MccValue, false},
    {"pcc", PccRow, PccValue, true},
    {"perplexity", PerplexityRow, PerplexityValue, true, -1},
    {"cross-entropy", CrossEntropyRow, CrossEntropyValue, true},
    {"nll-loss", CrossEntropyRow, CrossEntropyValue, true},
    {"mae", DistanceRow<kAbsolute>, Mean, true},
    {"mse", DistanceRow<kSquare>, Mean, true},
    {"rmse", DistanceRow<kRoot>, Mean, true},
    {"pearsonr", PearsonRow, PearsonValue, false},
    {"loss", LossRow, Mean, true},
};

}  // namespace

int64_t Shaped::size() const {
  int64_t size = 1;
  for (const int64_t each : shape) size *= each;
  return size;
}

const Formula* FindFormula(const std::string& name) {
  for (const Formula& each : kFormulas) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

std::string NamesOfFormulas() {
  return absl::StrJoin(kFormulas, ", ", [](std::string* out, const Formula& each) { out->append(each.name); });
}

}  // namespace gluond::client::metric
