// SessionService with its real program: from the stream to the operators and back.

#include "tests/server/stubborn_client.h"

namespace gluond::server {
namespace {

class SessionEndToEndTest : public SessionTest {
 protected:
  void Configure(ServerOptions*) override {}
};

v1::Command Prepare(uint64_t call, const std::string& op) {
  v1::Command command;
  command.mutable_prepare()->set_call(call);
  command.mutable_prepare()->set_op(op);
  return command;
}
v1::Command PutFloats(uint64_t array, size_t count, float first) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + 0.01f * static_cast<float>(i);
  v1::Command command = Put(array, std::string(reinterpret_cast<const char*>(values.data()), 4 * count));
  command.mutable_put()->mutable_tensor()->add_shape(static_cast<int64_t>(count));
  return command;
}
v1::Command Invoke(uint64_t call, const std::vector<uint64_t>& inputs, uint64_t output) {
  v1::Command command;
  command.mutable_invoke()->set_call(call);
  for (const uint64_t input : inputs) command.mutable_invoke()->add_inputs(input);
  command.mutable_invoke()->add_outputs(output);
  return command;
}

// x = sin(x) + y, again and again, with a look at x now and then: a command lost or executed twice shows ever after.
v1::Command CommandOf(uint64_t number) {
  constexpr uint64_t kSin = 1, kAdd = 2, kX = 1, kY = 2;
  switch (number) {
    case 1: return Prepare(kSin, "sin");
    case 2: return Prepare(kAdd, "elemwise_add");
    case 3: return PutFloats(kX, 3000, 0.5f);
    case 4: return PutFloats(kY, 3000, -1);
    default: break;
  }
  if (number % 10 == 0) return Fetch({kX});
  return number % 2 == 0 ? Invoke(kSin, {kX}, kX) : Invoke(kAdd, {kX, kY}, kX);
}

TEST_F(SessionEndToEndTest, OperatorsRunAndAnswer) {
  ClientStream stream(*stub_);
  ASSERT_FALSE(stream.Open().empty());
  stream.Send(1, {Prepare(1, "elemwise_add"), PutFloats(1, 2, 1), Invoke(1, {1, 1}, 2), Fetch({2})});
  const std::string value = stream.NextValue();
  ASSERT_EQ(value.size(), 8u);
  float first = 0;
  std::memcpy(&first, value.data(), 4);
  EXPECT_EQ(first, 2);
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(SessionEndToEndTest, CutAnywhereTheNumbersAreThoseOfACalmRun) {
  // How many streams end before they are cut depends on the machine: 16 to 60 cuts are usual.
  EXPECT_GT(ExpectCutsDoNotMatter(*stub_, {CommandOf, 400, 40}, 20), 3);
}

TEST_F(SessionEndToEndTest, AnEndedSessionGivesItsMemoryBack) {
  const int64_t before = server_->devices().tensor_bytes();
  ClientStream stream(*stub_);
  stream.Open();
  stream.Send(1, {PutFloats(1, 1 << 20, 0), Fetch({1})});
  EXPECT_EQ(stream.NextValue().size(), 4u << 20);
  EXPECT_GE(server_->devices().tensor_bytes(), before + (4 << 20));
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
  Eventually([&] { return server_->devices().tensor_bytes() == before; });
}

// Each keeps its values for a gradient that nobody asks for: some 16,000 bytes.
TEST_F(SessionEndToEndTest, AThousandRecordedGraphsThatNobodyDifferentiatesHarmNobodyElse) {
  Limits limits;
  limits.max_session_bytes = 4 << 20;
  Restart(limits);
  const int64_t before = server_->devices().tensor_bytes();
  ClientStream stream(*stub_), other(*stub_);
  stream.Open();
  std::vector<v1::Command> commands = {Json<v1::Command>(R"({"define_graph": {"graph": 1, "inputs": ["x"], "definition": {
          "nodes": [{"name": "s", "op": "square", "inputs": ["x"]}, {"name": "y", "op": "sin", "inputs": ["s"]}],
          "outputs": ["y"]}}})"),
                                       PutFloats(1, 2000, 0),
                                       Json<v1::Command>(R"({"mark": {"arrays": [{"variable": 1, "gradient": 2}]}})")};
  for (int i = 0; i < 1000; ++i) {
    commands.push_back(Json<v1::Command>(
        absl::StrCat(R"({"run_graph": {"graph": 1, "inputs": [1], "outputs": [)", 100 + i, R"(], "recording": true}})")));
  }
  for (const uint64_t array : {100, 1099}) commands.push_back(Fetch({array}));
  stream.Send(1, commands);
  EXPECT_EQ(stream.NextValue().size(), 8000u);
  const v1::Reply refused = stream.NextReply();
  ASSERT_EQ(refused.failures_size(), 1) << refused.DebugString();
  EXPECT_EQ(refused.failures(0).status().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.failures(0).status().message().find("recorded calls of graphs keep their memory for backward"),
            std::string::npos)
      << refused.failures(0).status().message();
  EXPECT_GT(server_->devices().tensor_bytes(), before + (3 << 20));
  other.Open();
  other.Send(1, {PutFloats(1, 1 << 19, 0), Fetch({1})});
  EXPECT_EQ(other.NextValue().size(), 2u << 20);
  for (ClientStream* each : {&stream, &other}) {
    each->WritesDone();
    EXPECT_TRUE(each->Finish().ok());
  }
  Eventually([&] { return server_->devices().tensor_bytes() == before; });
}

}  // namespace
}  // namespace gluond::server
