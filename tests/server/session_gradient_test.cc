// Commands of a session on gradients: Mark, Backward, Fresh.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/session_program_fixture.h"

namespace gluond::server {
namespace {

using testing::ElementsAre;
using Code = absl::StatusCode;

TEST_F(SessionProgramTest, WritesGradients) {
  Put(1, {1, 2});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  EXPECT_THAT(Values(11), ElementsAre(0, 0)) << "zeros at first";
  Record("square", {1}, {2});
  Do(R"("backward": {"heads": [2]})");
  EXPECT_THAT(Values(11), ElementsAre(2, 4));
  Do(R"("backward": {"heads": [2]})");
  ExpectNoted(Code::kFailedPrecondition, "retain_graph=True");
  Put(3, {10, 1});
  Record("square", {1}, {2});
  Do(R"("backward": {"heads": [2], "head_gradients": [3]})");
  EXPECT_THAT(Values(11), ElementsAre(20, 4));
}

TEST_F(SessionProgramTest, AddsGradients) {
  Put(1, {1, 2});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11, "request": "ADD"}]})");
  for (int i = 0; i < 3; ++i) {
    Record("square", {1}, {2});
    Do(R"("backward": {"heads": [2]})");
  }
  EXPECT_THAT(Values(11), ElementsAre(6, 12));
  Put(11, {0, 0});
  Record("square", {1}, {2});
  Do(R"("backward": {"heads": [2]})");
  EXPECT_THAT(Values(11), ElementsAre(2, 4));
}

TEST_F(SessionProgramTest, MarksAndTakesMarksAway) {
  Put(1, {1});
  Put(2, {1});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}, {"variable": 2, "gradient": 12, "request": "WRITE"}]})");
  Do(R"("mark": {"arrays": [{"variable": 1, "request": "NULL"}]})");
  Record("elemwise_add", {1, 2}, {3});
  Do(R"("backward": {"heads": [3]})");
  EXPECT_THAT(Values(11), ElementsAre(0));
  EXPECT_THAT(Values(12), ElementsAre(1));
  ExpectNothingNoted();
}

TEST_F(SessionProgramTest, MarkCutsOffHistory) {
  Put(1, {3});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  Record("square", {1}, {2});
  Do(R"("mark": {"arrays": [{"variable": 2, "gradient": 12}]})");
  Record("square", {2}, {4});
  Do(R"("backward": {"heads": [4]})");
  EXPECT_THAT(Values(11), ElementsAre(0));
  EXPECT_THAT(Values(12), ElementsAre(18));
}

TEST_F(SessionProgramTest, MarkSaysWhatIsWrong) {
  Put(1, {1});
  Do(R"("mark": {"arrays": [{"variable": 1}]})");
  ExpectNoted(Code::kInvalidArgument, "has no name");
  Do(R"("mark": {"arrays": [{"variable": 5, "gradient": 6}]})");
  ExpectNoted(Code::kInvalidArgument, "no array 5");
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 6, "request": 9}]})");
  ExpectNoted(Code::kInvalidArgument, "request 9");
}

TEST_F(SessionProgramTest, AMarkedArrayStaysMarked) {
  Put(1, {1});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  Put(1, {5, 6});
  Record("square", {1}, {2});
  Do(R"("backward": {"heads": [2]})");
  EXPECT_THAT(Values(11), ElementsAre(10, 12));
  Prepare(1, "_plus_scalar", R"("scalar": "1")");
  Invoke(1, {1}, {1}, R"(, "recording": true)");
  Record("square", {1}, {2});
  Do(R"("backward": {"heads": [2]})");
  EXPECT_THAT(Values(11), ElementsAre(12, 14));
  Do(R"("free": {"arrays": [11]})");
  Record("square", {1}, {2});
  Do(R"("backward": {"heads": [2]})");
  ExpectNothingNoted();
}

TEST_F(SessionProgramTest, GradientsByName) {
  Put(1, {3});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  Record("square", {1}, {2});
  Record("square", {2}, {3});
  Do(R"("backward": {"heads": [3], "variables": [1, 2], "outputs": [21, 22], "create_graph": true})");
  EXPECT_THAT(Values(21), ElementsAre(108));
  EXPECT_THAT(Values(22), ElementsAre(18));
  EXPECT_THAT(Values(11), ElementsAre(0)) << "not the marked one's";
  Do(R"("backward": {"heads": [21], "variables": [1], "outputs": [23]})");
  EXPECT_THAT(Values(23), ElementsAre(108));
}

