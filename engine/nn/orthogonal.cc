#include "engine/nn/orthogonal.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gluond {
namespace {

double Dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

absl::Status Orthogonalize(absl::Span<float> matrix, int64_t rows, int64_t cols, double scale) {
  const int64_t count = std::min(rows, cols), length = std::max(rows, cols);
  const double elements = static_cast<double>(rows) * static_cast<double>(cols);
  if (elements > 0x1p26 || elements * static_cast<double>(count) > 0x1p37) {
    return absl::InvalidArgumentError(
        absl::StrCat("Orthogonal: a matrix of ", rows, " by ", cols, " takes too long, or too much; use Xavier, or upload values"));
  }
  const bool tall = rows > cols;
  const auto element = [&](int64_t v, int64_t i) -> float& { return matrix[tall ? i * cols + v : v * cols + i]; };
  std::vector<double> vectors(static_cast<size_t>(count * length));
  for (int64_t v = 0; v < count; ++v) {
    double* const x = &vectors[v * length];
    for (int64_t i = 0; i < length; ++i) x[i] = element(v, i);
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t u = 0; u < v; ++u) {
        const double* const y = &vectors[u * length];
        const double along = Dot(x, y, length);
        for (int64_t i = 0; i < length; ++i) x[i] -= along * y[i];
      }
    }
    const double norm = std::sqrt(Dot(x, x, length));
    for (int64_t i = 0; i < length; ++i) x[i] /= norm;
    for (int64_t i = 0; i < length; ++i) element(v, i) = static_cast<float>(scale * x[i]);
  }
  return absl::OkStatus();
}

}  // namespace gluond
