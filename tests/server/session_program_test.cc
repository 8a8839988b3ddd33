// Commands of a session on arrays and operators: their effects, their mistakes, their waiting, and their failures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"
#include "google/rpc/error_details.pb.h"
#include "tests/server/session_program_fixture.h"

namespace gluond::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Code = absl::StatusCode;

TEST_F(SessionProgramTest, Computes) {
  Put(1, {1, 2, 3});
  Prepare(1, "_plus_scalar", R"("scalar": "0.5")");
  Invoke(1, {1}, {2});
  Invoke(1, {2}, {3});
  EXPECT_THAT(Values(3), ElementsAre(2, 3, 4));
  EXPECT_THAT(Values(1), ElementsAre(1, 2, 3));
  const v1::Reply both = Fetch({3, 1});
  EXPECT_THAT(both.tensors(), SizeIs(2));
  EXPECT_EQ(both.number(), number_);
}

TEST_F(SessionProgramTest, AnEmptyCommandIsAMistake) {
  Do(v1::Command());
  ExpectNoted(Code::kInvalidArgument, "without content");
}

TEST_F(SessionProgramTest, ACommandOfANewerProtocolIsAnsweredAtOnce) {
  v1::Command command;
  command.GetReflection()->MutableUnknownFields(&command)->AddLengthDelimited(4711)->assign("news");
  const v1::Reply reply = Ask(command);
  ASSERT_THAT(reply.failures(), SizeIs(1));
  EXPECT_EQ(reply.failures(0).status().code(), static_cast<int>(Code::kUnimplemented));
  EXPECT_EQ(reply.failures(0).command(), number_);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(reply.failures(0).status().details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "UNKNOWN_COMMAND");
  EXPECT_EQ(info.metadata().at("field"), "4711");
  EXPECT_EQ(info.metadata().at("number"), absl::StrCat(number_));
  EXPECT_NE(info.metadata().at("protocol"), "");
  Put(1, {1, 2});
  EXPECT_THAT(Values(1), ElementsAre(1, 2)) << "the session goes on";
}

TEST_F(SessionProgramTest, EachCommandOfTheProtocolIsKnown) {
  const google::protobuf::OneofDescriptor& kinds = *v1::Command::descriptor()->FindOneofByName("command");
  for (int i = 0; i < kinds.field_count(); ++i) {
    SCOPED_TRACE(kinds.field(i)->name());
    v1::Command command;
    command.GetReflection()->MutableMessage(&command, kinds.field(i));
    const uint64_t number = Do(command);
    if (SessionProgram::IsAnswered(command)) Await(number);
  }
  Fetch({});
  std::lock_guard lock(mu_);
  for (const auto& [number, reply] : replies_) {
    for (const v1::Failure& failure : reply.failures()) {
      EXPECT_THAT(failure.status().message(), testing::Not(testing::HasSubstr("without content"))) << failure.command();
    }
  }
}

// Put.

TEST_F(SessionProgramTest, PutTakesAnyShapeAndType) {
  Put(1, {1, 2});
  Do(R"("put": {"array": 1, "tensor": {"shape": [2, 2], "dtype": "INT32", "fill": {"constant": 3}}})");
  const v1::Reply reply = Ask(R"("describe": {"arrays": [1]})");
  EXPECT_THAT(reply.arrays(0).shape(), ElementsAre(2, 2));
  EXPECT_EQ(reply.arrays(0).dtype(), v1::Tensor::INT32);
  EXPECT_EQ(reply.arrays(0).device(), "cpu");
  EXPECT_TRUE(reply.arrays(0).has_shape());
}

TEST_F(SessionProgramTest, PutSaysWhatIsWrong) {
  Do(R"("put": {"array": 1, "tensor": {"shape": [2], "float_data": [1]}})");
  ExpectPoisoned(1, Code::kInvalidArgument, "float_data", number_);
  Do(R"("put": {"array": 2, "tensor": {"shape": [1], "float_data": [1]}, "device": "gpu:5"})");
  ExpectPoisoned(2, Code::kNotFound, "gpu:5");
  Do(R"("put": {"array": 3, "tensor": {"shape": [-1]}})");
  ExpectPoisoned(3, Code::kInvalidArgument, "negative");
  Put(0, {1});
  ExpectNoted(Code::kInvalidArgument, "Put.array is 0");
}

