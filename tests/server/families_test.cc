// Metrics as text, and the histogram behind those of times.

#include "server/sight/families.h"

#include <chrono>

#include "gtest/gtest.h"
#include "server/rpc/call_counts.h"

namespace gluond::server {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(Families, AFamilyIsWrittenOnceWithAllItsSamples) {
  Families families;
  families.AddCounter("calls_total", "Calls.", 2, {{"code", "OK"}});
  families.AddGauge("models", "Models.", 1.5);
  families.AddCounter("calls_total", "Calls.", 1, {{"code", "A \"b\" \\ \n"}});
  EXPECT_EQ(families.ToText(),
            "# HELP calls_total Calls.\n"
            "# TYPE calls_total counter\n"
            "calls_total{code=\"OK\"} 2\n"
            "calls_total{code=\"A \\\"b\\\" \\\\ \\n\"} 1\n"
            "# HELP models Models.\n"
            "# TYPE models gauge\n"
            "models 1.5\n");
}

TEST(Families, AHistogramCountsUpwards) {
  Families families;
  families.AddHistogram("rows", "Rows.", {{1, 3}, {2, 0}, {4, 2}}, 1, 20, {{"model", "m"}});
  EXPECT_EQ(families.ToText(),
            "# HELP rows Rows.\n"
            "# TYPE rows histogram\n"
            "rows_count{model=\"m\"} 6\n"
            "rows_sum{model=\"m\"} 20\n"
            "rows_bucket{model=\"m\",le=\"1\"} 3\n"
            "rows_bucket{model=\"m\",le=\"2\"} 3\n"
            "rows_bucket{model=\"m\",le=\"4\"} 5\n"
            "rows_bucket{model=\"m\",le=\"+Inf\"} 6\n");
}

TEST(Latency, ABucketHasItsBound) {
  Latency latency;
  for (const nanoseconds time : {nanoseconds(0), nanoseconds(1), nanoseconds(microseconds(100))}) latency.Add(time);
  latency.Add(microseconds(100) + nanoseconds(1));
  latency.Add(std::chrono::hours(1));
  const Latency::Counts counts = latency.Read();
  EXPECT_EQ(counts.buckets.front(), 3);
  EXPECT_EQ(counts.buckets[1], 1);
  EXPECT_EQ(counts.buckets.back(), 1);
  EXPECT_EQ(counts.sum, std::chrono::hours(1) + microseconds(200) + nanoseconds(2));
}

}  // namespace
}  // namespace gluond::server
