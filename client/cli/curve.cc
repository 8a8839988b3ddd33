#include "client/cli/curve.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace gluond::cli {
namespace {

constexpr double kWidth = 400, kHeight = 240, kLeft = 50, kTop = 56, kGap = 90;
constexpr int kMostSteps = 5;
constexpr size_t kMostPoints = 400;  // More points than this cannot be told apart.

struct Series {
  std::string label;
  std::string color;
  std::vector<double> values;  // Evenly spaced from the left to the right edge.
};

// From `low` to `high` with a line at each `step`, all of them round numbers.
struct Axis {
  double low;
  double high;
  double step;
};

std::string Escaped(const std::string& text) { return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}}); }

// Means of neighbouring values, so that at most kMostPoints remain.
std::vector<double> Thinned(const std::vector<float>& values) {
  const size_t group = std::max<size_t>(1, (values.size() + kMostPoints - 1) / kMostPoints);
  std::vector<double> means;
  for (size_t i = 0; i < values.size(); i += group) {
    const size_t end = std::min(values.size(), i + group);
    double sum = 0;
    for (size_t j = i; j < end; ++j) sum += values[j];
    means.push_back(sum / static_cast<double>(end - i));
  }
  return means;
}

// The smallest of 1, 2 and 5 times a power of ten that is not below `value`.
double RoundStep(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * 0.999) return factor * power;
  }
  return 10 * power;
}

// Holds every finite value of the series.
Axis AxisFor(const std::vector<Series>& all, bool from_zero) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Series& series : all) {
    for (double value : series.values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (from_zero) low = std::min(low, 0.0);
  if (!(high > low)) {  // Nothing, or one value.
    const double middle = std::isfinite(high) ? high : 0;
    low = middle - 0.5;
    high = middle + 0.5;
  }
  const double step = RoundStep((high - low) / kMostSteps);
  return {std::floor(low / step) * step, std::ceil(high / step) * step, step};
}

std::string Frame(double left, const Axis& axis, const std::string& title, const std::string& below) {
  std::string svg = absl::StrFormat("<text x='%g' y='%g' class='title'>%s</text>\n", left, kTop - 12, Escaped(title));
  const auto steps = static_cast<int>(std::lround((axis.high - axis.low) / axis.step));
  for (int i = 0; i <= steps; ++i) {
    const double y = kTop + kHeight * (1 - static_cast<double>(i) / steps);
    const double value = std::round(axis.low / axis.step + i) * axis.step;
    absl::StrAppendFormat(&svg, "<path d='M%g %.1fh%g' class='grid'/>\n", left, y, kWidth);
    absl::StrAppendFormat(&svg, "<text x='%g' y='%.1f' text-anchor='end'>%.6g</text>\n", left - 6, y + 4, value);
  }
  absl::StrAppendFormat(&svg, "<text x='%g' y='%g' text-anchor='middle'>%s</text>\n", left + kWidth / 2, kTop + kHeight + 22,
                        Escaped(below));
  return svg;
}

std::string Line(double left, const Axis& axis, const Series& series) {
  std::string path;
  bool pen_down = false;
  const size_t n = series.values.size();
  for (size_t i = 0; i < n; ++i) {
    const double value = series.values[i];
    if (!std::isfinite(value)) {
      pen_down = false;
      continue;
    }
    const double across = n == 1 ? 0.5 : static_cast<double>(i) / static_cast<double>(n - 1);
    const double up = (value - axis.low) / (axis.high - axis.low);
    absl::StrAppendFormat(&path, "%s%.1f %.1f", pen_down ? "L" : "M", left + kWidth * across, kTop + kHeight * (1 - up));
    pen_down = true;
  }
  return absl::StrFormat("<path d='%s' fill='none' stroke='%s' stroke-width='1.6'/>\n", path, series.color);
}

std::string Plot(double left, const std::string& title, const std::string& below, const std::vector<Series>& all,
                 const Axis& axis) {
  std::string svg = Frame(left, axis, title, below);
  double key_y = kTop + 18;
  for (const Series& series : all) {
    absl::StrAppend(&svg, Line(left, axis, series));
    if (all.size() > 1) {
      absl::StrAppendFormat(&svg, "<text x='%g' y='%g' text-anchor='end' fill='%s'>%s</text>\n", left + kWidth - 8,
                            key_y + kHeight - 50, series.color, Escaped(series.label));
      key_y += 18;
    }
  }
  return svg;
}

}  // namespace

std::string ToSvg(const TrainingCurve& curve) {
  const double second = kLeft + kWidth + kGap;
  const std::vector<Series> losses = {{"loss", "#1f6fb4", Thinned(curve.losses)}};
  const std::vector<Series> accuracies = {{"training", "#1f6fb4", curve.train_accuracy}, {"test", "#d1495b", curve.test_accuracy}};
  std::string svg = absl::StrFormat(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %g %g' font-family='sans-serif' "
      "font-size='12' fill='#333'>\n"
      "<style>.title{font-size:14px;font-weight:bold}.grid{stroke:#ddd}</style>\n"
      "<rect width='100%%' height='100%%' fill='#fff'/>\n"
      "<text x='%g' y='22' font-size='16' font-weight='bold'>%s</text>\n",
      second + kWidth + 20, kTop + kHeight + 40, kLeft, Escaped(curve.title));
  absl::StrAppend(&svg, Plot(kLeft, "loss", absl::StrCat(curve.steps, " steps"), losses, AxisFor(losses, /*from_zero=*/true)),
                  Plot(second, "accuracy", absl::StrCat(curve.test_accuracy.size(), " epochs"), accuracies,
                       AxisFor(accuracies, /*from_zero=*/false)),
                  "</svg>\n");
  return svg;
}

absl::Status WriteSvg(const TrainingCurve& curve, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << ToSvg(curve);
  file.close();
  if (file) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(path, ": the training curve cannot be written there; --curve names another file"));
}

}  // namespace gluond::cli