TEST_F(SessionProgramTest, AFetchedArrayIsNotOverwritten) {
  std::vector<float> many(2000, 1);
  Put(1, many);
  const v1::Reply before = Fetch({1});
  Prepare(1, "_plus_scalar", R"("scalar": "1")");
  Invoke(1, {1}, {1});
  EXPECT_EQ(Values(1)[0], 2);
  float first = 0;
  std::memcpy(&first, attachments_[before.number()].Get(before.tensors(0).raw()).pieces()[0].data(), sizeof(first));
  EXPECT_EQ(first, 1);
}

TEST_F(SessionProgramTest, FetchesAPartOfAnArray) {
  std::vector<float> many(5000);
  std::iota(many.begin(), many.end(), 0.0f);
  Put(1, many);
  Prepare(1, "Reshape", R"_("shape": "(50, 100)")_");
  Invoke(1, {1}, {2});
  for (const auto& [begin, end] : {std::pair(0, 5000), {0, 1}, {4999, 5000}, {120, 140}, {100, 4900}}) {
    SCOPED_TRACE(testing::Message() << begin << " to " << end);
    const v1::Reply reply = Ask(absl::StrCat(R"("fetch": {"arrays": [1, 2], "begin": )", begin, R"(, "end": )", end, "}"));
    ASSERT_THAT(reply.tensors(), SizeIs(2));
    for (const v1::Tensor& tensor : reply.tensors()) {
      EXPECT_THAT(tensor.shape(), ElementsAre(end - begin));
      std::vector<float> values(static_cast<size_t>(end - begin));
      const Bytes bytes = attachments_[reply.number()].Get(tensor.raw());
      ASSERT_EQ(bytes.size(), values.size() * sizeof(float));
      bytes.CopyTo(values.data());
      EXPECT_EQ(values, std::vector<float>(many.begin() + begin, many.begin() + end));
    }
  }
  for (const char* range : {R"("begin": 0, "end": 5001)", R"("begin": 7, "end": 7)", R"("begin": 7)", R"("end": 0)",
                            R"("begin": 18446744073709551615, "end": 3)"}) {
    const v1::Reply reply = Ask(absl::StrCat(R"("fetch": {"arrays": [1], )", range, "}"));
    ExpectFailure(TheFailure(reply), Code::kInvalidArgument, "of an array of shape [5000], which has 5000", number_);
  }
}

// Handles.

TEST_F(SessionProgramTest, UnknownArrays) {
  const v1::Reply reply = Fetch({7});
  ExpectFailure(TheFailure(reply), Code::kInvalidArgument, "there is no array 7", number_);
  EXPECT_THAT(reply.tensors(), SizeIs(1)) << "an empty one stands for it";
  ExpectFailure(TheFailure(Ask(R"("describe": {"arrays": [0]})")), Code::kInvalidArgument, "no array 0");
  Put(1, {1});
  const uint64_t command = Call("elemwise_add", {1, 8}, {2});
  ExpectPoisoned(2, Code::kInvalidArgument, "there is no array 8", command);
  Call("elemwise_add", {2, 1}, {3});
  ExpectPoisoned(3, Code::kInvalidArgument, "there is no array 8", command);
  EXPECT_THAT(Values(1), ElementsAre(1));
}

TEST_F(SessionProgramTest, FreedHandles) {
  Put(1, {1});
  Prepare(1, "square");
  Do(R"("free": {"arrays": [1, 55], "calls": [1, 55], "graphs": [55]})");
  ExpectNothingNoted();
  ExpectPoisoned(1, Code::kInvalidArgument, "freed");
  Put(1, {1});
  const uint64_t command = Invoke(1, {1}, {2});
  ExpectPoisoned(2, Code::kInvalidArgument, "no prepared call 1", command);
}

