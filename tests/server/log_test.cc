// The log: nobody waits for its reader, repetitions are counted and not written, and nothing goes missing without a word.

#include "server/rpc/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "server/rpc/log_writer.h"

namespace gluond::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A pipe that nobody reads until ReadAll.
class Pipe {
 public:
  Pipe() {
    std::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe(ends_), 0);
  }
  ~Pipe() { close(ends_[0]); }  // The writer's thread may still have the other end.
  int end() const { return ends_[1]; }

  // Reads until there is the line `last`.
  std::string ReadUntil(const std::string& last) {
    std::string all;
    char some[4096];
    while (!absl::StrContains(all, last)) {
      const ssize_t got = read(ends_[0], some, sizeof(some));
      if (got <= 0) break;
      all.append(some, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  int ends_[2];
};

TEST(LogWriterTest, NobodyWaitsForAFullPipeAndWhatWasDroppedIsCounted) {
  constexpr int kLines = 10'000, kMost = 64 << 10;
  Pipe pipe;
  LogWriter log(pipe.end(), kMost);
  const std::string line = std::string(99, 'x') + "\n";
  for (int i = 0; i < kLines; ++i) log.Write(line);  // Much more than pipe and queue take.
  EXPECT_FALSE(log.Flush(milliseconds(1)));

  const std::string before = pipe.ReadUntil("\"event\":\"log_lines_dropped\"");
  ASSERT_TRUE(log.Flush(seconds(60)));
  log.Write("the end\n");
  const std::string text = before + pipe.ReadUntil("the end");
  int64_t written = 0, dropped = 0;
  for (const absl::string_view got : absl::StrSplit(text, '\n')) {
    written += got.size() == 99;
    const std::vector<std::string> parts = absl::StrSplit(got, "\"lines\":");
    int64_t more = 0;
    if (parts.size() == 2 && absl::SimpleAtoi(absl::StripSuffix(parts[1], "}"), &more)) dropped += more;
  }
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(written + dropped, kLines);
}

TEST(LogWriterTest, LinesAreWrittenInOrder) {
  Pipe pipe;
  LogWriter log(pipe.end());
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    log.Write(std::to_string(i) + "\n");
    expected += std::to_string(i) + "\n";
  }
  EXPECT_EQ(pipe.ReadUntil("99\n"), expected);
  EXPECT_TRUE(log.Flush(seconds(60)));
}

TEST(LogLimitTest, ARepeatedReasonHasAFewLinesAndThenACount) {
  LogLimit limit;
  const auto start = LogLimit::Clock::now();
  for (int64_t i = 0; i < LogLimit::kBurst; ++i) ASSERT_EQ(limit.Admit("a", start), 0) << i;
  for (int i = 0; i < 7; ++i) EXPECT_EQ(limit.Admit("a", start + seconds(1)), std::nullopt);
  EXPECT_EQ(limit.Admit("b", start), 0) << "another reason has lines of its own";
  EXPECT_EQ(limit.Admit("a", start + LogLimit::kEvery), 7);
  EXPECT_EQ(limit.Admit("a", start + LogLimit::kEvery), std::nullopt);
  EXPECT_EQ(limit.Admit("a", start + 2 * LogLimit::kEvery), 1);
}

TEST(LogLimitTest, AfterASilenceThereAreAsManyLinesAsAtFirst) {
  LogLimit limit;
  auto now = LogLimit::Clock::now();
  for (const auto pause : {seconds(0), LogLimit::kEvery * 10'000}) {
    now += pause;
    int64_t lines = 0;
    while (limit.Admit("a", now).has_value()) ++lines;
    EXPECT_EQ(lines, LogLimit::kBurst);
  }
}

TEST(LogLimitTest, WhatWasLeftOutIsToldThoughNothingFollows) {
  LogLimit limit;
  const auto start = LogLimit::Clock::now();
  for (int64_t i = 0; i < LogLimit::kBurst + 3; ++i) limit.Admit("a", start);
  EXPECT_TRUE(limit.TakeLeftOut(start).empty());
  const LogLimit::Counts expected = {{"a", 3}};
  EXPECT_EQ(limit.TakeLeftOut(start + LogLimit::kEvery), expected);
  EXPECT_TRUE(limit.TakeLeftOut(start + 2 * LogLimit::kEvery).empty());
  for (int i = 0; i < 4; ++i) limit.Admit("a", start + LogLimit::kEvery);
  EXPECT_EQ(limit.TakeAllLeftOut().size(), 1u);
}

TEST(FailureLogTest, EveryFailureIsALineOrCounted) {
  std::string text;
  FailureLog log([&text](absl::string_view line) { text.append(line.data(), line.size()); });
  for (int i = 0; i < 1000; ++i) log.Failed({"/service/Method", absl::NotFoundError("nothing"), "peer"});
  log.Flush();
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), LogLimit::kBurst + 1);
  EXPECT_TRUE(absl::StrContains(lines[0], R"("method":"/service/Method","code":"NOT_FOUND","message":"nothing")"));
  EXPECT_TRUE(absl::StrContains(
      lines.back(), R"("event":"requests_failed","reason":"/service/Method NOT_FOUND","left_out":950)")) << lines.back();
}

TEST(FailureLogTest, EveryEndedConnectionIsALineOrCounted) {
  std::vector<std::string> lines;
  FailureLog log([&lines](absl::string_view line) { lines.emplace_back(line); });
  for (int64_t i = 0; i < LogLimit::kBurst + 7; ++i) log.Ended("ipv4:10.0.0.7:41014", "it floods");
  ASSERT_EQ(lines.size(), static_cast<size_t>(LogLimit::kBurst));
  EXPECT_TRUE(absl::StrContains(lines[0], R"("event":"connection_ended","peer":"ipv4:10.0.0.7:41014","reason":"it floods"})"));
  log.Flush();
  EXPECT_TRUE(absl::StrContains(lines.back(), R"("left_out":7)"));
}

TEST(FailureLogTest, ALineIsShortWhateverTheMessage) {
  const std::string line = ToJsonLine({"m", absl::InternalError(std::string(1 << 20, 'y')), "p"});
  EXPECT_LT(line.size(), 3000u);
}

}  // namespace
}  // namespace gluond::server