TEST_F(SessionProgramTest, BackwardSaysWhatIsWrong) {
  Put(1, {3});
  Do(R"("backward": {})");
  ExpectNoted(Code::kFailedPrecondition, "no inputs");
  Do(R"("backward": {"heads": [1]})");
  ExpectNoted(Code::kFailedPrecondition, "autograd.record()");
  Do(R"("backward": {"heads": [9]})");
  ExpectNoted(Code::kInvalidArgument, "no array 9");
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  Record("square", {1}, {2});
  Do(R"("backward": {"heads": [2], "variables": [1], "outputs": [5, 6]})");
  ExpectPoisoned(6, Code::kInvalidArgument, "1 variables and 2 outputs");
  Do(R"("backward": {"heads": [2], "head_gradients": [0, 0]})");
  ExpectNoted(Code::kInvalidArgument, "1 heads and 2 head gradients");
  Do(R"("backward": {"heads": [2], "head_gradients": [77]})");
  ExpectNoted(Code::kInvalidArgument, "no array 77");
  Put(3, {1, 2});
  Do(R"("backward": {"heads": [2], "head_gradients": [3]})");
  ExpectNoted(Code::kInvalidArgument, "head gradient");
  Do(R"("backward": {"heads": [2], "variables": [3], "outputs": [7]})");
  ExpectPoisoned(7, Code::kInvalidArgument, "1-th variable");
  Do(R"("backward": {"heads": [2], "head_gradients": [0]})");
  EXPECT_THAT(Values(11), ElementsAre(6)) << "after all that";
}

TEST_F(SessionProgramTest, LeavesOutHeadsThatAreConstants) {
  Put(1, {1, 2});
  Put(2, {3, 4});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  Record("square", {1}, {3});
  Put(5, {10, 1});
  Do(R"("backward": {"heads": [2, 3], "head_gradients": [1, 5], "skip_constants": true})");
  EXPECT_THAT(Values(11), ElementsAre(20, 4));
  ExpectNothingNoted();
  Do(R"("backward": {"heads": [2], "skip_constants": true})");
  ExpectNoted(Code::kFailedPrecondition, "not in a computational graph");
}

// y = f(x) x, where f is the cube, which this client computes itself; its gradient is 3 x^2.
class FunctionTest : public SessionProgramTest {
 protected:
  void SetUp() override {
    SessionProgramTest::SetUp();
    Put(1, {2, 3});
    Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
    Put(2, {8, 27});
    Do(R"("prepare": {"call": 1, "op": "_CustomFunction", "custom": {"function": {"number": 7, "inputs": 1, "outputs": 1}}})");
    Invoke(1, {1, 2}, {3}, R"(, "recording": true)");
    Record("elemwise_mul", {3, 1}, {4});
  }
  // Computes dy/dx with a stop at the function. Returns the command's number.
  uint64_t Begin() {
    const v1::Reply reply =
        Ask(R"("backward": {"heads": [4], "variables": [1], "outputs": [6], "create_graph": true, "out_grads": [20]})");
    EXPECT_EQ(reply.backward().function(), 7u) << reply.DebugString();
    return reply.number();
  }
  v1::Reply Continue(uint64_t backward, const std::string& gradients) {
    return Ask(absl::StrCat(R"("continue_backward": {"backward": )", backward, R"(, "gradients": [)", gradients,
                            R"(], "out_grads": [21]})"));
  }
  // Computes the gradient of f's input from that of its result.
  void RecordGradient(uint64_t from, uint64_t to) {
    Record("square", {1}, {50});
    Put(51, {3, 3});
    Record("elemwise_mul", {50, 51}, {52});
    Record("elemwise_mul", {52, from}, {to});
  }
};

TEST_F(FunctionTest, TheClientComputesAndRecordsItsGradient) {
  const uint64_t backward = Begin();
  EXPECT_THAT(Values(20), ElementsAre(2, 3)) << "dy/df = x";
  RecordGradient(20, 30);
  const v1::Reply reply = Continue(backward, "30");
  EXPECT_EQ(reply.backward().function(), 0u) << reply.DebugString();
  EXPECT_THAT(Values(6), ElementsAre(32, 108)) << "4 x^3";
  // 4 x^3 = f(x) + 3 x^2 x: its gradient passes f again.
  const v1::Reply second =
      Ask(R"("backward": {"heads": [6], "variables": [1], "outputs": [61], "create_graph": true, "out_grads": [22]})");
  EXPECT_EQ(second.backward().function(), 7u) << second.DebugString();
  RecordGradient(22, 31);
  EXPECT_EQ(Continue(second.number(), "31").backward().function(), 0u);
  EXPECT_THAT(Values(61), ElementsAre(48, 108)) << "12 x^2";
  ExpectNothingNoted();
}

TEST_F(FunctionTest, AStoppedBackwardWritesGradientsAtItsEnd) {
  const v1::Reply reply = Ask(R"("backward": {"heads": [4], "create_graph": true, "out_grads": [20]})");
  RecordGradient(20, 30);
  EXPECT_THAT(Values(11), ElementsAre(0, 0));
  Continue(reply.number(), "30");
  EXPECT_THAT(Values(11), ElementsAre(32, 108));
}

