// The limits of a session.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/hosted/graph_memory.h"
#include "tests/server/session_program_fixture.h"

namespace gluond::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
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

// A chain that reads eight inputs again and again, as graph 1, whose inputs are the arrays 1 to 8.
class LongGraphTest : public SessionProgramTest {
 protected:
  static constexpr int kInputs = 8, kNodes = 4000;

  void Define(int64_t memory) {
    Limits limits;
    limits.max_memory_bytes = memory;
    Open(limits);
    v1::Command command;
    v1::Command::DefineGraph& define = *command.mutable_define_graph();
    define.set_graph(1);
    std::string last = "x0";
    for (int i = 0; i < kNodes; ++i) {
      v1::Node& node = *define.mutable_definition()->add_nodes();
      node.set_name(absl::StrCat("n", i));
      node.set_op("elemwise_mul");
      node.add_inputs(last);
      node.add_inputs(absl::StrCat("x", i % kInputs));
      last = node.name();
    }
    define.mutable_definition()->add_outputs(last);
    for (int i = 0; i < kInputs; ++i) define.add_inputs(absl::StrCat("x", i));
    Do(command);
    ExpectNothingNoted();
    for (uint64_t i = 1; i <= kInputs; ++i) Put(i, {1});
  }
  // The gradient of the graph for the input that is marked; each input is another graph.
  v1::Reply Differentiate(uint64_t input) {
    Put(input, {1});
    Do(absl::StrCat(R"("mark": {"arrays": [{"variable": )", input, R"(, "gradient": 20}]})"));
    Do(R"("run_graph": {"graph": 1, "inputs": [1, 2, 3, 4, 5, 6, 7, 8], "outputs": [9], "recording": true})");
    Do(R"("backward": {"heads": [9]})");
    Put(input, {1});  // It is marked no more.
    v1::Reply reply = Fetch({20});
    Do(R"("free": {"arrays": [9, 20]})");
    return reply;
  }
  int64_t used() const { return devices_->memory()->used(); }
};

TEST_F(LongGraphTest, GradientsOfGraphsAreCharged) {
  Define(int64_t{1} << 30);
  int64_t before = used();
  for (uint64_t input = 1; input <= kInputs; ++input) {
    EXPECT_THAT(Differentiate(input).failures(), IsEmpty());
    EXPECT_GT(used(), before + kNodes / 2 * kNodeBytes) << input;
    before = used();
    EXPECT_THAT(Differentiate(input).failures(), IsEmpty());
    EXPECT_LT(used(), before + kNodes / 2 * kNodeBytes) << "the same graph";
  }
}

// The gradients of all inputs take more than the memory, and compiling one of them a quarter of it.
TEST_F(LongGraphTest, GradientsThatAreKeptMakeRoomForOthers) {
  Define(int64_t{32} << 20);
  for (int turn = 0; turn < 3; ++turn) {
    for (uint64_t input = 1; input <= kInputs; ++input) EXPECT_THAT(Differentiate(input).failures(), IsEmpty()) << input;
  }
}

TEST_F(LongGraphTest, AGradientThatNobodyCanPayForIsRefused) {
  Define(int64_t{16} << 20);
  Budget& memory = *devices_->memory();
  const int64_t others = memory.limit() - memory.used() - (1 << 20);
  ASSERT_EQ(memory.Charge(others), absl::OkStatus());
  const v1::Failure refused = TheFailure(Differentiate(2));
  ExpectFailure(refused, Code::kResourceExhausted, "--max_memory_bytes");
  EXPECT_THAT(refused.status().message(), HasSubstr("nodes of a graph's gradients"));
  memory.Refund(others);
  EXPECT_THAT(Differentiate(2).failures(), IsEmpty()) << "the session goes on";
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
