// The log: nobody waits for its reader, repetitions are counted and not written, and nothing goes missing without a word.

#include "server/rpc/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/error_info.h"
#include "gtest/gtest.h"
#include "server/rpc/audit_log.h"
#include "server/rpc/json_line.h"
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
  int reader() const { return ends_[0]; }

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
  constexpr int kLines = 10'000, kMost = 128 << 10;
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

TEST(LogWriterTest, LinesThatAreKeptHaveRoomWhereOthersAreDropped) {
  constexpr int kLines = 10'000, kKept = 100;
  Pipe pipe;
  LogWriter log(pipe.end(), 128 << 10);  // Others have more of it than a pipe takes.
  const std::string line = std::string(99, 'x') + "\n", kept = std::string(99, 'k') + "\n";
  for (int i = 0; i < kLines; ++i) log.Write(line);
  EXPECT_FALSE(log.Flush(milliseconds(1)));
  EXPECT_GT(log.lines_dropped(), 0);
  for (int i = 0; i < kKept; ++i) log.Write(kept, /*is_kept=*/true);
  const std::string before = pipe.ReadUntil(kept);
  ASSERT_TRUE(log.Flush(seconds(60)));
  log.Write("the end\n");
  const std::vector<std::string> lines = absl::StrSplit(before + pipe.ReadUntil("the end"), '\n');
  EXPECT_EQ(std::count(lines.begin(), lines.end(), std::string(99, 'k')), kKept);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), std::string(99, 'x')) + log.lines_dropped(), kLines);
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
  EXPECT_TRUE(limit.TakeLeftOut(LogLimit::kDue, start).empty());
  const LogLimit::Counts expected = {{"a", 3}};
  EXPECT_EQ(limit.TakeLeftOut(LogLimit::kDue, start + LogLimit::kEvery), expected);
  EXPECT_TRUE(limit.TakeLeftOut(LogLimit::kDue, start + 2 * LogLimit::kEvery).empty());
  for (int i = 0; i < 4; ++i) limit.Admit("a", start + LogLimit::kEvery);
  EXPECT_EQ(limit.TakeLeftOut(LogLimit::kAll).size(), 1u);
}

TEST(LogLimitTest, ReasonsBeyondTheMostShareTheirLinesUntilOthersAreOver) {
  LogLimit limit(/*most_reasons=*/2);
  const auto start = LogLimit::Clock::now();
  EXPECT_EQ(limit.Admit("a", start), 0);
  for (int64_t i = 0; i < LogLimit::kBurst + 1; ++i) limit.Admit("b", start);
  for (int64_t i = 0; i < LogLimit::kBurst; ++i) EXPECT_EQ(limit.Admit(std::to_string(i), start), 0);
  EXPECT_EQ(limit.Admit("c", start), std::nullopt);
  EXPECT_EQ(limit.Admit("a", start), 0);
  // By then a's lines are all there again, and of b one is still to be told.
  const auto later = start + 2 * LogLimit::kEvery;
  EXPECT_EQ(limit.Admit("c", later), 1);
  EXPECT_EQ(limit.Admit("d", later).has_value(), true);
  EXPECT_EQ(limit.TakeLeftOut(LogLimit::kAll).size(), 1u);
}

TEST(LogWriterTest, IsWrittenSaysWhetherItsDescriptorTakesLines) {
  const int full = open("/dev/full", O_WRONLY);
  LogWriter log(full);
  EXPECT_TRUE(log.is_written());
  log.Write("a\n");
  EXPECT_TRUE(log.Flush(seconds(60)));
  EXPECT_FALSE(log.is_written());
  log.GoOnIn(open("/dev/null", O_WRONLY));
  log.Write("b\n");
  EXPECT_TRUE(log.Flush(seconds(60)));
  EXPECT_TRUE(log.is_written());
  LogWriter small(full, /*queue_bytes=*/40);
  small.Write(std::string(39, 'x') + "\n", /*is_kept=*/true);
  EXPECT_FALSE(small.is_written());
}

