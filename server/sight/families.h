// Families: the metrics of one look at a server, which prometheus-cpp writes down. A family comes with its first sample.
// Not thread-safe.
//
//   Families families;
//   families.AddGauge("gluond_models", "Models now.", 3);
//   families.AddCounter("gluond_requests_total", "Calls that have ended.", 7, {{"method", path}, {"code", "OK"}});
//   std::string text = families.ToText();

#ifndef SERVER_SIGHT_FAMILIES_H_
#define SERVER_SIGHT_FAMILIES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "prometheus/metric_family.h"
#include "server/rpc/call_counts.h"

namespace gluond::server {

class Families {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  void AddCounter(absl::string_view name, absl::string_view help, double value, Labels labels = {});
  void AddGauge(absl::string_view name, absl::string_view help, double value, Labels labels = {});
  // In seconds.
  void AddLatency(absl::string_view name, absl::string_view help, const Latency::Counts& counts, Labels labels = {});
  struct Bucket {
    double bound;
    int64_t count;  // The values above the bound before.
  };
  // The values above the last bound are `rest`.
  void AddHistogram(absl::string_view name, absl::string_view help, const std::vector<Bucket>& buckets, int64_t rest, double sum,
                    Labels labels = {});

  // In the format of Prometheus's text, version 0.0.4.
  std::string ToText() const;

 private:
  prometheus::ClientMetric& Add(absl::string_view name, absl::string_view help, prometheus::MetricType type, Labels labels);

  std::vector<prometheus::MetricFamily> families_;
  absl::flat_hash_map<std::string, size_t> places_;  // In families_, by name.
};

}  // namespace gluond::server

#endif  // SERVER_SIGHT_FAMILIES_H_
