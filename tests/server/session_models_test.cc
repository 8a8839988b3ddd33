// Commands of a session on models: SaveAsModel, OpenModel, StoreToModel. A net is trained by commands, saved as a
// model, and trained on by both.

#include <gmock/gmock.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/server/custom_host_fixture.h"
#include "tests/server/session_fixture.h"

namespace gluond::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Code = absl::StatusCode;

// A session of one client, by commands as JSON.
class Client {
 public:
  explicit Client(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::SessionService::NewStub(channel)), stream_(std::make_unique<ClientStream>(*stub_)) {
    EXPECT_FALSE(stream_->Open().empty());
  }

  uint64_t Do(const v1::Command& command) {
    stream_->Send(++number_, {command});
    return number_;
  }
  uint64_t Do(const std::string& json) { return Do(Json<v1::Command>("{" + json + "}")); }
  v1::Reply Await(uint64_t number) {
    while (!replies_.contains(number)) {
      v1::Reply reply = stream_->NextReply();
      if (reply.index() == 0) ADD_FAILURE() << "no answer to command " << number;
      if (reply.index() == 0) return {};
      replies_[reply.number()] = std::move(reply);
    }
    return replies_[number];
  }
  template <class Command>
  v1::Reply Ask(const Command& command) { return Await(Do(command)); }
  bool IsAnswered(uint64_t number) const { return replies_.contains(number); }

  void Put(uint64_t array, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    v1::Command command;
    command.mutable_put()->set_array(array);
    v1::Tensor* tensor = command.mutable_put()->mutable_tensor();
    tensor->mutable_shape()->Add(shape.begin(), shape.end());
    tensor->mutable_float_data()->Add(values.begin(), values.end());
    Do(command);
  }
  void Prepare(uint64_t call, const std::string& op, const std::string& attributes = "") {
    Do(absl::StrCat(R"("prepare": {"call": )", call, R"(, "op": ")", op, R"(", "attributes": {)", attributes, "}}"));
  }
  void Invoke(uint64_t call, const std::vector<uint64_t>& inputs, const std::vector<uint64_t>& outputs) {
    Do(absl::StrCat(R"("invoke": {"call": )", call, R"(, "inputs": [)", absl::StrJoin(inputs, ","),
                    R"(], "outputs": [)", absl::StrJoin(outputs, ","), "]}"));
  }
  v1::Reply Fetch(uint64_t array) { return Ask(absl::StrCat(R"("fetch": {"arrays": [)", array, "]}")); }
  // The array's bytes.
  std::string Bits(uint64_t array) {
    const v1::Reply reply = Fetch(array);
    for (const v1::Failure& failure : reply.failures()) ADD_FAILURE() << failure.ShortDebugString();
    return reply.tensors_size() == 1 ? reply.tensors(0).raw() : "";
  }
  // The commands end, and with them the session.
  grpc::Status Close() {
    stream_->WritesDone();
    return stream_->Finish();
  }
  void Cancel() { stream_->Cancel(); }

 private:
  const std::unique_ptr<v1::SessionService::Stub> stub_;
  const std::unique_ptr<ClientStream> stream_;
  uint64_t number_ = 0;
  std::map<uint64_t, v1::Reply> replies_;
};

constexpr char kNet[] = R"(
    {"name": "fc1", "op": "FullyConnected", "inputs": ["data", "fc1_weight", "fc1_bias"],
     "attributes": {"num_hidden": 8}},
    {"name": "bn", "op": "BatchNorm", "inputs": ["fc1", "bn_gamma", "bn_beta", "bn_mean", "bn_var"],
     "attributes": {"fix_gamma": false}},
    {"name": "act", "op": "Activation", "inputs": ["bn"], "attributes": {"act_type": "relu"}},
    {"name": "fc2", "op": "FullyConnected", "inputs": ["act", "fc2_weight", "fc2_bias"],
     "attributes": {"num_hidden": 3}})";
constexpr char kLoss[] = R"(,
    {"name": "like", "op": "reshape_like", "inputs": ["label", "fc2"]},
    {"name": "sub", "op": "elemwise_sub", "inputs": ["like", "fc2"]},
    {"name": "square", "op": "square", "inputs": ["sub"]},
    {"name": "half", "op": "_mul_scalar", "inputs": ["square"], "attributes": {"scalar": 0.5}},
    {"name": "loss", "op": "mean", "inputs": ["half"], "attributes": {"axis": 0, "exclude": true}})";

