// OpenModel and StoreToModel: a session's arrays take a model's values, and give it theirs.

#include <chrono>

#include "tests/server/session_models_fixture.h"

namespace gluond::server {
namespace {

TEST_F(SessionModelsTest, OpenedArraysKeepTheirValues) {
  SaveNet();
  Client other(channel_);
  const auto before = Parameters("net");
  const v1::Model model = Succeed(other.Ask(OpenCommand("net", 300)));
  EXPECT_EQ(model.version(), 1u);
  EXPECT_EQ(model.graph().nodes_size(), 4);
  EXPECT_EQ(ArraysOf(other, 300), before);
  TrainModel("net", 3);
  EXPECT_EQ(ArraysOf(other, 300), before) << "a step writes elsewhere";
  const auto after = Parameters("net");
  for (const char* name : {"fc1_weight", "bn_gamma", "bn_mean", "fc2_bias"}) EXPECT_NE(after.at(name), before.at(name));
  EXPECT_EQ(Succeed(other.Ask(OpenCommand("net", 400))).version(), 2u);
  EXPECT_EQ(ArraysOf(other, 400), after);
  EXPECT_EQ(ArraysOf(other, 300), before);
}

TEST_F(SessionModelsTest, AWriteToAnOpenedArrayLeavesTheModelAlone) {
  SaveNet();
  Client other(channel_);
  Succeed(other.Ask(OpenCommand("net", 300)));
  const auto before = Parameters("net");
  other.Prepare(1, "_plus_scalar", R"("scalar": "1")");
  other.Invoke(1, {301}, {301});  // Its output would take its input's memory.
  other.Prepare(2, "sgd_mom_update", R"("lr": "0.5", "momentum": "0.5")");
  other.Put(50, {8}, std::vector<float>(8, 1.f));
  other.Invoke(2, {302, 50, 303}, {302});  // Writes its last input.
  EXPECT_NE(other.Bits(301), before.at("fc1_weight"));
  EXPECT_NE(other.Bits(302), before.at("fc1_bias"));
  EXPECT_NE(other.Bits(303), before.at("bn_gamma"));
  DefineNet(other);  // A graph that writes: BatchNorm's statistics.
  other.Put(kData, {kBatch, 4}, DataOf(0));
  other.Do(absl::StrCat(R"("run_graph": {"graph": 1, "inputs": [)", kData,
                        R"(, 1, 2, 3, 4, 305, 306, 7, 8], "outputs": [23], "training": true})"));
  EXPECT_NE(other.Bits(305), before.at("bn_mean"));
  EXPECT_NE(other.Bits(306), before.at("bn_var"));
  EXPECT_EQ(Parameters("net"), before);
  EXPECT_EQ(Get("net").version(), 1u);
  TrainModel("net", 3);
  TrainInSession(*client_, 3);
  EXPECT_EQ(Parameters("net"), ArraysOf(*client_));
}

TEST_F(SessionModelsTest, OpeningTakesNoMemoryOfTheSessionsUntilItWrites) {
  client_.reset();
  Limits limits;
  limits.max_session_bytes = 100;
  StartServer(limits);
  client_ = std::make_unique<Client>(channel_);
  DefineMlp("mlp");
  Succeed(client_->Ask(R"("open_model": {"model": "mlp", "arrays": {"0.weight": 31}})"));
  EXPECT_EQ(client_->Bits(31), Parameters("mlp").at("0.weight"));
  EXPECT_EQ(client_->Bits(31).size(), 128u);
  client_->Prepare(1, "_plus_scalar", R"("scalar": "1")");
  client_->Invoke(1, {31}, {31});
  ExpectFailure(client_->Fetch(31), Code::kResourceExhausted, "--max_session_bytes");
}

TEST_F(SessionModelsTest, OpenedArraysOutliveTheModel) {
  SaveNet();
  const auto before = Parameters("net");
  client_->Ask(OpenCommand("net", 300));
  Call(models_, &v1::ModelService::Stub::DeleteModel, R"({"model": "net"})");
  EXPECT_EQ(ArraysOf(*client_, 300), before);
}

TEST_F(SessionModelsTest, OpenedArraysMayBeUsedAtOnce) {
  SaveNet();
  client_->Prepare(1, "_plus_scalar", R"("scalar": "1")");
  client_->Do(R"("open_model": {"model": "net", "arrays": {"fc2_bias": 31}})");
  client_->Invoke(1, {31}, {32});
  client_->Invoke(1, {8}, {33});
  EXPECT_EQ(client_->Bits(32), client_->Bits(33));
}

TEST_F(SessionModelsTest, OpenModelSaysWhatIsWrong) {
  SaveNet();
  const auto open = [this](const std::string& rest) { return client_->Ask(R"("open_model": {)" + rest + "}"); };
  ExpectFailure(open(R"("model": "nte", "arrays": {"fc1_bias": 31})"), Code::kNotFound, "'net'");
  ExpectFailure(open(R"("model": "net", "arrays": {"fc1_bais": 31})"), Code::kNotFound, "fc1_bias");
  ExpectFailure(open(R"("model": "net", "arrays": {"fc1_bias": 0})"), Code::kInvalidArgument, "another number");
  ExpectFailure(open(R"("model": "net", "arrays": {"fc1_bias": 31, "fc2_bias": 31})"), Code::kInvalidArgument, "as another one");
  const v1::Reply reply = client_->Fetch(31);
  ExpectFailure(reply, Code::kInvalidArgument, "as another one");
  EXPECT_TRUE(reply.failures(0).told());
  Define(Network("empty", R"("op": "square")"));
  ExpectFailure(open(R"("model": "empty", "arrays": {"fc1_weight": 31})"), Code::kFailedPrecondition,
                "'fc1_weight' is not initialized");
  EXPECT_EQ(client_->Ask(R"("wait_all": {})").failures_size(), 0) << "all have been told";
}

// StoreToModel.

v1::Command StoreCommand(const std::string& json) { return Json<v1::Command>(R"({"store_to_model": {)" + json + "}}"); }

TEST_F(SessionModelsTest, StoresWhatWasComputed) {
  SaveNet();
  const uint64_t version = Succeed(client_->Ask(OpenCommand("net", 300))).version();
  client_->Prepare(1, "_plus_scalar", R"("scalar": "1")");
  client_->Invoke(1, {302}, {302});
  const v1::Model model = Succeed(
      client_->Ask(StoreCommand(absl::StrCat(R"("model": "net", "arrays": {"fc1_bias": 302}, "expected_version": )", version))));
  EXPECT_EQ(model.version(), version + 1);
  EXPECT_EQ(Parameters("net").at("fc1_bias"), client_->Bits(302));
  EXPECT_EQ(Succeed(client_->Ask(StoreCommand(R"("model": "net", "arrays": {"fc1_bias": 2})"))).version(), version + 2);
  EXPECT_EQ(Parameters("net"), ArraysOf(*client_));
}

TEST_F(SessionModelsTest, AStepInBetweenRefusesAStore) {
  SaveNet();
  Succeed(client_->Ask(OpenCommand("net", 300)));
  TrainModel("net", 3);
  const auto before = Parameters("net");
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "net", "arrays": {"fc1_bias": 302}, "expected_version": 1)")), Code::kAborted,
                "model 'net' has version 2 by now, expected 1: a step or another call has changed it; read the model");
  EXPECT_EQ(Parameters("net"), before);
  EXPECT_EQ(Get("net").version(), 2u);
}

