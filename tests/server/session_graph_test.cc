// Commands of a session on graphs: DefineGraph, RunGraph, InferGraph; and DescribeCall.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/session_program_fixture.h"

namespace gluond::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Code = absl::StatusCode;

TEST_F(SessionProgramTest, RunsGraphs) {
  scratch_ = 4864;
  Do(kDense);
  ExpectNothingNoted();
  Put(1, {1, 2});
  Put(2, {1, 0, 0, 1});
  Prepare(1, "Reshape", R"-("shape": "(-1, 2)")-");
  Invoke(1, {1}, {1 + 10});
  Invoke(1, {2}, {2 + 10});
  Do(R"("mark": {"arrays": [{"variable": 12, "gradient": 22}]})");
  Do(R"("run_graph": {"graph": 1, "inputs": [11, 12], "outputs": [13], "recording": true})");
  EXPECT_THAT(Values(13), ElementsAre(1, 2));
  Do(R"("backward": {"heads": [13]})");
  EXPECT_THAT(Values(22), ElementsAre(1, 2, 1, 2));
  Do(R"("run_graph": {"graph": 1, "inputs": [11, 12], "outputs": [13]})");
  EXPECT_THAT(Values(13), ElementsAre(1, 2));
}

// The fixture looks at what is left then.
TEST_F(SessionProgramTest, EndsWhileRecordedGraphsWaitForBackward) {
  scratch_ = 4864;
  Do(kDense);
  Put(1, {1, 2});
  Put(2, {1, 0, 0, 1});
  Prepare(1, "Reshape", R"-("shape": "(-1, 2)")-");
  Invoke(1, {1}, {11});
  Invoke(1, {2}, {12});
  Do(R"("mark": {"arrays": [{"variable": 12, "gradient": 22}]})");
  for (int i = 0; i < 20; ++i) {
    Do(absl::StrCat(R"("run_graph": {"graph": 1, "inputs": [11, 12], "outputs": [)", 100 + i, R"(], "recording": true})"));
  }
  EXPECT_THAT(Values(119), ElementsAre(1, 2));
}

TEST_F(SessionProgramTest, RunGraphSaysWhatIsWrong) {
  Put(1, {1, 2});
  Do(R"("run_graph": {"graph": 1, "inputs": [1, 1], "outputs": [3]})");
  ExpectPoisoned(3, Code::kInvalidArgument, "no graph 1");
  Do(kDense);
  Do(R"("run_graph": {"graph": 1, "inputs": [1], "outputs": [4]})");
  ExpectPoisoned(4, Code::kInvalidArgument, "2 inputs, got 1");
  Do(R"("run_graph": {"graph": 1, "inputs": [1, 1], "outputs": [5, 6]})");
  ExpectPoisoned(6, Code::kInvalidArgument, "1 outputs, got 2");
  Do(R"("run_graph": {"graph": 1, "inputs": [1, 1], "outputs": [7]})");
  ExpectPoisoned(7, Code::kInvalidArgument, "FullyConnected");
  Do(R"("run_graph": {"graph": 1, "inputs": [1, 99], "outputs": [8]})");
  ExpectPoisoned(8, Code::kInvalidArgument, "no array 99");
  Do(R"("free": {"graphs": [1]})");
  Do(R"("run_graph": {"graph": 1, "inputs": [1, 1], "outputs": [9]})");
  ExpectPoisoned(9, Code::kInvalidArgument, "no graph 1");
}

TEST_F(SessionProgramTest, DefineGraphSaysWhatIsWrong) {
  const auto define = [this](const std::string& rest) { return Do(R"("define_graph": {"graph": 2, )" + rest + "}"); };
  const std::string square = R"("definition": {"nodes": [{"name": "y", "op": "square", "inputs": ["x"]}], "outputs": ["y"]})";
  define(R"("inputs": [], )" + square);
  ExpectNoted(Code::kInvalidArgument, "'x'");
  Put(1, {1});
  Do(R"("run_graph": {"graph": 2, "inputs": [1], "outputs": [3]})");
  ExpectPoisoned(3, Code::kInvalidArgument, "'x'");
  define(R"("inputs": ["x", "x"], )" + square);
  ExpectNoted(Code::kInvalidArgument, "twice");
  define(R"("inputs": ["x"],
            "definition": {"nodes": [{"name": "y", "op": "sqare", "inputs": ["x"]}], "outputs": ["y"]})");
  ExpectNoted(Code::kNotFound, "sqare");
  Do(R"("define_graph": {"graph": 0, "inputs": ["x"], )" + square + "}");
  ExpectNoted(Code::kInvalidArgument, "DefineGraph.graph is 0");
  define(R"("inputs": ["x", "unused"], )" + square);
  ExpectNothingNoted();
  Do(R"("run_graph": {"graph": 2, "inputs": [1, 1], "outputs": [4]})");
  EXPECT_THAT(Values(4), ElementsAre(1));
}