struct Member {
  const char* name;
  uint64_t array;
  std::vector<int64_t> shape;
  bool is_trained = true;
  uint64_t gradient() const { return 100 + array; }
  uint64_t momentum() const { return 200 + array; }
};
const std::vector<Member>& Members() {
  static const auto& members = *new std::vector<Member>{
      {"fc1_weight", 1, {8, 4}}, {"fc1_bias", 2, {8}},        {"bn_gamma", 3, {8}},      {"bn_beta", 4, {8}},
      {"bn_mean", 5, {8}, false}, {"bn_var", 6, {8}, false}, {"fc2_weight", 7, {3, 8}}, {"fc2_bias", 8, {3}}};
  return members;
}
constexpr uint64_t kData = 20, kLabel = 21, kLossArray = 22, kScores = 23;
constexpr int64_t kBatch = 8;

// Numbers that text and tensors have alike.
std::vector<float> Numbers(int64_t count, int64_t factor, int64_t modulus, float scale) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>((i * 7 + factor) % modulus) * scale - 0.5f);
  return numbers;
}
std::vector<float> DataOf(int step) { return Numbers(kBatch * 4, 3 * step, 11, 0.25f); }
std::vector<float> LabelOf(int step) { return Numbers(kBatch * 3, step, 5, 0.5f); }

class SessionModelsTest : public CustomTest {
 protected:
  void SetUp() override {
    CustomTest::SetUp();
    client_ = std::make_unique<Client>(channel_);
  }
  void TearDown() override {
    client_.reset();
    CustomTest::TearDown();
  }

  // The net's parameters as arrays, and its graphs: 1 without, 2 with a loss.
  void DefineNet(Client& client) {
    std::string names;
    for (const Member& member : Members()) absl::StrAppend(&names, R"(, ")", member.name, R"(")");
    client.Do(absl::StrCat(R"("define_graph": {"graph": 1, "inputs": ["data")", names,
                           R"(], "definition": {"nodes": [)", kNet, R"(], "outputs": ["fc2"]}})"));
    client.Do(absl::StrCat(R"("define_graph": {"graph": 2, "inputs": ["data", "label")", names,
                           R"(], "definition": {"nodes": [)", kNet, kLoss, R"(], "outputs": ["loss"]}})"));
    client.Prepare(2, "sgd_mom_update", R"("lr": "0.125", "momentum": "0.5", "rescale_grad": "0.125")");
    for (const Member& member : Members()) {
      int64_t size = 1;
      for (const int64_t dim : member.shape) size *= dim;
      client.Put(member.array, member.shape, Numbers(size, static_cast<int64_t>(member.array), 17, 0.0625f));
      if (std::string(member.name) == "bn_var") client.Put(member.array, member.shape, std::vector<float>(8, 1.f));
      client.Put(member.momentum(), member.shape, std::vector<float>(static_cast<size_t>(size), 0.f));
      if (!member.is_trained) continue;
      client.Do(absl::StrCat(R"("mark": {"variables": [)", member.array, R"(], "gradients": [)", member.gradient(),
                             "]}"));
    }
  }
  static std::string Arrays() {
    std::string arrays;
    for (const Member& member : Members()) absl::StrAppend(&arrays, ", ", member.array);
    return arrays;
  }
  void TrainInSession(Client& client, int step) {
    client.Put(kData, {kBatch, 4}, DataOf(step));
    client.Put(kLabel, {kBatch, 3}, LabelOf(step));
    client.Do(absl::StrCat(R"("run_graph": {"graph": 2, "inputs": [)", kData, ", ", kLabel, Arrays(),
                           R"(], "outputs": [)", kLossArray, R"(], "recording": true, "training": true})"));
    client.Do(absl::StrCat(R"("backward": {"heads": [)", kLossArray, R"(], "training": true})"));
    for (const Member& member : Members()) {
      if (!member.is_trained) continue;
      client.Invoke(2, {member.array, member.gradient(), member.momentum()}, {member.array});
    }
  }
  std::string PredictInSession(Client& client, int step) {
    client.Put(kData, {kBatch, 4}, DataOf(step));
    client.Do(absl::StrCat(R"("run_graph": {"graph": 1, "inputs": [)", kData, Arrays(), R"(], "outputs": [)", kScores,
                           "]}"));
    return client.Bits(kScores);
  }
  static v1::Tensor TensorOf(const std::vector<int64_t>& shape, const std::vector<float>& values) {
    v1::Tensor tensor;
    tensor.mutable_shape()->Add(shape.begin(), shape.end());
    tensor.mutable_float_data()->Add(values.begin(), values.end());
    return tensor;
  }
  void TrainModel(const std::string& model, int step) {
    v1::TrainStepRequest request;
    request.set_model(model);
    (*request.mutable_inputs())["data"] = TensorOf({kBatch, 4}, DataOf(step));
    (*request.mutable_inputs())["label"] = TensorOf({kBatch, 3}, LabelOf(step));
    Call(training_, &v1::TrainingService::Stub::TrainStep, request);
  }
  std::string PredictByModel(const std::string& model, int step) {
    v1::PredictRequest request;
    request.set_model(model);
    request.set_encoding(v1::RAW);
    (*request.mutable_inputs())["data"] = TensorOf({kBatch, 4}, DataOf(step));
    return Call(models_, &v1::ModelService::Stub::Predict, request).outputs().begin()->second.raw();
  }
  // The parameters' bits in the session.
  static std::map<std::string, std::string> ArraysOf(Client& client, uint64_t offset = 0) {
    std::map<std::string, std::string> bits;
    for (const Member& member : Members()) bits[member.name] = client.Bits(member.array + offset);
    return bits;
  }

