#include "client/cli/latencies.h"
#include "client/cli/progress.h"
#include "client/cli/table.h"
#include "gtest/gtest.h"

namespace gluond::cli {
namespace {

TEST(TableTest, AlignsColumnsButPadsNoLast) {
  EXPECT_EQ(Aligned({{"model", "step"}, {"a", "12"}, {"alone"}}),
            "model  step\na      12\nalone\n");
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
  EXPECT_EQ(line.substr(0, 76),
            "epoch 1/2 [##########..........]  50%  loss 0.2500  accuracy 0.9000  17 imag");
  EXPECT_NE(line.find("1:30 left"), std::string::npos) << line;
  EXPECT_NE(progress.Line(1, {1000, 0, 1}, start + absl::Seconds(99)).find("0:00 left"),
            std::string::npos);
}

TEST(LatenciesTest, PercentilesAreOfGoodAnswers) {
  Latencies latencies;
  for (int i = 100; i >= 1; --i) latencies.Add(absl::Milliseconds(i), absl::OkStatus());
  latencies.Add(absl::Seconds(9), absl::UnavailableError("gone"));
  const auto milliseconds = [&](double percent) {
    return absl::ToDoubleMilliseconds(latencies.Percentile(percent));
  };
  EXPECT_NEAR(milliseconds(50), 50, 1e-3);
  EXPECT_NEAR(milliseconds(99), 99, 1e-3);
  EXPECT_NEAR(milliseconds(99.9), 100, 1e-3);
  EXPECT_NEAR(milliseconds(100), 100, 1e-3);
}

TEST(LatenciesTest, ReportCountsErrorsByCodeWithAnExample) {
  Latencies one, other;
  one.Add(absl::Milliseconds(2), absl::OkStatus());
  one.Add(absl::Milliseconds(1), absl::NotFoundError("model 'x'"));
  other.Add(absl::Milliseconds(1), absl::NotFoundError("model 'y'"));
  one.Merge(other);
  EXPECT_EQ(one.good(), 1);
  EXPECT_EQ(one.bad(), 2);
  const std::string report = one.Report(absl::Seconds(2));
  EXPECT_NE(report.find("answers      1 in 2.0 s, 0.5 per second\n"), std::string::npos) << report;
  EXPECT_NE(report.find("  NOT_FOUND  2, as: model 'x'\n"), std::string::npos) << report;
}

TEST(LatenciesTest, NothingMeasuredIsNoCrash) {
  EXPECT_EQ(Latencies().Percentile(50), absl::ZeroDuration());
  EXPECT_NE(Latencies().Report(absl::ZeroDuration()).find("errors"), std::string::npos);
}

}  // namespace
}  // namespace gluond::cli
