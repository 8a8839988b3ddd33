#include "client/cli/latencies.h"

#include <algorithm>
#include <cmath>

namespace gluond::cli {

absl::Duration Latencies::Percentile(double percent) const {
  if (seconds_.empty()) return absl::ZeroDuration();
  std::vector<double> sorted = seconds_;
  const auto rank = static_cast<int64_t>(std::ceil(percent / 100 * static_cast<double>(size())));
  const auto nth = sorted.begin() + std::clamp<int64_t>(rank - 1, 0, size() - 1);
  std::nth_element(sorted.begin(), nth, sorted.end());
  return absl::Seconds(*nth);
}

}  // namespace gluond::cli