  static v1::Command SaveCommand(const std::string& model, int step = 0) {
    v1::Command command;
    v1::SaveAsModel& save = *command.mutable_save_as_model();
    save = Json<v1::SaveAsModel>(R"({"graph": "1", "inputs": [{"name": "data", "shape": [-1, 4], "dtype": "FLOAT32"}],
        "outputs": ["scores"], "trainer": {"loss": {"name": "L2Loss"}, "optimizer": {"name": "sgd", "attributes":
            {"learning_rate": 0.125, "momentum": 0.5}}}})");
    save.set_model(model);
    save.set_step(step);
    for (const Member& member : Members()) {
      v1::SaveAsModel::Member* parameter = save.add_parameters();
      parameter->mutable_variable()->set_name(member.name);
      parameter->set_array(member.array);
      if (!member.is_trained) continue;
      v1::SaveAsModel::State* state = save.add_states();
      state->set_name(absl::StrCat(member.name, "/mom"));
      state->set_array(member.momentum());
    }
    return command;
  }
  static v1::Command OpenCommand(const std::string& model, uint64_t offset) {
    v1::Command command;
    command.mutable_open_model()->set_model(model);
    for (const Member& member : Members()) {
      (*command.mutable_open_model()->mutable_arrays())[member.name] = member.array + offset;
    }
    return command;
  }
  v1::Model Get(const std::string& model) {
    return Call(models_, &v1::ModelService::Stub::GetModel, R"({"model": ")" + model + R"("})").model();
  }
  v1::Model Succeed(const v1::Reply& reply) {
    for (const v1::Failure& failure : reply.failures()) ADD_FAILURE() << failure.ShortDebugString();
    EXPECT_TRUE(reply.has_model());
    return reply.model();
  }
  static void ExpectFailure(const v1::Reply& reply, Code code, const std::string& says) {
    ASSERT_EQ(reply.failures_size(), 1) << reply.ShortDebugString();
    EXPECT_EQ(reply.failures(0).status().code(), static_cast<int>(code)) << reply.failures(0).status().message();
    EXPECT_THAT(reply.failures(0).status().message(), HasSubstr(says));
    EXPECT_FALSE(reply.has_model());
  }
  void ExpectNoModel(const std::string& model) {
    Call(models_, &v1::ModelService::Stub::GetModel, R"({"model": ")" + model + R"("})", grpc::StatusCode::NOT_FOUND);
  }
  // A net, trained for three steps and saved as the model "net".
  void SaveNet() {
    DefineNet(*client_);
    for (int step = 0; step < 3; ++step) TrainInSession(*client_, step);
    Succeed(client_->Ask(SaveCommand("net", 3)));
  }

  std::unique_ptr<Client> client_;
};

