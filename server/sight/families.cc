#include "server/sight/families.h"

#include <chrono>
#include <utility>

#include "prometheus/text_serializer.h"

namespace gluond::server {

using prometheus::ClientMetric;
using prometheus::MetricType;

ClientMetric& Families::Add(absl::string_view name, absl::string_view help, MetricType type, Labels labels) {
  const auto [place, is_new] = places_.try_emplace(name, families_.size());
  if (is_new) families_.push_back({std::string(name), std::string(help), type, {}});
  ClientMetric& metric = families_[place->second].metric.emplace_back();
  metric.label = std::move(labels);
  return metric;
}

void Families::AddCounter(absl::string_view name, absl::string_view help, double value, Labels labels) {
  Add(name, help, MetricType::Counter, std::move(labels)).counter.value = value;
}

void Families::AddGauge(absl::string_view name, absl::string_view help, double value, Labels labels) {
  Add(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
}

void Families::AddLatency(absl::string_view name, absl::string_view help, const Latency::Counts& counts, Labels labels) {
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < Latency::kBounds.size(); ++i) {
    buckets.push_back({static_cast<double>(Latency::kBounds[i]) / 1e6, counts.buckets[i]});
  }
  AddHistogram(name, help, buckets, counts.buckets.back(), std::chrono::duration<double>(counts.sum).count(), std::move(labels));
}

void Families::AddHistogram(absl::string_view name, absl::string_view help, const std::vector<Bucket>& buckets, int64_t rest,
                            double sum, Labels labels) {
  ClientMetric::Histogram& histogram = Add(name, help, MetricType::Histogram, std::move(labels)).histogram;
  uint64_t count = 0;
  for (const Bucket& bucket : buckets) {
    count += static_cast<uint64_t>(bucket.count);
    histogram.bucket.push_back({count, bucket.bound});
  }
  histogram.sample_count = count + static_cast<uint64_t>(rest);
  histogram.sample_sum = sum;
}

std::string Families::ToText() const { return prometheus::TextSerializer().Serialize(families_); }

}  // namespace gluond::server
