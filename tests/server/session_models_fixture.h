// A session of one client by commands, and a net that it trains, for tests of SaveAsModel, OpenModel and StoreToModel.

#ifndef TESTS_SERVER_SESSION_MODELS_FIXTURE_H_
#define TESTS_SERVER_SESSION_MODELS_FIXTURE_H_

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/server/custom_host_fixture.h"
#include "tests/server/session_fixture.h"

namespace gluond::server {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Code = absl::StatusCode;

inline v1::Tensor TensorOf(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  v1::Tensor tensor;
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_float_data()->Add(values.begin(), values.end());
  return tensor;
}

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
  v1::Reply Ask(const Command& command) {
    return Await(Do(command));
  }
  bool IsAnswered(uint64_t number) const { return replies_.contains(number); }

  void Put(uint64_t array, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    v1::Command command;
    command.mutable_put()->set_array(array);
    *command.mutable_put()->mutable_tensor() = TensorOf(shape, values);
    Do(command);
  }
  void Prepare(uint64_t call, const std::string& op, const std::string& attributes = "") {
    Do(absl::StrCat(R"("prepare": {"call": )", call, R"(, "op": ")", op, R"(", "attributes": {)", attributes, "}}"));
  }
  void Invoke(uint64_t call, const std::vector<uint64_t>& inputs, const std::vector<uint64_t>& outputs) {
    Do(absl::StrCat(R"("invoke": {"call": )", call, R"(, "inputs": [)", absl::StrJoin(inputs, ","), R"(], "outputs": [)",
                    absl::StrJoin(outputs, ","), "]}"));
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

inline constexpr char kNet[] = R"(
    {"name": "fc1", "op": "FullyConnected", "inputs": ["data", "fc1_weight", "fc1_bias"],
     "attributes": {"num_hidden": 8}},
    {"name": "bn", "op": "BatchNorm", "inputs": ["fc1", "bn_gamma", "bn_beta", "bn_mean", "bn_var"],
     "attributes": {"fix_gamma": false}},
    {"name": "act", "op": "Activation", "inputs": ["bn"], "attributes": {"act_type": "relu"}},
    {"name": "fc2", "op": "FullyConnected", "inputs": ["act", "fc2_weight", "fc2_bias"],
     "attributes": {"num_hidden": 3}})";
inline constexpr char kLoss[] = R"(,
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
inline const std::vector<Member>& Members() {
  static const auto& members = *new std::vector<Member>{
      {"fc1_weight", 1, {8, 4}},  {"fc1_bias", 2, {8}},      {"bn_gamma", 3, {8}},      {"bn_beta", 4, {8}},
      {"bn_mean", 5, {8}, false}, {"bn_var", 6, {8}, false}, {"fc2_weight", 7, {3, 8}}, {"fc2_bias", 8, {3}}};
  return members;
}
inline constexpr uint64_t kData = 20, kLabel = 21, kLossArray = 22, kScores = 23;
inline constexpr int64_t kBatch = 8;

// Numbers that text and tensors have alike.
inline std::vector<float> Numbers(int64_t count, int64_t factor, int64_t modulus, float scale) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>((i * 7 + factor) % modulus) * scale - 0.5f);
  return numbers;
}
inline std::vector<float> DataOf(int step) { return Numbers(kBatch * 4, 3 * step, 11, 0.25f); }
inline std::vector<float> LabelOf(int step) { return Numbers(kBatch * 3, step, 5, 0.5f); }

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
    // With its parameters said, a graph predicts by the passes by which the model does.
    std::vector<size_t> places(Members().size());
    std::iota(places.begin(), places.end(), size_t{1});
    client.Do(absl::StrCat(R"("define_graph": {"graph": 1, "inputs": ["data")", names, R"(], "parameters": [)",
                           absl::StrJoin(places, ", "), R"(], "definition": {"nodes": [)", kNet, R"(], "outputs": ["fc2"]}})"));
    client.Do(absl::StrCat(R"("define_graph": {"graph": 2, "inputs": ["data", "label")", names, R"(], "definition": {"nodes": [)",
                           kNet, kLoss, R"(], "outputs": ["loss"]}})"));
    client.Prepare(2, "sgd_mom_update", R"("lr": "0.125", "momentum": "0.5", "rescale_grad": "0.125")");
    for (const Member& member : Members()) {
      int64_t size = 1;
      for (const int64_t dim : member.shape) size *= dim;
      client.Put(member.array, member.shape, Numbers(size, static_cast<int64_t>(member.array), 17, 0.0625f));
      if (std::string(member.name) == "bn_var") client.Put(member.array, member.shape, std::vector<float>(8, 1.f));
      client.Put(member.momentum(), member.shape, std::vector<float>(static_cast<size_t>(size), 0.f));
      if (!member.is_trained) continue;
      client.Do(absl::StrCat(R"("mark": {"arrays": [{"variable": )", member.array, R"(, "gradient": )", member.gradient(), "}]}"));
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
    client.Do(absl::StrCat(R"("run_graph": {"graph": 2, "inputs": [)", kData, ", ", kLabel, Arrays(), R"(], "outputs": [)",
                           kLossArray, R"(], "recording": true, "training": true})"));
    client.Do(absl::StrCat(R"("backward": {"heads": [)", kLossArray, R"(], "training": true})"));
    for (const Member& member : Members()) {
      if (!member.is_trained) continue;
      client.Invoke(2, {member.array, member.gradient(), member.momentum()}, {member.array});
    }
  }
  std::string PredictInSession(Client& client, int step) {
    client.Put(kData, {kBatch, 4}, DataOf(step));
    client.Do(absl::StrCat(R"("run_graph": {"graph": 1, "inputs": [)", kData, Arrays(), R"(], "outputs": [)", kScores, "]}"));
    return client.Bits(kScores);
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
    request.set_encoding(v1::Tensor::RAW);
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
    v1::Command::SaveAsModel& save = *command.mutable_save_as_model();
    save = Json<v1::Command::SaveAsModel>(R"({"graph": "1", "inputs": [{"name": "data", "shape": [-1, 4], "dtype": "FLOAT32"}],
        "outputs": ["scores"], "trainer": {"loss": {"name": "L2Loss"}, "optimizer": {"name": "sgd", "attributes":
            {"learning_rate": 0.125, "momentum": 0.5}}}})");
    save.set_model(model);
    save.set_step(step);
    for (const Member& member : Members()) {
      v1::Command::SaveAsModel::Member* parameter = save.add_parameters();
      parameter->mutable_variable()->set_name(member.name);
      parameter->set_array(member.array);
      if (!member.is_trained) continue;
      v1::Command::SaveAsModel::State* state = save.add_states();
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

// Operators that a client computes.

class SessionModelsCustomTest : public SessionModelsTest {
 protected:
  // A client's graph says which client computes its operators.
  void DefineCustom() {
    client_->Do(R"("define_graph": {"graph": 1, "inputs": ["data", "shift"], "definition": {"nodes": [
        {"name": "mid", "op": "Custom", "inputs": ["data"], "custom":
            {"op_type": "square", "arguments": ["data"]}},
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

}  // namespace gluond::server

#endif  // TESTS_SERVER_SESSION_MODELS_FIXTURE_H_