TEST_F(SessionModelsTest, AModelGoesOnWhereTheSessionWasBitForBit) {
  DefineNet(*client_);
  for (int step = 0; step < 3; ++step) TrainInSession(*client_, step);
  const v1::Model model = Succeed(client_->Ask(SaveCommand("net", 3)));
  EXPECT_EQ(model.name(), "net");
  EXPECT_EQ(model.device(), "cpu");
  EXPECT_EQ(model.version(), 1u);
  EXPECT_EQ(model.step(), 3);
  EXPECT_TRUE(model.has_trainer());
  ASSERT_EQ(model.outputs_size(), 1);
  EXPECT_EQ(model.outputs(0).name(), "scores");
  EXPECT_THAT(model.outputs(0).shape(), ElementsAre(-1, 3));
  ASSERT_EQ(model.parameters_size(), 8);
  EXPECT_EQ(model.parameters(0).name(), "fc1_weight");
  EXPECT_THAT(model.parameters(0).shape(), ElementsAre(8, 4));
  EXPECT_TRUE(model.parameters(0).initialized());
  EXPECT_EQ(model.parameters(4).kind(), v1::Variable::AUXILIARY) << model.parameters(4).name();
  EXPECT_FALSE(model.has_graph());

  EXPECT_EQ(Parameters("net"), ArraysOf(*client_));
  EXPECT_EQ(PredictByModel("net", 7), PredictInSession(*client_, 7));
  for (int step = 3; step < 6; ++step) {
    TrainModel("net", step);
    EXPECT_NE(Parameters("net"), ArraysOf(*client_)) << "independent";
    TrainInSession(*client_, step);
    EXPECT_EQ(Parameters("net"), ArraysOf(*client_)) << step;
  }
  EXPECT_EQ(PredictByModel("net", 7), PredictInSession(*client_, 7));
  EXPECT_EQ(Get("net").step(), 6);
}

TEST_F(SessionModelsTest, AModelHasWhatItsVariablesSay) {
  DefineNet(*client_);
  v1::Command command = SaveCommand("net");
  v1::SaveAsModel& save = *command.mutable_save_as_model();
  save.clear_states();
  save.clear_outputs();
  *save.mutable_parameters(0)->mutable_variable() = Json<v1::Variable>(R"({"name": "fc1_weight", "gradReq": "NULL",
      "wdMult": 0.5, "initializer": {"name": "xavier"}, "shape": [8, 4]})");
  *save.mutable_parameters(1)->mutable_variable() = Json<v1::Variable>(R"({"name": "fc1_bias", "lrMult": 2})");
  (*save.mutable_updates())["fc2_bias"] = 5;
  const v1::Model model = Succeed(client_->Ask(command));
  EXPECT_EQ(model.outputs(0).name(), "fc2");
  EXPECT_EQ(model.parameters(0).grad_req(), v1::Variable::NULL_);
  EXPECT_EQ(model.parameters(0).wd_mult(), 0.5);
  EXPECT_EQ(model.parameters(0).initializer().name(), "Xavier");
  EXPECT_EQ(model.parameters(1).lr_mult(), 2);
  const auto before = Parameters("net");
  TrainModel("net", 0);
  const auto after = Parameters("net");
  EXPECT_EQ(before.at("fc1_weight"), after.at("fc1_weight"));
  EXPECT_NE(before.at("fc2_bias"), after.at("fc2_bias"));
}

TEST_F(SessionModelsTest, AModelWithoutATrainerPredicts) {
  DefineNet(*client_);
  v1::Command command = SaveCommand("net");
  command.mutable_save_as_model()->clear_trainer();
  command.mutable_save_as_model()->clear_states();
  EXPECT_FALSE(Succeed(client_->Ask(command)).has_trainer());
  EXPECT_EQ(PredictByModel("net", 1), PredictInSession(*client_, 1));
}

TEST_F(SessionModelsTest, AModelIsReplacedOnRequestOnly) {
  SaveNet();
  TrainInSession(*client_, 3);
  ExpectFailure(client_->Ask(SaveCommand("net", 4)), Code::kAlreadyExists, "there is a model 'net' already");
  EXPECT_EQ(Get("net").step(), 3);
  v1::Command command = SaveCommand("net", 4);
  command.mutable_save_as_model()->set_replace(true);
  EXPECT_EQ(Succeed(client_->Ask(command)).step(), 4);
  EXPECT_EQ(Parameters("net"), ArraysOf(*client_));
}

