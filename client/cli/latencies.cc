#include "client/cli/latencies.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/table.h"

namespace gluond::cli {

void Latencies::Add(absl::Duration latency, const absl::Status& status) {
  if (status.ok()) {
    seconds_.push_back(static_cast<float>(absl::ToDoubleSeconds(latency)));
    return;
  }
  Failure& failure = failures_[status.code()];
  ++failure.count;
  if (failure.example.empty()) failure.example = std::string(status.message());
}

void Latencies::Merge(const Latencies& other) {
  seconds_.insert(seconds_.end(), other.seconds_.begin(), other.seconds_.end());
  for (const auto& [code, failure] : other.failures_) {
    Failure& mine = failures_[code];
    mine.count += failure.count;
    if (mine.example.empty()) mine.example = failure.example;
  }
}

int64_t Latencies::bad() const {
  int64_t count = 0;
  for (const auto& [code, failure] : failures_) count += failure.count;
  return count;
}

absl::Duration Latencies::Percentile(double percent) const {
  if (seconds_.empty()) return absl::ZeroDuration();
  std::vector<float> sorted = seconds_;
  const auto rank = static_cast<int64_t>(std::ceil(percent / 100 * static_cast<double>(good())));
  const auto nth = sorted.begin() + std::clamp<int64_t>(rank - 1, 0, good() - 1);
  std::nth_element(sorted.begin(), nth, sorted.end());
  return absl::Seconds(*nth);
}

std::string Latencies::Report(absl::Duration elapsed) const {
  const double seconds = std::max(1e-9, absl::ToDoubleSeconds(elapsed));
  Table rows = {{"answers", absl::StrFormat("%d in %.1f s, %.1f per second", good(), seconds,
                                            static_cast<double>(good()) / seconds)}};
  for (double percent : {50.0, 90.0, 99.0, 99.9, 100.0}) {
    rows.push_back({percent == 100 ? "longest" : absl::StrCat("p", percent),
                    absl::StrFormat("%.3f ms", absl::ToDoubleMilliseconds(Percentile(percent)))});
  }
  rows.push_back({"errors", absl::StrCat(bad())});
  for (const auto& [code, failure] : failures_) {
    rows.push_back({absl::StrCat("  ", absl::StatusCodeToString(code)),
                    absl::StrCat(failure.count, ", as: ", failure.example)});
  }
  return Aligned(rows);
}

}  // namespace gluond::cli
