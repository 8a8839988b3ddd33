// The limits of a session.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/session_program_fixture.h"

namespace gluond::server {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using Code = absl::StatusCode;

TEST_F(SessionProgramTest, LimitsNamesInACommand) {
  Put(1, {1});
  v1::Command command;
  for (int i = 0; i < 100'000; ++i) command.mutable_fetch()->add_arrays(1);
  ExpectFailure(TheFailure(Ask(command)), Code::kInvalidArgument, "100000 things");
  command.Clear();
  for (int i = 0; i < 100'000; ++i) command.mutable_invoke()->add_inputs(1);
  command.mutable_invoke()->add_outputs(2);
  Prepare(7, "add_n");
  command.mutable_invoke()->set_call(7);
  Do(command);
  ExpectNoted(Code::kInvalidArgument, "send several commands");
  command.Clear();
  for (int i = 0; i < 100'000; ++i) command.mutable_free()->add_arrays(static_cast<uint64_t>(i));
  Do(command);
  ExpectNothingNoted();
}

TEST_F(SessionProgramTest, LimitsAReply) {
  Limits limits;
  limits.max_message_bytes = 1 << 20;
  Open(limits);
  Put(1, std::vector<float>(500));  // Each is copied into the reply.
  v1::Command command;
  for (int i = 0; i < 5'000; ++i) command.mutable_fetch()->add_arrays(1);
  const v1::Reply reply = Ask(command);
  ExpectFailure(TheFailure(reply), Code::kResourceExhausted, "--max_message_bytes");
  EXPECT_LT(reply.SpaceUsedLong(), 100'000);
}

TEST_F(SessionProgramTest, LimitsArrays) {
  Limits limits;
  limits.max_session_arrays = 3;
  Open(limits);
  for (uint64_t i = 1; i <= 3; ++i) Put(i, {1});
  Put(4, {1});
  ExpectPoisoned(4, Code::kResourceExhausted, "--max_session_arrays", number_);
  for (uint64_t i = 5; i < 20; ++i) Put(i, {1});
  ExpectPoisoned(19, Code::kInvalidArgument, "no array 19");
  Put(2, {5});
  EXPECT_THAT(Values(2), ElementsAre(5)) << "a name in use may have another value";
  Do(R"("free": {"arrays": [4, 5, 6, 3]})");
  Put(3, {7});
  EXPECT_THAT(Values(3), ElementsAre(7));
  for (uint64_t i = 1; i <= 4; ++i) Prepare(i, "square");
  const v1::Reply reply = Fetch({});
  bool found = false;
  for (const v1::Failure& failure : reply.failures()) found = found || failure.command() == number_ - 1;
  EXPECT_TRUE(found) << "the fourth call";
  Invoke(4, {3}, {2});
  ExpectPoisoned(2, Code::kInvalidArgument, "no prepared call 4");
}

TEST_F(SessionProgramTest, LimitsCallsAndGraphsInBytes) {
  Limits limits;
  limits.max_session_queue_bytes = 10'000;
  Open(limits);
  for (uint64_t i = 1; i < 100; ++i) Prepare(i, "square");
  ExpectFailure(Ask(R"("wait_all": {})").failures(0), Code::kResourceExhausted, "--max_session_queue_bytes");
  v1::Command free;
  for (uint64_t i = 1; i < 100; ++i) free.mutable_free()->add_calls(i);
  Do(free);
  Put(1, {1});
  Prepare(1, "add_n");
  uint64_t refused = 0;
  for (size_t n = 1; n < 50 && refused == 0; ++n) {
    Invoke(1, std::vector<uint64_t>(n, 1), {2});
    if (Fetch({2}).failures_size() > 0) refused = n;
  }
  EXPECT_GT(refused, 2) << "a call for each number of inputs takes memory, too";
  Do(free);
  for (int i = 0; i < 20; ++i) {
    Do(kDense);  // Again and again under one name.
    ExpectNothingNoted();
  }
}

TEST_F(SessionProgramTest, LimitsBytes) {
  Limits limits;
  limits.max_session_bytes = 10'000;
  Open(limits);
  Put(1, std::vector<float>(1000));
  Call("square", {1}, {2});
  EXPECT_THAT(Values(2), SizeIs(1000));
  const uint64_t command = Call("square", {1}, {3});
  ExpectPoisoned(3, Code::kResourceExhausted, "--max_session_bytes", command);
  Put(4, std::vector<float>(1000));
  ExpectPoisoned(4, Code::kResourceExhausted, "--max_session_bytes");
  Do(R"("free": {"arrays": [2]})");
  replies_.clear(), attachments_.clear();
  Call("square", {1}, {3});
  EXPECT_THAT(Values(3), SizeIs(1000));
}

TEST_F(SessionProgramTest, LimitsTheTape) {
  Limits limits;
  limits.max_session_arrays = 50;
  Open(limits);
  Put(1, {1});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  Record("square", {1}, {2});
  for (int i = 0; i < 60; ++i) Record("_copy", {2}, {2});
  ExpectPoisoned(2, Code::kResourceExhausted, "the tape holds 50");
}

}  // namespace
}  // namespace gluond::server