TEST_F(SessionModelsTest, AClosedSessionsModelIsThere) {
  DefineNet(*client_);
  client_->Do(SaveCommand("net"));
  EXPECT_TRUE(client_->Close().ok());
  EXPECT_EQ(Get("net").parameters_size(), 8);
}

TEST_F(SessionModelsTest, ACheckpointOfItLoads) {
  SaveNet();
  Call(models_, &v1::ModelService::Stub::SaveCheckpoint, R"({"model": "net", "checkpoint": "c"})");
  Call(models_, &v1::ModelService::Stub::LoadCheckpoint, R"({"checkpoint": "c", "model": "copy"})");
  TrainModel("net", 3);
  TrainModel("copy", 3);
  EXPECT_EQ(Parameters("net"), Parameters("copy"));
}

TEST_F(SessionModelsTest, RefusesWhatCannotBeAModel) {
  DefineNet(*client_);
  struct Case {
    std::string name;
    std::function<void(v1::SaveAsModel&)> change;
    Code code;
    std::string says;
  };
  const auto variable = [](v1::SaveAsModel& save, int i) { return save.mutable_parameters(i)->mutable_variable(); };
  const std::vector<Case> cases = {
      {"Name", [](auto& save) { save.set_model("a/b"); }, Code::kInvalidArgument, "a/b"},
      {"Device", [](auto& save) { save.set_device("gpu:7"); }, Code::kNotFound, "it has: cpu"},
      {"NoGraph", [](auto& save) { save.set_graph(9); }, Code::kInvalidArgument, "there is no graph 9"},
      {"NoArray", [](auto& save) { save.mutable_parameters(0)->set_array(999); }, Code::kInvalidArgument,
       "there is no array 999"},
      {"VariableOfNothing", [](auto& save) { save.clear_inputs(); }, Code::kInvalidArgument,
       "variable 'data' is neither among the inputs nor among the parameters; add it to one of them"},
      {"Twice", [](auto& save) { *save.add_parameters() = save.parameters(0); }, Code::kInvalidArgument,
       "'fc1_weight' is declared twice"},
      {"UnreadInput", [](auto& save) { save.add_inputs()->set_name("dta"); }, Code::kInvalidArgument,
       "'dta' is declared, but nothing reads it"},
      {"UnreadParameter", [&](auto& save) {
         *save.add_parameters() = save.parameters(0);
         variable(save, 8)->set_name("fc1_wait");
       }, Code::kInvalidArgument, "'fc1_wait' is declared, but nothing reads it"},
      {"InputWithAnArray", [&](auto& save) { variable(save, 0)->set_kind(v1::Variable::INPUT); },
       Code::kInvalidArgument, "'fc1_weight': it is declared as an input"},
      {"AuxiliaryInput", [](auto& save) {
         save.add_inputs()->set_name("bn_mean");
         save.mutable_parameters()->DeleteSubrange(4, 1);
       }, Code::kInvalidArgument, "'bn_mean' is written by an operator"},
      {"Shape", [&](auto& save) { variable(save, 1)->add_shape(9); }, Code::kInvalidArgument,
       "parameter 'fc1_bias': its array is float32[8], expected float32[9] as it is declared"},
      {"Dtype", [&](auto& save) { variable(save, 1)->set_dtype(v1::FLOAT16); }, Code::kInvalidArgument,
       "its array is float32[8], expected float16"},
      {"ShapeOfTheGraph", [](auto& save) { save.mutable_parameters(0)->set_array(2); }, Code::kInvalidArgument,
       "fc1"},
      {"GradientOfAState", [&](auto& save) { variable(save, 4)->set_grad_req(v1::Variable::WRITE); },
       Code::kInvalidArgument, "an auxiliary state has no gradient"},
      {"Outputs", [](auto& save) { save.add_outputs("more"); }, Code::kInvalidArgument,
       "`outputs` has 2 names, expected one for each of the graph's 1 outputs"},
      {"OutputWithoutName", [](auto& save) { save.set_outputs(0, ""); }, Code::kInvalidArgument, "name of its own"},
      {"Loss", [](auto& save) { save.mutable_trainer()->mutable_loss()->set_name("MyLoss"); }, Code::kInvalidArgument,
       "Known: "},
      {"Optimizer", [](auto& save) { save.mutable_trainer()->mutable_optimizer()->set_name("mine"); },
       Code::kInvalidArgument, "Known: "},
      {"Objective", [](auto& save) { save.mutable_trainer()->clear_loss(); }, Code::kInvalidArgument,
       "`loss` or `loss_output`"},
      {"Prediction", [](auto& save) { save.mutable_trainer()->set_prediction("fc2"); }, Code::kNotFound, "scores"},
      {"State", [](auto& save) { save.mutable_states(0)->set_name("fc1_weight/var"); }, Code::kInvalidArgument,
       "whose states are mom; give the states of this optimizer"},
      {"StateOfNoParameter", [](auto& save) { save.mutable_states(0)->set_name("fc9_weight/mom"); }, Code::kNotFound,
       "there is no parameter 'fc9_weight'"},
      {"NoStates", [](auto& save) { save.mutable_trainer()->clear_optimizer(); }, Code::kInvalidArgument,
       "for which this optimizer keeps no state; leave it out"},
      {"ShapeOfAState", [](auto& save) { save.mutable_states(0)->set_array(202); }, Code::kInvalidArgument,
       "'fc1_weight/mom' is float32[8]; want float32[8,4]"},
      {"NoTrainer", [](auto& save) { save.clear_trainer(); }, Code::kInvalidArgument, "set `trainer`, or leave them"},
      {"Step", [](auto& save) { save.set_step(-1); }, Code::kInvalidArgument, "step is -1; want 0 or more"},
      {"Updates", [](auto& save) { (*save.mutable_updates())["fc1_bias"] = -2; }, Code::kInvalidArgument,
       "`updates` of 'fc1_bias' is -2"},
      {"UpdatesOfNoParameter", [](auto& save) { (*save.mutable_updates())["fc1_bais"] = 2; }, Code::kNotFound,
       "'fc1_bais'"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    v1::Command command = SaveCommand("net");
    each.change(*command.mutable_save_as_model());
    ExpectFailure(client_->Ask(command), each.code, each.says);
    ExpectNoModel("net");
  }
  Succeed(client_->Ask(SaveCommand("net")));
}

TEST_F(SessionModelsTest, AFailedArraysFailureIsTheAnswer) {
  DefineNet(*client_);
  client_->Prepare(3, "elemwise_add");
  client_->Invoke(3, {kData, 999}, {2});
  const v1::Reply reply = client_->Ask(SaveCommand("net"));
  ExpectFailure(reply, Code::kInvalidArgument, "there is no array");
  EXPECT_EQ(reply.failures(0).array(), 2u);
  ExpectNoModel("net");
}

TEST_F(SessionModelsTest, AModelsMemoryIsLimited) {
  client_.reset();
  Limits limits;
  limits.max_model_bytes = 1024;
  StartServer(limits);
  client_ = std::make_unique<Client>(channel_);
  DefineNet(*client_);
  ExpectFailure(client_->Ask(SaveCommand("net")), Code::kResourceExhausted, "--max_model_bytes");
  ExpectNoModel("net");
}

// OpenModel.

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
  ExpectFailure(open(R"("model": "net", "arrays": {"fc1_bias": 31, "fc2_bias": 31})"), Code::kInvalidArgument,
                "as another one");
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
  const v1::Model model = Succeed(client_->Ask(StoreCommand(
      absl::StrCat(R"("model": "net", "arrays": {"fc1_bias": 302}, "expected_version": )", version))));
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
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "net", "arrays": {"fc1_bias": 302}, "expected_version": 1)")),
                Code::kFailedPrecondition,
                "model 'net' has version 2 by now, expected 1: a step or another call has changed it; open the model");
  EXPECT_EQ(Parameters("net"), before);
  EXPECT_EQ(Get("net").version(), 2u);
}