// Their kernels trust the shapes and indices of a forward pass.
TEST_F(SessionProgramTest, PartsOfGradientsAreNotCalled) {
  Put(1, {1, 2});
  Put(2, {1'000'000'000, 0});
  Call("_backward_backward_topk", {1, 2}, {3});
  ExpectPoisoned(3, Code::kInvalidArgument, "a part of gradients");
  Do(R"("define_graph": {"graph": 2, "inputs": ["x"], "definition": {"nodes": [
        {"name": "y", "op": "_backward_backward_topk", "inputs": ["x", "x"]}]}})");
  ExpectNoted(Code::kInvalidArgument, "a part of gradients");
}

TEST_F(SessionProgramTest, InfersGraphs) {
  Do(kDense);
  v1::Reply reply = Ask(R"("infer_graph": {"graph": 1, "known": {"x": {"has_shape": true, "shape": [5, 3],
                                                                     "dtype": "FLOAT32"}}})");
  EXPECT_THAT(reply.failures(), IsEmpty());
  EXPECT_THAT(reply.graph().inputs(1).shape(), ElementsAre(2, 3));
  EXPECT_THAT(reply.graph().outputs(0).shape(), ElementsAre(5, 2));
  EXPECT_TRUE(reply.graph().complete());
  EXPECT_THAT(reply.graph().auxiliary(), ElementsAre(false, false));
  reply = Ask(R"("infer_graph": {"graph": 1, "known": {}, "partial": true})");
  EXPECT_THAT(reply.failures(), IsEmpty());
  EXPECT_FALSE(reply.graph().complete());
  ExpectFailure(TheFailure(Ask(R"("infer_graph": {"graph": 1})")), Code::kFailedPrecondition, "FullyConnected");
  ExpectFailure(TheFailure(Ask(R"("infer_graph": {"graph": 1, "known": {"xx": {}}})")), Code::kInvalidArgument, "'xx'");
  ExpectFailure(TheFailure(Ask(R"("infer_graph": {"graph": 1, "known": {"x": {"has_shape": true, "shape": [-7]}}})")),
                Code::kInvalidArgument, "variable 'x'");
  ExpectFailure(TheFailure(Ask(R"("infer_graph": {"graph": 1, "known": {"x": {"dtype": 99}}})")), Code::kInvalidArgument,
                "dtype 99");
  ExpectFailure(TheFailure(Ask(R"("infer_graph": {"graph": 8})")), Code::kInvalidArgument, "no graph 8");
}

// DescribeCall.

TEST_F(SessionProgramTest, DescribesCalls) {
  v1::Reply reply = Ask(R"("describe_call": {"op": "BatchNorm"})");
  EXPECT_THAT(reply.call().inputs(), ElementsAre("data", "gamma", "beta", "moving_mean", "moving_var"));
  EXPECT_THAT(reply.call().auxiliary(), ElementsAre(3, 4));
  EXPECT_THAT(reply.call().outputs(), ElementsAre("output"));
  EXPECT_EQ(reply.call().input_attributes(1).attributes().at("__init__"), "[\"one\", {}]");
  reply = Ask(R"("describe_call": {"op": "add_n", "num_inputs": 3})");
  EXPECT_THAT(reply.call().inputs(), SizeIs(3));
}

TEST_F(SessionProgramTest, DescribeCallSaysWhatIsWrong) {
  ExpectFailure(TheFailure(Ask(R"("describe_call": {"op": ""})")), Code::kNotFound, "not registered");
  ExpectFailure(TheFailure(Ask(R"("describe_call": {"op": "FullyConnected"})")), Code::kInvalidArgument, "num_hidden");
  ExpectFailure(TheFailure(Ask(R"("describe_call": {"op": "square", "attributes": {"\u0000": "x"}})")), Code::kInvalidArgument,
                "operator 'square'");
  ExpectFailure(TheFailure(Ask(R"("describe_call": {"op": "add_n", "num_inputs": 4000000000})")), Code::kInvalidArgument, "");
  ExpectFailure(TheFailure(Ask(R"("describe_call": {"op": "_CachedOp"})")), Code::kInvalidArgument, "by name");
  ExpectFailure(TheFailure(Ask(R"("describe_call": {"op": "_backward_Custom"})")), Code::kInvalidArgument, "a part of gradients");
  ExpectFailure(TheFailure(Ask(R"("describe_call": {"op": "SliceChannel",
                                                     "attributes": {"num_outputs": "4000000000"}})")),
                Code::kInvalidArgument, "num_outputs");
}

}  // namespace
}  // namespace gluond::server
