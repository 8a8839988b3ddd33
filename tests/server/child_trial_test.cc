// Work that a child process does first: each way in which it may end is told in a line, and this process goes on.

#include "server/start/child_trial.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::minutes kLong{10};

std::string Outcome(const std::function<void()>& work, std::chrono::milliseconds time = kLong) {
  return std::string(TryInChild([&work] { return work(), absl::OkStatus(); }, time).message());
}

TEST(ChildTrialTest, WorkThatGoesWellIsWell) {
  EXPECT_EQ(TryInChild([] { return absl::OkStatus(); }, kLong), absl::OkStatus());
}

TEST(ChildTrialTest, TheChildsErrorIsTold) {
  const absl::Status status = TryInChild([] { return absl::NotFoundError("no 'x' here"); }, kLong);
  EXPECT_EQ(status, absl::FailedPreconditionError("no 'x' here"));
}

TEST(ChildTrialTest, NothingThatTheChildChangesOrPrintsIsSeen) {
  int value = 1;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Outcome([&value] { value = 2, std::puts("hello"), std::fflush(stdout); }), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(value, 1);
}

TEST(ChildTrialTest, ACrashIsTold) {
  EXPECT_EQ(Outcome([] { raise(SIGSEGV); }), "it crashes while it is loaded (signal 11, Segmentation fault)");
  EXPECT_EQ(Outcome([] { std::fputs("first\nsecond\n", stderr), std::abort(); }),
            "it crashes while it is loaded (signal 6, Aborted); it said: first second");
}

TEST(ChildTrialTest, AnExceptionIsToldInItsWords) {
  EXPECT_THAT(Outcome([] { throw std::runtime_error("no licence"); }), HasSubstr("no licence"));
}

TEST(ChildTrialTest, AnEndOfTheProcessIsTold) {
  EXPECT_EQ(Outcome([] { _exit(0); }), "it ends the process, with status 0, while it is loaded");
  EXPECT_EQ(Outcome([] { _exit(9); }), "it ends the process, with status 9, while it is loaded");
}

TEST(ChildTrialTest, WorkThatDoesNotEndIsEnded) {
  constexpr std::chrono::milliseconds kShort{50};
  EXPECT_EQ(Outcome(
                [] {
                  while (true) pause();
                },
                kShort),
            "it was not loaded within 50 ms");
  const std::string said = Outcome(
      [] {
        while (true) (void)!write(STDOUT_FILENO, "again\n", 6);
      },
      kShort);
  EXPECT_THAT(said, HasSubstr("it was not loaded within 50 ms; it said: again again"));
  EXPECT_LT(said.size(), 400u);
  EXPECT_THAT(said, Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace gluond::server