TEST(FailureLogTest, EveryFailureIsALineOrCounted) {
  std::string text;
  FailureLog log([&text](absl::string_view line) { text.append(line.data(), line.size()); });
  for (int i = 0; i < 1000; ++i) log.Failed({"/service/Method", absl::NotFoundError("nothing"), "peer"});
  log.Sweep(LogLimit::kAll);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), LogLimit::kBurst + 1);
  EXPECT_TRUE(absl::StrContains(lines[0], R"("method":"/service/Method","code":"NOT_FOUND","message":"nothing")"));
  EXPECT_TRUE(absl::StrContains(lines.back(), R"("event":"requests_failed","level":"warning",)"
                                              R"("reason":"/service/Method NOT_FOUND","left_out":950)"))
      << lines.back();
}

TEST(FailureLogTest, EveryEndedConnectionIsALineOrCounted) {
  std::vector<std::string> lines;
  FailureLog log([&lines](absl::string_view line) { lines.emplace_back(line); });
  for (int64_t i = 0; i < LogLimit::kBurst + 7; ++i) log.Ended("ipv4:10.0.0.7:41014", "it floods");
  ASSERT_EQ(lines.size(), static_cast<size_t>(LogLimit::kBurst));
  EXPECT_TRUE(absl::StrContains(lines[0], R"("event":"connection_ended","level":"warning","peer":"ipv4:10.0.0.7:41014",)"
                                          R"("reason":"it floods"})"));
  log.Sweep(LogLimit::kAll);
  EXPECT_TRUE(absl::StrContains(lines.back(), R"("left_out":7)"));
}

TEST(FailureLogTest, ALineIsShortWhateverTheMessage) {
  const std::string line = ToJsonLine({"m", absl::InternalError(std::string(1 << 20, 'y')), "p"});
  EXPECT_LT(line.size(), 3000u);
}

TEST(FailureLogTest, EveryLimitHasACountFromTheStart) {
  const FailureLog log([](absl::string_view) {});
  EXPECT_EQ(log.Refusals().at("--max_requests"), 0);
  EXPECT_FALSE(log.Refusals().contains("--answer_lease_seconds")) << "it refuses nothing";
}

TEST(AuditLogTest, ALineIsShortWhateverTheTargetAndChangesThatWereMadeAreKept) {
  std::vector<std::pair<std::string, bool>> lines;
  AuditLog log;
  log.Open([&lines](const LogLine& line) { lines.emplace_back(line.text, line.is_kept); });
  log.Tell({"m", absl::StatusCode::kNotFound, "acme/ann", std::string(1 << 20, 'y'), "p", ""});
  log.Tell({"m", absl::StatusCode::kOk, "acme/ann", "acme/digits", "p", ""});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_LT(lines[0].first.size(), 1000u);
  EXPECT_TRUE(absl::StrContains(lines[0].first, "\"target\":\"yyyy")) << lines[0].first;
  EXPECT_FALSE(lines[0].second);
  EXPECT_TRUE(absl::StrContains(lines[1].first, "\"target\":\"acme/digits\"")) << lines[1].first;
  EXPECT_TRUE(lines[1].second);
}

TEST(AuditLogTest, NoCallerHidesAnothersLines) {
  std::vector<std::string> lines;
  AuditLog log;
  log.Open([&lines](const LogLine& line) { lines.emplace_back(line.text); });
  const auto refused = [&](const std::string& caller, const std::string& peer) {
    const size_t before = lines.size();
    log.Tell({"m", absl::StatusCode::kPermissionDenied, caller, "", peer, ""});
    return lines.size() == before;
  };
  for (int64_t i = 0; i < LogLimit::kBurst + 10; ++i) refused("mallory", "ipv4:10.0.0.7:1");
  for (int64_t i = 0; i < LogLimit::kBurst + 10; ++i) refused("", "ipv4:10.0.0.8:" + std::to_string(i));
  EXPECT_TRUE(refused("mallory", "ipv4:10.0.0.9:1"));
  EXPECT_TRUE(refused("", "ipv4:10.0.0.8:7"));
  EXPECT_FALSE(refused("eve", "ipv4:10.0.0.7:1"));
  EXPECT_FALSE(refused("", "ipv4:10.0.0.9:7"));
}