TEST_F(SessionProgramTest, FreeGivesMemoryBack) {
  const int64_t before = devices_->tensor_bytes();
  Put(1, std::vector<float>(1000));
  EXPECT_GE(devices_->tensor_bytes(), before + 4000);
  Do(R"("free": {"arrays": [1]})");
  EXPECT_EQ(devices_->tensor_bytes(), before);
}

// Prepare and Invoke.

TEST_F(SessionProgramTest, AWrongCallIsToldWhenItIsUsed) {
  Put(1, {1});
  Prepare(1, "no_such_op");
  Prepare(2, "_plus_scalar", R"("scaler": "1")");
  Prepare(3, "elemwise_add");
  ExpectNothingNoted();
  Invoke(1, {1}, {11});
  Invoke(2, {1}, {12});
  Invoke(3, {1}, {13});
  ExpectPoisoned(11, Code::kNotFound, "no_such_op");
  ExpectPoisoned(12, Code::kInvalidArgument, "scaler");
  ExpectPoisoned(13, Code::kInvalidArgument, "takes 2 inputs");
  Prepare(0, "square");
  ExpectNoted(Code::kInvalidArgument, "Prepare.call is 0");
  Prepare(1, "square");
  Invoke(1, {1}, {11});
  EXPECT_THAT(Values(11), ElementsAre(1));
}

TEST_F(SessionProgramTest, ACallOfAnyNumberOfInputs) {
  Put(1, {1});
  Prepare(1, "add_n");
  Invoke(1, {1, 1}, {2});
  Invoke(1, {1, 1, 1}, {3});
  Invoke(1, {1, 1}, {4});
  EXPECT_THAT(Values(2), ElementsAre(2));
  EXPECT_THAT(Values(3), ElementsAre(3));
  EXPECT_THAT(Values(4), ElementsAre(2));
}

TEST_F(SessionProgramTest, OutputsByName) {
  Put(1, {1, 2, 3});
  Prepare(1, "SliceChannel", R"("num_outputs": "3", "axis": "0")");
  Invoke(1, {1}, {0, 12});
  EXPECT_THAT(Values(12), ElementsAre(2));
  Invoke(1, {1}, {21, 21, 22});
  EXPECT_THAT(Values(21), ElementsAre(2)) << "the last one of a name";
  EXPECT_THAT(Values(22), ElementsAre(3));
  const uint64_t command = Invoke(1, {1}, {31, 32, 33, 34});
  ExpectPoisoned(34, Code::kInvalidArgument, "3 outputs, got 4", command);
  ExpectPoisoned(31, Code::kInvalidArgument, "3 outputs, got 4", command);
  Invoke(1, {7}, {});
  ExpectNoted(Code::kInvalidArgument, "no array 7");
}

TEST_F(SessionProgramTest, TheSameArrayAsInputAndOutput) {
  Put(1, {1, 2});
  Call("elemwise_add", {1, 1}, {1});
  EXPECT_THAT(Values(1), ElementsAre(2, 4));
  Do(R"("assign": {"to": 2, "from": 1})");
  Call("square", {1}, {1});
  EXPECT_THAT(Values(1), ElementsAre(4, 16));
  EXPECT_THAT(Values(2), ElementsAre(2, 4));
}

TEST_F(SessionProgramTest, AnOutputKeepsItsShapeAndType) {
  Put(1, {1, 2});
  Put(2, {1, 2, 3});
  const uint64_t command = Call("square", {1}, {2});
  ExpectPoisoned(2, Code::kInvalidArgument, "float32[3], expected float32[2]", command);
  Call("square", {1}, {2});
  EXPECT_THAT(Values(2), ElementsAre(1, 4)) << "a failed one takes anything";
  Prepare(1, "Cast", R"("dtype": "int32")");
  Invoke(1, {1}, {2});
  ExpectPoisoned(2, Code::kInvalidArgument, "expected int32[2]");
}