TEST_F(FunctionTest, AStoppedBackwardSaysWhatIsWrong) {
  ExpectFailure(TheFailure(Ask(R"("backward": {"heads": [4], "out_grads": [20]})")), Code::kInvalidArgument, "create_graph");
  ExpectFailure(TheFailure(Continue(12345, "20")), Code::kFailedPrecondition, "no Backward of the number 12345");
  ExpectFailure(TheFailure(Continue(Begin(), "99")), Code::kInvalidArgument, "no array 99");
  ExpectFailure(TheFailure(Continue(Begin(), "20, 20")), Code::kInvalidArgument, "2 gradients, expected 1");
  Put(40, {1, 2, 3});
  ExpectFailure(TheFailure(Continue(Begin(), "40")), Code::kInvalidArgument, "expected float32[2]");
  const uint64_t given_up = Begin();
  EXPECT_EQ(Continue(given_up, "").failures_size(), 0);
  ExpectFailure(TheFailure(Continue(given_up, "20")), Code::kFailedPrecondition, "no Backward");
  for (int i = 0; i < 64; ++i) Begin();
  ExpectFailure(TheFailure(Ask(R"("backward": {"heads": [4], "create_graph": true, "out_grads": [20]})")), Code::kResourceExhausted,
                "wait for gradients");
}

TEST_F(SessionProgramTest, FreshGradients) {
  Put(1, {1});
  Put(2, {1});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}, {"variable": 2, "gradient": 12}]})");
  Record("square", {1}, {3});
  Do(R"("backward": {"heads": [3]})");
  const std::string tell = R"("fresh": {"variables": [2, 1], "tell": true})";
  EXPECT_THAT(Ask(tell).fresh().fresh(), ElementsAre(false, true));
  Do(R"("fresh": {"variables": [1], "require": true})");
  ExpectNothingNoted();
  Prepare(1, "_plus_scalar", R"("scalar": "1")");
  Invoke(1, {1}, {1}, R"(, "when_fresh": 1)");
  Invoke(1, {2}, {2}, R"(, "when_fresh": 2)");
  Invoke(1, {2}, {2}, R"(, "when_fresh": 3)");
  EXPECT_THAT(Values(1), ElementsAre(2));
  EXPECT_THAT(Values(2), ElementsAre(1)) << "not fresh, or not marked: nothing is done";
  EXPECT_THAT(Ask(R"("fresh": {"variables": [1], "clear": true, "tell": true})").fresh().fresh(), ElementsAre(true));
  EXPECT_THAT(Ask(tell).fresh().fresh(), ElementsAre(false, false));
  Invoke(1, {1}, {1}, R"(, "when_fresh": 1)");
  EXPECT_THAT(Values(1), ElementsAre(2));
  Record("square", {1}, {3});
  Do(R"("backward": {"heads": [3]})");
  Do(R"("fresh": {"variables": [1, 2], "require": true})");
  ExpectNoted(Code::kFailedPrecondition, "array 2");
  Invoke(1, {1}, {1}, R"(, "when_fresh": 1)");
  EXPECT_THAT(Values(1), ElementsAre(2)) << "an update of both does nothing";
  Do(R"("fresh": {"variables": [44]})");
  ExpectNoted(Code::kInvalidArgument, "no array 44");
  EXPECT_EQ(Ask(R"("fresh": {"variables": [44], "tell": true})").failures_size(), 1);
  Invoke(1, {1}, {5}, R"(, "when_fresh": 44)");
  ExpectPoisoned(5, Code::kInvalidArgument, "no array 44");
}

TEST_F(SessionProgramTest, AStaleCallMakesNewArraysAndLeavesThoseThatItWrites) {
  Put(1, {1});
  Put(2, {8});
  Put(3, {4});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  Prepare(1, "sgd_mom_update", R"("lr": "0.5", "momentum": "0.5")");
  Invoke(1, {1, 2, 3}, {4}, R"(, "when_fresh": 1)");
  EXPECT_THAT(Values(4), ElementsAre(-1));
  EXPECT_THAT(Values(3), ElementsAre(4)) << "the momentum";
  Invoke(1, {1, 2, 3}, {}, R"(, "when_fresh": 1)");
  Invoke(1, {1, 2, 3}, {1}, R"(, "when_fresh": 1)");
  EXPECT_THAT(Values(1), ElementsAre(1));
  EXPECT_THAT(Values(3), ElementsAre(4));
  Put(7, {5});
  Put(8, {1, 2});
  Prepare(2, "SliceChannel", R"("num_outputs": "2", "axis": "0")");
  Invoke(2, {8}, {7, 9}, R"(, "when_fresh": 1)");
  EXPECT_THAT(Values(7), ElementsAre(5)) << "it was there";
  EXPECT_THAT(Values(9), ElementsAre(2)) << "it is new";
  Record("square", {1}, {5});
  Do(R"("backward": {"heads": [5]})");
  Invoke(1, {1, 2, 3}, {6}, R"(, "when_fresh": 1)");
  EXPECT_THAT(Values(6), ElementsAre(-1));
  EXPECT_THAT(Values(3), ElementsAre(-2));
  ExpectNothingNoted();
}

}  // namespace
}  // namespace gluond::server
