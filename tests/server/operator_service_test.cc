// OperatorService through a real stub: list, describe, invoke, check a gradient.

#include <set>

#include "gmock/gmock.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

using OperatorStub = v1::OperatorService::Stub;
using grpc::StatusCode;

class OperatorServiceTest : public ServiceTest {
 protected:
  v1::InvokeResponse Invoke(const std::string& json, StatusCode expected = StatusCode::OK) {
    return Call(operators_, &OperatorStub::Invoke, json, expected);
  }
};

TEST_F(OperatorServiceTest, ListsWhatTheRegistryHas) {
  const auto all = Call(operators_, &OperatorStub::ListOperators, "{}");
  EXPECT_GT(all.operators_size(), 100);
  for (int i = 1; i < all.operators_size(); ++i) EXPECT_LT(all.operators(i - 1).name(), all.operators(i).name());
  const auto some = Call(operators_, &OperatorStub::ListOperators, R"({"contains": "FULLYCON", "full": true})");
  ASSERT_EQ(some.operators_size(), 1);
  EXPECT_EQ(some.operators(0).name(), "FullyConnected");
  EXPECT_EQ(some.operators(0).inputs(1).name(), "weight");
}

TEST_F(OperatorServiceTest, ListsByPages) {
  const auto all = Call(operators_, &OperatorStub::ListOperators, R"({"internal": true, "full": true})");
  EXPECT_EQ(all.next_page_token(), "");
  const auto info = Call(info_, &v1::ServerService::Stub::GetServerInfo, "{}");
  EXPECT_EQ(all.registry_hash(), info.registry_hash());
  EXPECT_EQ(all.registry_hash().size(), 16u);
  EXPECT_GE(info.protocol(), 2u);
  EXPECT_GE(info.features_size(), 4);
  std::string token;
  int entries = 0, pages = 0;
  do {
    const auto page = Call(operators_, &OperatorStub::ListOperators,
                           absl::StrCat(R"({"internal": true, "page_size": 50, "page_token": ")", token, R"("})"));
    ASSERT_LE(page.operators_size(), 50);
    for (const v1::Operator& op : page.operators()) {
      ASSERT_LT(entries, all.operators_size());
      EXPECT_EQ(op.name(), all.operators(entries++).name());
    }
    token = page.next_page_token();
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(entries, all.operators_size());
  EXPECT_EQ(pages, (entries + 49) / 50);
  Call(operators_, &OperatorStub::ListOperators, R"({"page_size": -1})", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("page_size");
  Call(operators_, &OperatorStub::ListOperators, R"({"page_token": "nonsense"})", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("page_token");
}

TEST_F(OperatorServiceTest, DescribesOne) {
  const auto op = Call(operators_, &OperatorStub::DescribeOperator, R"({"op": "Activation"})").operator_();
  EXPECT_TRUE(op.differentiable());
  EXPECT_EQ(op.devices(0), "cpu");
  ASSERT_EQ(op.parameters_size(), 1);
  EXPECT_EQ(op.parameters(0).name(), "act_type");
  EXPECT_TRUE(op.parameters(0).required());
  EXPECT_EQ(op.parameters(0).values(0), "relu");
  Call(operators_, &OperatorStub::DescribeOperator, R"({"op": "Activatoin"})", StatusCode::NOT_FOUND);
  ExpectMessage("Activation");
}

TEST_F(OperatorServiceTest, ListsComponents) {
  using Family = v1::ListComponentsRequest;
  const auto optimizers = Call(operators_, &OperatorStub::ListComponents, R"({"family": "OPTIMIZER"})");
  EXPECT_EQ(optimizers.components(0).name(), "sgd");
  EXPECT_EQ(optimizers.components(0).aliases(0), "ccsgd");
  EXPECT_EQ(optimizers.components(0).arguments(0).name(), "learning_rate");
  EXPECT_EQ(optimizers.components(0).arguments(0).default_value(), "0.01");
  EXPECT_EQ(optimizers.components(0).arguments(2).default_value(), "None");
  std::set<int> families;
  const auto all = Call(operators_, &OperatorStub::ListComponents, "{}");
  for (const auto& entry : all.components()) {
    EXPECT_FALSE(entry.description().empty()) << entry.name();
    families.insert(entry.family());
  }
  EXPECT_THAT(families, testing::ElementsAre(Family::OPTIMIZER, Family::LOSS, Family::INITIALIZER, Family::METRIC,
                                             Family::LR_SCHEDULE, Family::BLOCK));
  Call(operators_, &OperatorStub::ListComponents, R"({"family": 9})", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("family is 9; want 0 (all) to 6");
}

TEST_F(OperatorServiceTest, InvokesWithTypedValues) {
  const auto reply = Invoke(R"({"op": "relu", "inputs": [{"shape": [3], "float_data": [-1, 0, 2]}]})");
  ASSERT_EQ(reply.outputs_size(), 1);
  EXPECT_EQ(reply.outputs(0).shape(0), 3);
  EXPECT_EQ(reply.outputs(0).float_data(2), 2);
  EXPECT_EQ(reply.outputs(0).float_data(0), 0);
}

TEST_F(OperatorServiceTest, AnswersInTheFormThatIsAsked) {
  const std::string input = R"({"op": "_copy", "inputs": [{"shape": [2], "fill": {"constant": 3}}], "encoding": )";
  EXPECT_EQ(Invoke(input + "\"RAW\"}").outputs(0).raw().size(), 8u);
  EXPECT_EQ(Invoke(input + "\"STATISTICS\"}").outputs(0).statistics().mean(), 3);
  EXPECT_EQ(Invoke(input + "\"NONE\"}").outputs_size(), 0);
  EXPECT_EQ(Invoke(input + "\"AUTO\"}").outputs(0).float_data(1), 3);
  v1::InvokeRequest raw;
  raw.set_op("_copy");
  raw.add_inputs()->add_shape(1);
  raw.mutable_inputs(0)->set_raw("abcd");
  EXPECT_EQ(Call(operators_, &OperatorStub::Invoke, raw).outputs(0).raw(), "abcd");
}

TEST_F(OperatorServiceTest, LargeTensorsPassWhole) {
  v1::InvokeRequest request;
  request.set_op("_copy");
  request.add_inputs()->add_shape(1'000'003);
  std::string* raw = request.mutable_inputs(0)->mutable_raw();
  raw->resize(4'000'012);
  for (size_t i = 0; i < raw->size(); ++i) (*raw)[i] = static_cast<char>(i % 251 % 127);
  for (int i = 0; i < 3; ++i) {
    const auto reply = Call(operators_, &OperatorStub::Invoke, request);
    ASSERT_EQ(reply.outputs_size(), 1);
    EXPECT_EQ(reply.outputs(0).raw(), *raw);
  }
}

TEST_F(OperatorServiceTest, ARepliesMemoryIsNotReusedUnderIt) {
  // Two replies of the same compiled call, held at once, keep their own values.
  const std::string text = R"({"op": "_copy", "encoding": "RAW", "inputs": [{"shape": [5000], "fill": {"constant": )";
  const auto one = Invoke(text + "1}}]}");
  const auto two = Invoke(text + "2}}]}");
  float first = 0;
  std::memcpy(&first, one.outputs(0).raw().data(), 4);
  EXPECT_EQ(first, 1);
}

// Lanes are for operators: work that looks at each element of a large result is done elsewhere.
TEST_F(OperatorServiceTest, LargeRepliesAreEncodedBesideTheLane) {
  Invoke(R"({"op": "_ones", "attributes": {"shape": [20000000]}, "encoding": "TYPED"})", StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("takes 4 bytes or more for each of its 20000000 values");
  EXPECT_EQ(log_.thread(), "worker");
  const std::string arange = R"({"op": "_arange", "attributes": {"stop": 20001}, "encoding": )";
  const auto typed = Invoke(arange + R"("TYPED"})");
  ASSERT_EQ(typed.outputs(0).float_data_size(), 20001);
  EXPECT_EQ(typed.outputs(0).float_data(20000), 20000);
  EXPECT_EQ(Invoke(arange + R"("STATISTICS"})").outputs(0).statistics().mean(), 10000);
}

TEST_F(OperatorServiceTest, TheServerCountsWhatHasWaitedForWhichThreads) {
  const auto taken = [this](const std::string& name) {
    int64_t found = -1;
    for (const Dispatch::Queue& queue : server_->queues())
      if (queue.name == name) found = queue.load.taken;
    return found;
  };
  EXPECT_EQ(taken("worker"), 0);
  EXPECT_EQ(taken("cpu-beside"), 0);
  const int64_t before = taken("cpu");
  Call(operators_, &v1::OperatorService::Stub::ListOperators, "{}");
  EXPECT_EQ(taken("worker"), 1);
  Call(operators_, &v1::OperatorService::Stub::Invoke, R"({"op": "square", "inputs": [{"shape": [1], "fill": {"constant": 3}}]})");
  EXPECT_GT(taken("cpu"), before);
  EXPECT_EQ(taken("disk"), 0);
}

TEST_F(OperatorServiceTest, TheSeedDecidesRandomNumbers) {
  const std::string text = R"({"op": "_random_uniform", "attributes": {"shape": [4]}, "seed": )";
  const auto a = Invoke(text + "\"1\"}"), b = Invoke(text + "\"1\"}"), c = Invoke(text + "\"2\"}");
  EXPECT_EQ(a.SerializeAsString(), b.SerializeAsString());
  EXPECT_NE(a.SerializeAsString(), c.SerializeAsString());
}

TEST_F(OperatorServiceTest, SaysWhatIsWrong) {
  Invoke(R"({"op": "rellu"})", StatusCode::NOT_FOUND);
  ExpectMessage("Invoke: ");
  ExpectMessage("relu");
  Invoke(R"({"op": "relu"})", StatusCode::INVALID_ARGUMENT);
  Invoke(R"({"op": "relu", "inputs": [{"shape": [2], "float_data": [1]}]})", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("inputs[0]: shape [2] has 2 elements, but float_data has 1");
  Invoke(R"({"op": "relu", "device": "gpu:7", "inputs": [{"float_data": [1]}]})", StatusCode::NOT_FOUND);
  ExpectMessage("it has: cpu");
  Invoke(R"({"op": "Activation", "attributes": {"act_type": "tanhh"}, "inputs": [{"float_data": [1]}]})",
         StatusCode::INVALID_ARGUMENT);
  ExpectMessage("act_type");
}

TEST_F(OperatorServiceTest, PartsOfGradientsAreNotCalled) {
  const std::string two = R"({"op": "_backward_tanh", "inputs": [{"shape": [2], "fill": {}}, {"shape": [2], "fill": {}}]})";
  Invoke(two, StatusCode::INVALID_ARGUMENT);
  ExpectMessage("a part of gradients");
  Call(operators_, &OperatorStub::CheckGradient, two, StatusCode::INVALID_ARGUMENT);
  ExpectMessage("a part of gradients");
}

TEST_F(OperatorServiceTest, EachFailureIsOneLineOfJson) {
  Invoke(R"({"op": "no\nsuch"})", StatusCode::NOT_FOUND);
  const std::vector<std::string> lines = log_.Take();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(std::count(lines[0].begin(), lines[0].end(), '\n'), 1);
  EXPECT_NE(lines[0].find(R"("method":"/gluond.v1.OperatorService/Invoke","code":"NOT_FOUND")"), std::string::npos) << lines[0];
}

TEST_F(OperatorServiceTest, ChecksGradients) {
  const std::string good = R"({"op": "sigmoid", "inputs": [{"shape": [2, 3], "fill": {"normal": {"seed": "1"}}}]})";
  const auto report = Call(operators_, &OperatorStub::CheckGradient, good);
  EXPECT_TRUE(report.passed());
  ASSERT_EQ(report.inputs_size(), 1);
  EXPECT_LT(report.inputs(0).error(), 1e-5);
  const auto two = Call(operators_, &OperatorStub::CheckGradient, R"({"op": "dot", "inputs": [
      {"shape": [2, 3], "fill": {"normal": {"seed": "1"}}}, {"shape": [3, 2], "fill": {"normal": {"seed": "2"}}}]})");
  EXPECT_TRUE(two.passed());
  EXPECT_EQ(two.inputs_size(), 2);
  // At its kink the rule of relu (0) and the central difference (1/2) differ.
  const auto kink = Call(operators_, &OperatorStub::CheckGradient, R"({"op": "relu", "inputs": [{"shape": [1], "fill": {}}]})");
  EXPECT_FALSE(kink.passed());
  Call(operators_, &OperatorStub::CheckGradient, R"({"op": "relu", "inputs": [{"shape": [20000], "fill": {}}]})",
       StatusCode::INVALID_ARGUMENT);
  ExpectMessage("the inputs have 20000 elements; want at most 10000");
  Call(operators_, &OperatorStub::CheckGradient, R"({"op": "tile", "attributes": {"reps": [1000001]}, "inputs": [
      {"shape": [1], "fill": {}}]})",
       StatusCode::INVALID_ARGUMENT);
  ExpectMessage("the outputs have 1000001 elements; want at most 1000000");
  for (const std::string wrong : {R"("epsilon": -1)", R"("epsilon": 0)", R"("tolerance": -1)"}) {
    Call(operators_, &OperatorStub::CheckGradient, R"({"op": "relu", "inputs": [{"shape": [1], "fill": {}}], )" + wrong + "}",
         StatusCode::INVALID_ARGUMENT);
    ExpectMessage("want 0 < epsilon < 1");
  }
  const std::string exact = R"({"op": "sigmoid", "tolerance": 0, "inputs": [{"shape": [9], "fill": {"normal": {}}}]})";
  EXPECT_FALSE(Call(operators_, &OperatorStub::CheckGradient, exact).passed()) << "a tolerance of 0 is none at all";
}

TEST_F(OperatorServiceTest, TheServerTellsWhatItIs) {
  DefineMlp("m");
  const auto info = Call(info_, &v1::ServerService::Stub::GetServerInfo, "{}");
  EXPECT_EQ(info.devices(0).name(), "cpu");
  EXPECT_EQ(info.devices(0).threads(), 2);
  EXPECT_GT(info.devices(0).tensor_bytes(), 0);
  EXPECT_EQ(info.devices(0).tensor_bytes(), info.tensor_bytes());
  EXPECT_EQ(info.limits().max_message_bytes(), 64 << 20);
  EXPECT_TRUE(info.has_store());
  EXPECT_NE(info.incarnation(), 0u);
}

}  // namespace
}  // namespace gluond::server