// Whether the old value is there already makes no difference.
TEST_F(SessionProgramTest, AnOutputThatWaitsKeepsItsShape) {
  Put(1, {1, 2});
  Put(3, {1, 2, 3});
  Call("t_wait", {1}, {2});
  Call("square", {3}, {2});
  Call("t_wait", {1}, {4});
  Call("square", {4}, {4});
  Call("t_wait", {3}, {5});
  Call("square", {5}, {1});
  for (int i = 0; i < 3; ++i) WaitingCalls::Get().Next().Complete();
  ExpectPoisoned(2, Code::kInvalidArgument, "float32[2], expected float32[3]");
  ExpectPoisoned(1, Code::kInvalidArgument, "float32[2], expected float32[3]");
  EXPECT_THAT(Values(4), ElementsAre(4, 16));
  EXPECT_EQ(pending(), 0);
}

TEST_F(SessionProgramTest, WrittenInputsHaveNewValues) {
  Put(1, {10});
  Put(2, {1});
  Put(3, {2});
  Do(R"("assign": {"to": 4, "from": 3})");
  Prepare(1, "sgd_mom_update", R"("lr": "1", "momentum": "0.5")");
  Invoke(1, {1, 2, 3}, {1});
  EXPECT_THAT(Values(3), ElementsAre(0));
  EXPECT_THAT(Values(1), ElementsAre(10));
  EXPECT_THAT(Values(4), ElementsAre(2)) << "another name for the old value";
}

TEST_F(SessionProgramTest, CallsWithoutInputs) {
  Prepare(1, "_ones", R"-("shape": "(2,)")-");
  Invoke(1, {}, {1});
  EXPECT_THAT(Values(1), ElementsAre(1, 1));
  Invoke(1, {}, {2}, R"(, "device": "cpu")");
  EXPECT_THAT(Values(2), ElementsAre(1, 1));
  Invoke(1, {}, {3}, R"(, "device": "tpu")");
  ExpectPoisoned(3, Code::kInvalidArgument, "tpu");
}

TEST_F(SessionProgramTest, DrawsFromTheSeed) {
  Prepare(1, "_random_uniform", R"-("shape": "(3,)")-");
  Do(R"("seed": {"seed": 5})");
  Invoke(1, {}, {1});
  Invoke(1, {}, {2});
  Do(R"("seed": {"seed": 5})");
  Invoke(1, {}, {3});
  EXPECT_EQ(Values(1), Values(3));
  EXPECT_NE(Values(1), Values(2));
}

TEST_F(SessionProgramTest, Dropout) {
  Put(1, std::vector<float>(100, 1));
  Prepare(1, "Dropout", R"("p": "0.5")");
  Invoke(1, {1}, {2}, R"(, "training": true)");
  Invoke(1, {1}, {3});
  EXPECT_THAT(Values(2), testing::Contains(0));
  EXPECT_THAT(Values(3), testing::Each(1));
}

// Waiting commands.

TEST_F(SessionProgramTest, OthersGoOnWhileOneWaits) {
  Put(1, {1});
  Call("t_wait", {1}, {2});
  Call("square", {2}, {3});
  const uint64_t fetch = Do(R"("fetch": {"arrays": [3]})");
  const uint64_t all = Do(R"("wait_all": {})");
  const uint64_t describe = Do(R"("describe": {"arrays": [3]})");
  EXPECT_THAT(Values(1), ElementsAre(1));
  EXPECT_FALSE(IsAnswered(fetch));
  EXPECT_FALSE(IsAnswered(all));
  EXPECT_FALSE(IsAnswered(describe));
  EXPECT_EQ(pending(), 3) << "t_wait, square, and the copy to the host for Fetch";
  WaitingCalls::Get().Next().Complete();
  EXPECT_THAT(Await(fetch).tensors(), SizeIs(1));
  EXPECT_THAT(Await(all).failures(), IsEmpty());
  EXPECT_THAT(Await(describe).arrays(0).shape(), ElementsAre(1));
  EXPECT_EQ(pending(), 0);
}