TEST_F(SessionModelsTest, StoresAllOrNone) {
  SaveNet();
  const auto before = Parameters("net");
  client_->Put(50, {8}, std::vector<float>(8, 9.f));
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "net", "arrays": {"fc1_bias": 50, "fc2_bias": 50})")),
                Code::kInvalidArgument, "parameter 'fc2_bias' is float32[3], got float32[8]");
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "net", "arrays": {"fc1_bias": 50, "nothing": 50})")),
                Code::kNotFound, "'nothing'");
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "net", "arrays": {"fc1_bias": 50, "fc2_bias": 999})")),
                Code::kInvalidArgument, "there is no array 999");
  ExpectFailure(client_->Ask(StoreCommand(R"("model": "ten", "arrays": {"fc1_bias": 50})")), Code::kNotFound, "'net'");
  EXPECT_EQ(Parameters("net"), before);
  EXPECT_EQ(Get("net").version(), 1u);
}

// Operators that a client computes.

class SessionModelsCustomTest : public SessionModelsTest {
 protected:
  // A client's graph says which client computes its operators.
  void DefineCustom() {
    client_->Do(R"("define_graph": {"graph": 1, "inputs": ["data", "shift"], "definition": {"nodes": [
        {"name": "mid", "op": "Custom", "inputs": ["data"], "attributes":
            {"op_type": "square", "__scope__": ")" + scope_ + R"("}},
        {"name": "y", "op": "broadcast_add", "inputs": ["mid", "shift"]}]}})");
    client_->Put(1, {1}, {0.5f});
  }
  static v1::Command SaveCustom() {
    return Json<v1::Command>(R"({"save_as_model": {"model": "squares", "graph": "1",
        "parameters": [{"variable": {"name": "shift"}, "array": "1"}],
        "inputs": [{"name": "data", "shape": [-1], "dtype": "FLOAT32"}]}})");
  }
  const std::string scope_ = "a secret of this test's own";
};