TEST(AuditLogTest, ReadsOfOneThingHideNoReadsOfAnother) {
  std::vector<std::string> lines;
  AuditLog log;
  log.Open([&lines](const LogLine& line) { lines.emplace_back(line.text); });
  const auto read = [&log](const char* target, absl::StatusCode code) {
    log.Tell({"m", code, "ann", target, "p", "", Audit::kMany});
  };
  for (int64_t i = 0; i < LogLimit::kBurst + 10; ++i) read("a", absl::StatusCode::kOk);
  read("b", absl::StatusCode::kOk);
  EXPECT_EQ(lines.size(), static_cast<size_t>(LogLimit::kBurst + 1));
  // Names that are none are the client's, who may make any number up.
  for (int64_t i = 0; i < 1000; ++i) read(std::to_string(i).c_str(), absl::StatusCode::kNotFound);
  EXPECT_EQ(lines.size(), static_cast<size_t>(2 * LogLimit::kBurst + 1));
  log.Sweep(LogLimit::kAll);
  EXPECT_TRUE(absl::StrContains(lines.back(), "left_out")) << lines.back();
}

TEST(AuditLogTest, ThatIsRequiredRefusesWhileItIsNotWritten) {
  bool is_written = true;
  std::vector<std::string> lines;
  AuditLog log;
  EXPECT_TRUE(log.Check().ok());
  log.Open([&lines](const LogLine& line) { lines.emplace_back(line.text); }, [&is_written] { return is_written; });
  EXPECT_TRUE(log.Check().ok());
  log.Sweep();
  EXPECT_TRUE(lines.empty());
  is_written = false;
  EXPECT_TRUE(absl::IsUnavailable(log.Check()));
  log.Sweep();  // Tries it again.
  EXPECT_EQ(lines.size(), 1u);
}

TEST(FailureLogTest, LevelsSayWhichFailuresHaveALineAndCountThemAllTheSame) {
  std::vector<std::string> lines;
  FailureLog log([&lines](absl::string_view line) { lines.emplace_back(line); });
  const auto fail = [&](const absl::Status& status) { log.Failed({"/service/Method", status, "peer"}); };
  log.levels().Set(LogLevel::kWarning, false);
  fail(OverLimit("--max_models", "too many"));
  fail(absl::InternalError("a mistake"));
  log.levels().Set(LogLevel::kError, false);
  fail(absl::InternalError("another"));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(absl::StrContains(lines[0], "a mistake"));
  EXPECT_EQ(log.Refusals().at("--max_models"), 1);
}

TEST(LogWriterTest, ALingeringWriterWritesManyLinesTogether) {
  Pipe pipe;
  LogWriter log(pipe.end(), LogWriter::kQueueBytes, milliseconds(300));
  const auto begun = std::chrono::steady_clock::now();
  log.Write("first\n");
  log.Write("second\n");
  char some[64] = "";
  ASSERT_EQ(read(pipe.reader(), some, sizeof(some)), 13) << "both at once";
  EXPECT_GE(std::chrono::steady_clock::now() - begun, milliseconds(250));
  log.Write("third\n");
  EXPECT_TRUE(log.Flush(milliseconds(250))) << "whoever waits for the end of the queue does not linger";
}

TEST(LogWriterTest, ALingeringWriterDoesNotLetItsQueueFill) {
  Pipe pipe;
  LogWriter log(pipe.end(), /*queue_bytes=*/1000, seconds(3600));
  for (int i = 0; i < 6; ++i) log.Write(std::string(99, 'x') + "\n");
  EXPECT_GE(pipe.ReadUntil("\n").size(), 100u);
  EXPECT_EQ(log.lines_dropped(), 0);
}