TEST_F(SessionProgramTest, WhatHasWaitedIsNotKept) {
  constexpr int64_t kValues = 100'000, kBytes = kValues * static_cast<int64_t>(sizeof(float));
  const int64_t before = devices_->tensor_bytes();
  Put(1, std::vector<float>(kValues));
  Call("t_wait", {1}, {2});
  Call("square", {2}, {3});
  WaitingCalls::Get().Next().Complete();
  Fetch({3});
  replies_.clear(), attachments_.clear();
  Do(R"("free": {"arrays": [1, 3, 2]})");
  Fence();
  EXPECT_LT(devices_->tensor_bytes(), before + 2 * kBytes) << "but by the idle executor of t_wait, with its program";
}

TEST_F(SessionProgramTest, EndsWhileCommandsWait) {
  Put(1, {1});
  Call("t_wait", {1}, {2});
  const uint64_t fetch = Do(R"("fetch": {"arrays": [2]})");
  OnLane([&] { program_.reset(); });
  Fence();
  std::lock_guard lock(mu_);
  EXPECT_FALSE(replies_.contains(fetch));
}

TEST_F(SessionProgramTest, SaysWhatTakesLong) {
  const auto takes_long = [this](const std::string& json) {
    const v1::Command command = Json<v1::Command>("{" + json + "}");
    bool is_long = false;
    OnLane([&] { is_long = program_->TakesLong(command); });
    return is_long;
  };
  EXPECT_FALSE(takes_long(R"("put": {"array": 1, "tensor": {"shape": [512, 512], "fill": {"constant": 1}}})"));
  EXPECT_TRUE(takes_long(R"("put": {"array": 1, "tensor": {"shape": [513, 512], "fill": {"constant": 1}}})"));

  std::string nodes = R"({"name": "n0", "op": "relu", "inputs": ["x"]})";
  for (int i = 1; i < 300; ++i) {
    absl::StrAppend(&nodes, R"(, {"name": "n)", i, R"(", "op": "relu", "inputs": ["n)", i - 1, R"("]})");
  }
  const std::string graph = absl::StrCat(R"("define_graph": {"graph": 2, "inputs": ["x"], "definition": {"nodes": [)", nodes,
                                         R"(], "outputs": ["n299"]}})");
  EXPECT_TRUE(takes_long(graph));
  Do(graph);
  Do(kDense);
  EXPECT_TRUE(takes_long(R"("infer_graph": {"graph": 2})"));
  EXPECT_FALSE(takes_long(R"("infer_graph": {"graph": 1})"));
  EXPECT_TRUE(takes_long(R"("run_graph": {"graph": 2, "recording": true})"));
  EXPECT_FALSE(takes_long(R"("run_graph": {"graph": 1, "recording": true})"));
  EXPECT_FALSE(takes_long(R"("run_graph": {"graph": 2})"));
  EXPECT_TRUE(takes_long(R"("free": {"graphs": [1, 2]})"));

  Put(1, {1});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  Prepare(1, "square");
  const auto record = [this](int calls) {
    for (int i = 0; i < calls; ++i) Invoke(1, {1}, {100 + static_cast<uint64_t>(i)}, R"(, "recording": true)");
  };
  record(4000);
  EXPECT_FALSE(takes_long(R"("backward": {"heads": [100]})"));
  record(4200);
  EXPECT_TRUE(takes_long(R"("backward": {"heads": [100]})"));
}

// Failures.

TEST_F(SessionProgramTest, WaitAllReportsWhatIsNotTold) {
  Put(1, {1});
  Put(2, {1, 2});
  const uint64_t first = Call("elemwise_add", {1, 2}, {3});
  const uint64_t second = Call("elemwise_add", {1, 2}, {4});
  ExpectPoisoned(3, Code::kInvalidArgument, "elemwise_add", first);
  v1::Reply all = Ask(R"("wait_all": {})");
  EXPECT_EQ(TheFailure(all).command(), second);
  EXPECT_EQ(TheFailure(all).array(), 0);
  EXPECT_FALSE(TheFailure(all).told());
  EXPECT_THAT(Ask(R"("wait_all": {})").failures(), IsEmpty());
  EXPECT_TRUE(TheFailure(Fetch({4})).told());
  EXPECT_THAT(Fetch({3, 4}).failures(), SizeIs(2)) << "who asks for an array hears why it is not there";
}