TEST_F(SessionModelsTest, StoresAllOrNone) {
  SaveNet();
  const auto before = Parameters("net");
  client_->Put(50, {8}, std::vector<float>(8, 9.f));
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "net", "arrays": {"fc1_bias": 50, "fc2_bias": 50})")), Code::kInvalidArgument,
                "parameter 'fc2_bias' is float32[3], got float32[8]");
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "net", "arrays": {"fc1_bias": 50, "nothing": 50})")), Code::kNotFound,
                "'nothing'");
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "net", "arrays": {"fc1_bias": 50, "fc2_bias": 999})")),
                Code::kInvalidArgument, "there is no array 999");
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "ten", "arrays": {"fc1_bias": 50})")), Code::kNotFound, "'net'");
  EXPECT_EQ(Parameters("net"), before);
  EXPECT_EQ(Get("net").version(), 1u);
}

// The model's lane has work that waits for a client, and so the arrays wait, too.
TEST_F(SessionModelsCustomTest, AnArrayThatIsNotOpenYetEndsWithItsSession) {
  Provider provider(
      address(), {"square"},
      [](const v1::Callback& callback) { return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback); }, scope_);
  DefineCustom();
  Succeed(client_->Ask(SaveCustom()));
  grpc::ClientContext context;
  Started predict([&] {
    v1::PredictResponse response;
    return models_->Predict(&context, Json<v1::PredictRequest>(R"({"model": "squares", "inputs": {"data": {"shape": [1],
        "float_data": [2]}}})"),
                            &response);
  });
  provider.WaitFor(1, &v1::Callback::has_forward);
  client_->Do(R"("open_model": {"model": "squares", "arrays": {"shift": 31}})");
  client_->Prepare(1, "_plus_scalar", R"("scalar": "1")");
  client_->Invoke(1, {31}, {32});
  const uint64_t fetch = client_->Do(R"("fetch": {"arrays": [32]})");
  client_->Bits(1);
  EXPECT_FALSE(client_->IsAnswered(fetch));
  client_->Cancel();
  server_->Drain(std::chrono::seconds(0));
  predict.Wait();
  EXPECT_EQ(server_->sessions().size(), 0);
}

}  // namespace
}  // namespace gluond::server
