#include "client/cli/latencies.h"
#include "client/cli/load_report.h"
#include "client/cli/progress.h"
#include "client/cli/table.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace gluond::cli {
namespace {

TEST(TableTest, AlignsColumnsButPadsNoLast) {
  EXPECT_EQ(Aligned({{"model", "step"}, {"a", "12"}, {"alone"}}), "model  step\na      12\nalone\n");
}

TEST(TableTest, BytesReadWell) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1023), "1023 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes(int64_t{5} << 40), "5.0 TiB");
}

TEST(EpochReportTest, IsAMeanOverImagesNotOverCalls) {
  EpochReport report;
  report.Add(30, 1.0, 0.5);
  report.Add(10, 2.0, 1.0);
  report.Add(0, 99, 99);
  EXPECT_EQ(report.images, 40);
  EXPECT_DOUBLE_EQ(report.loss, 1.25);
  EXPECT_DOUBLE_EQ(report.accuracy, 0.625);
}

TEST(ProgressTest, TellsSpeedAndTimeLeft) {
  const absl::Time start = absl::Now();
  const Progress progress(2, 1000, /*terminal=*/false);
  const std::string line = progress.Line(0, {500, 0.25, 0.9}, start + absl::Seconds(30));
  EXPECT_EQ(line.substr(0, 76), "epoch 1/2 [##########..........]  50%  loss 0.2500  accuracy 0.9000  17 imag");
  EXPECT_NE(line.find("1:30 left"), std::string::npos) << line;
  EXPECT_NE(progress.Line(1, {1000, 0, 1}, start + absl::Seconds(99)).find("0:00 left"), std::string::npos);
}

TEST(LatenciesTest, PercentilesAreOfWhatWasAdded) {
  Latencies latencies;
  EXPECT_EQ(latencies.Percentile(50), absl::ZeroDuration());
  for (int i = 100; i >= 1; --i) latencies.Add(absl::Milliseconds(i));
  for (const auto& [percent, expected] : std::vector<std::pair<double, double>>{{50, 50}, {99, 99}, {99.9, 100}, {100, 100}}) {
    EXPECT_NEAR(absl::ToDoubleMilliseconds(latencies.Percentile(percent)), expected, 1e-3);
  }
}

LoadReport Reported() {
  LoadReport report;
  for (int i = 1; i <= 4; ++i) report.Sent(absl::Microseconds(i));
  report.Answered(absl::Milliseconds(2), absl::OkStatus());
  report.Answered(absl::Seconds(9), absl::NotFoundError("model 'x'"));
  report.Answered(absl::Seconds(9), absl::NotFoundError("model \"y\""));
  report.Answered(absl::Seconds(9), absl::UnavailableError("\"gone\""));
  report.NotSent();
  report.Ended(absl::Seconds(2));
  return report;
}

TEST(LoadReportTest, TextCountsErrorsByCodeWithTheFirstOfEach) {
  EXPECT_EQ(Reported().Text(),
            "requests       5 in 2.0 s\n"
            "succeeded      1, 0.5 per second\n"
            "failed         3\n"
            "  NOT_FOUND    2, first: model 'x'\n"
            "  UNAVAILABLE  1, first: \"gone\"\n"
            "not sent       1\n"
            "p50            2.000 ms\n"
            "p90            2.000 ms\n"
            "p95            2.000 ms\n"
            "p99            2.000 ms\n"
            "p99.9          2.000 ms\n"
            "longest        2.000 ms\n"
            "sent late by   p50 0.002 ms, p99 0.004 ms, longest 0.004 ms\n");
}

TEST(LoadReportTest, JsonHasTheSameFigures) {
  google::protobuf::Struct report;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(Reported().Json(), &report).ok());
  const auto number = [&](const char* name) { return report.fields().at(name).number_value(); };
  EXPECT_EQ(number("requests"), 5);
  EXPECT_EQ(number("succeeded"), 1);
  EXPECT_EQ(number("failed"), 3);
  EXPECT_EQ(number("not_sent"), 1);
  EXPECT_EQ(number("seconds"), 2);
  EXPECT_EQ(number("throughput"), 0.5);
  const auto part = [&](const char* name) { return report.fields().at(name).struct_value().fields(); };
  EXPECT_NEAR(part("latency_ms").at("p99.9").number_value(), 2, 1e-6);
  EXPECT_NEAR(part("lateness_ms").at("max").number_value(), 0.004, 1e-6);
  const auto gone = part("errors").at("UNAVAILABLE").struct_value().fields();
  EXPECT_EQ(gone.at("count").number_value(), 1);
  EXPECT_EQ(gone.at("message").string_value(), "\"gone\"");
}

TEST(LoadReportTest, NothingMeasuredIsNoCrash) {
  EXPECT_NE(LoadReport().Text().find("failed"), std::string::npos);
  EXPECT_NE(LoadReport().Json().find("errors"), std::string::npos);
}

}  // namespace
}  // namespace gluond::cli