TEST_F(SessionModelsCustomTest, AClientsOwnOperatorIsRefused) {
  Provider provider(address(), {"square"}, &RightAnswer, scope_, /*shared=*/false);
  DefineCustom();
  const v1::Reply reply = client_->Ask(SaveCustom());
  ExpectFailure(reply, Code::kFailedPrecondition,
                "node 'mid': custom operator 'square' is computed by one client for itself alone");
  EXPECT_THAT(reply.failures(0).status().message(), Not(HasSubstr(scope_)));
  ExpectNoModel("squares");
}

TEST_F(SessionModelsCustomTest, ASharedOneIsComputedByWhoeverSharesIt) {
  {
    Provider provider(address(), {"square"}, &RightAnswer, scope_, /*shared=*/true);
    DefineCustom();
    Succeed(client_->Ask(SaveCustom()));
  }
  Provider another(address(), {"square"});
  const auto predicted = Call(models_, &v1::ModelService::Stub::Predict,
                              R"({"model": "squares", "inputs": {"data": {"shape": [2], "float_data": [2, 3]}}})");
  EXPECT_THAT(predicted.outputs().at("y").float_data(), ElementsAre(4.5, 9.5));
}

// An array whose value waits for a client holds up the command that needs it, and nothing else.
TEST_F(SessionModelsCustomTest, WaitsForValuesWhileOthersGoOn) {
  Provider provider(address(), {"square"}, [](const v1::Callback& callback) {
    return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback);
  }, scope_);
  DefineCustom();
  client_->Put(5, {1}, {2});
  client_->Do(R"("run_graph": {"graph": 1, "inputs": [5, 1], "outputs": [6]})");
  v1::Command command = SaveCustom();
  command.mutable_save_as_model()->mutable_parameters(0)->set_array(6);
  const uint64_t save = client_->Do(command);
  client_->Put(6, {1}, {100});  // The name's next value is none of the model's.
  client_->Bits(5);
  EXPECT_FALSE(client_->IsAnswered(save));
  Client(channel_).Ask(R"("wait_all": {})");
  ExpectNoModel("squares");
  provider.WaitFor(1, &v1::Callback::has_forward);
  for (const v1::Callback& callback : provider.Seen()) {
    if (callback.has_forward()) provider.stream().Answer(RightAnswer(callback));
  }
  Succeed(client_->Await(save));
  const auto parameters = Parameters("squares");
  float shift = 0;
  std::memcpy(&shift, parameters.at("shift").data(), sizeof(shift));
  EXPECT_EQ(shift, 4.5f);
}

// The model's lane has work that waits for a client, and so the arrays wait, too.
TEST_F(SessionModelsCustomTest, AnArrayThatIsNotOpenYetEndsWithItsSession) {
  Provider provider(address(), {"square"}, [](const v1::Callback& callback) {
    return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback);
  }, scope_);
  DefineCustom();
  Succeed(client_->Ask(SaveCustom()));
  grpc::ClientContext context;
  Started predict([&] {
    v1::PredictResponse response;
    return models_->Predict(&context, Json<v1::PredictRequest>(R"({"model": "squares", "inputs": {"data": {"shape": [1],
        "float_data": [2]}}})"), &response);
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