// A folder with a log in it.
class LogFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/log-" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directory(folder_);
    path_ = folder_ + "/the.log";
    absl::StatusOr<std::unique_ptr<LogWriter>> opened = LogWriter::Open(path_, milliseconds(0));
    ASSERT_TRUE(opened.ok()) << opened.status();
    file_ = *std::move(opened);
  }
  void TearDown() override {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(folder_);
  }
  void Write(const std::string& line) {
    file_->Write(line + "\n");
    EXPECT_TRUE(file_->Flush(seconds(60)));
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string folder_, path_;
  std::unique_ptr<LogWriter> file_;
};

TEST_F(LogFileTest, LinesFollowTheNameAndNotTheFile) {
  Write("one");
  EXPECT_TRUE(file_->FollowMove().ok());
  Write("two");
  EXPECT_EQ(Read(path_), "one\ntwo\n");
  std::filesystem::rename(path_, path_ + ".1");
  Write("three");  // Nobody has looked.
  EXPECT_TRUE(file_->FollowMove().ok());
  Write("four");
  std::filesystem::remove(path_);
  EXPECT_TRUE(file_->FollowMove().ok());
  Write("five");
  std::ofstream(path_ + ".new") << "by another\n";
  std::filesystem::rename(path_ + ".new", path_);
  EXPECT_TRUE(file_->FollowMove().ok());
  Write("six");
  EXPECT_EQ(Read(path_ + ".1"), "one\ntwo\nthree\n");
  EXPECT_EQ(Read(path_), "by another\nsix\n");
}

TEST_F(LogFileTest, AFolderThatIsGoneIsToldOnceAndLinesGoWhereTheyWent) {
  Write("one");
  std::filesystem::rename(folder_, folder_ + "-moved");
  EXPECT_TRUE(absl::IsPermissionDenied(file_->FollowMove()));
  EXPECT_TRUE(file_->FollowMove().ok());
  Write("two");
  std::filesystem::rename(folder_ + "-moved", folder_);
  EXPECT_TRUE(file_->FollowMove().ok());
  Write("three");
  EXPECT_EQ(Read(path_), "one\ntwo\nthree\n");
  EXPECT_EQ(file_->lines_dropped(), 0);
}

TEST(LogLevelTest, AnErrorIsWhatItsCallerHasNotBroughtAbout) {
  EXPECT_EQ(LevelOf(absl::OkStatus()), LogLevel::kInfo);
  EXPECT_EQ(LevelOf(absl::InvalidArgumentError("")), LogLevel::kWarning);
  for (const absl::Status& own :
       {absl::UnknownError(""), absl::InternalError(""), absl::UnavailableError(""), absl::DataLossError("")}) {
    EXPECT_EQ(LevelOf(own), LogLevel::kError) << own;
  }
  EXPECT_EQ(LevelOf(WithInfo(absl::UnavailableError(""), reason::kDraining)), LogLevel::kError);
  EXPECT_EQ(LevelOf(WithInfo(absl::UnavailableError(""), reason::kProviderGone)), LogLevel::kWarning);
  EXPECT_EQ(LevelOf(WithInfo(absl::DataLossError(""), reason::kDamagedOnTheWay)), LogLevel::kWarning);
}

TEST(JsonLineTest, TextIsEscapedAsJsonWantsIt) {
  EXPECT_EQ(JsonQuoted(""), "\"\"");
  EXPECT_EQ(JsonQuoted("plain / ä"), "\"plain / ä\"");
  EXPECT_EQ(JsonQuoted("a\"b\\c\n\x01\x7f"
                       "d"),
            R"("a\"b\\c\u000a\u0001\u007fd")");
}

}  // namespace
}  // namespace gluond::server