TEST_F(SessionProgramTest, EachWaitAllWaits) {
  Put(1, {1});
  Call("t_wait", {1}, {2});
  WaitingCall call = WaitingCalls::Get().Next();
  const uint64_t first = Do(R"("wait_all": {})"), second = Do(R"("wait_all": {})");
  Fence();
  {
    std::lock_guard lock(mu_);
    EXPECT_FALSE(replies_.contains(first));
    EXPECT_FALSE(replies_.contains(second));
  }
  call.Complete();
  EXPECT_THAT(Await(first).failures(), IsEmpty());
  EXPECT_THAT(Await(second).failures(), IsEmpty());
}

TEST_F(SessionProgramTest, AFailureOfManyArraysIsOne) {
  Put(1, {1});
  Prepare(1, "SliceChannel", R"("num_outputs": "2", "axis": "0")");
  Invoke(1, {1}, {2, 3});
  EXPECT_THAT(Ask(R"("wait_all": {})").failures(), SizeIs(1));
  Invoke(1, {9}, {4, 5});
  EXPECT_THAT(Ask(R"("wait_all": {})").failures(), SizeIs(1));
}

TEST_F(SessionProgramTest, RemembersOnlySoManyFailures) {
  for (int i = 0; i < 5000; ++i) Do(v1::Command());
  EXPECT_EQ(Ask(R"("wait_all": {})").failures_size(), 2000) << "the first thousand and the last";
}

// Describe.

TEST_F(SessionProgramTest, Describes) {
  Put(1, {1, 2});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 2}]})");
  const v1::Reply reply = Ask(R"("describe": {"arrays": [1, 2, 3]})");
  ASSERT_THAT(reply.arrays(), SizeIs(3));
  EXPECT_EQ(reply.arrays(0).gradient(), 2);
  EXPECT_EQ(reply.arrays(1).gradient(), 0);
  EXPECT_FALSE(reply.arrays(2).has_shape());
  EXPECT_EQ(TheFailure(reply).array(), 3);
}

// Assign.

TEST_F(SessionProgramTest, Assigns) {
  Put(1, {3});
  Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}]})");
  Record("square", {1}, {2});
  Do(R"("assign": {"to": 3, "from": 2, "recording": true})");
  Do(R"("assign": {"to": 4, "from": 2})");
  EXPECT_THAT(Values(3), ElementsAre(9));
  Do(R"("backward": {"heads": [4]})");
  ExpectNoted(Code::kFailedPrecondition, "not in a computational graph");
  Do(R"("backward": {"heads": [3]})");
  EXPECT_THAT(Values(11), ElementsAre(6));

  Do(R"("assign": {"to": 1, "from": 2})");  // Stays marked.
  Record("square", {1}, {5});
  Do(R"("backward": {"heads": [5]})");
  EXPECT_THAT(Values(11), ElementsAre(18));
  Do(R"("assign": {"to": 1, "from": 1})");
  EXPECT_THAT(Values(1), ElementsAre(9));

  Do(R"("assign": {"to": 6, "from": 77})");
  ExpectPoisoned(6, Code::kInvalidArgument, "no array 77");
  Do(R"("assign": {"to": 7, "from": 1, "device": "gpu:9"})");
  ExpectPoisoned(7, Code::kNotFound, "gpu:9");
  Do(R"("assign": {"to": 8, "from": 1, "device": "cpu"})");
  EXPECT_THAT(Values(8), ElementsAre(9));
  Do(R"("assign": {"to": 0, "from": 1})");
  ExpectNoted(Code::kInvalidArgument, "Assign.to is 0");
}

}  // namespace
}  // namespace gluond::server
