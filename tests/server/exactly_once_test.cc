// A step is applied once, whatever becomes of the connection: replayed, reordered, and cut between request and reply.

#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "client/cpp/connect.h"
#include "client/cpp/type_messages.h"
#include "gluond/nn.h"
#include "tests/server/service_fixture.h"
#include "tests/server/tcp_proxy.h"

namespace gluond::server {
namespace {

using Stub = v1::TrainingService::Stub;
using grpc::StatusCode;

class ExactlyOnceTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    DefineMlp("mlp");
  }
  uint64_t LastApplied() { return Call(training_, &Stub::GetSequence, R"({"client_id": "ann", "model": "mlp"})").last(); }
  // The parameters after `steps` steps that nobody disturbed.
  std::map<std::string, std::string> Undisturbed(int steps) {
    DefineMlp("calm");
    for (int i = 1; i <= steps; ++i) Call(training_, &Stub::TrainStep, Batch("calm", i));
    return Parameters("calm");
  }
};

TEST_F(ExactlyOnceTest, ARepetitionIsAnsweredAndNotApplied) {
  const auto first = Call(training_, &Stub::TrainStep, Batch("mlp", 1, "ann", 1));
  EXPECT_FALSE(first.replayed());
  auto again = Call(training_, &Stub::TrainStep, Batch("mlp", 1, "ann", 1));
  EXPECT_TRUE(again.replayed());
  EXPECT_EQ(again.report().step(), 1);
  EXPECT_EQ(again.loss(), first.loss());
  EXPECT_EQ(Parameters("mlp"), Undisturbed(1));
}

TEST_F(ExactlyOnceTest, ACallWhoseAnswerIsGoneIsNotAppliedAgain) {
  Limits limits;
  limits.max_answer_bytes = 1;
  StartServer(limits);
  DefineMlp("mlp");
  Call(training_, &Stub::TrainStep, Batch("mlp", 1, "ann", 1));
  Call(training_, &Stub::TrainStep, Batch("mlp", 1, "ann", 1), StatusCode::FAILED_PRECONDITION);
  ExpectMessage("was applied, but its answer is no longer kept");
  EXPECT_EQ(Call(training_, &Stub::GetTrainer, R"({"model": "mlp"})").trainer().step(), 1);
  Call(training_, &Stub::TrainStep, Batch("mlp", 2, "ann", 2));
}

TEST_F(ExactlyOnceTest, AnswersGoWithTheirModel) {
  Call(training_, &Stub::TrainStep, Batch("mlp", 1, "ann", 1));
  Call(models_, &v1::ModelService::Stub::DeleteModel, R"({"model": "mlp"})");
  DefineMlp("mlp");
  Call(training_, &Stub::TrainStep, Batch("mlp", 1, "ann", 1), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(LastApplied(), 1u);
}

TEST_F(ExactlyOnceTest, ReorderedCallsAreRefusedByName) {
  Call(training_, &Stub::TrainStep, Batch("mlp", 1, "ann", 1));
  Call(training_, &Stub::TrainStep, Batch("mlp", 3, "ann", 3), StatusCode::FAILED_PRECONDITION);
  ExpectMessage("send 2 next");
  Call(training_, &Stub::TrainStep, Batch("mlp", 2, "ann", 1), StatusCode::INVALID_ARGUMENT);
  ExpectMessage("another request");
  Call(training_, &Stub::TrainStep, Batch("mlp", 2, "ann", 2));
  Call(training_, &Stub::TrainStep, Batch("mlp", 3, "ann", 3));
  EXPECT_EQ(LastApplied(), 3u);
  EXPECT_EQ(Parameters("mlp"), Undisturbed(3));
}

TEST_F(ExactlyOnceTest, AFailedCallMayBeSentAgainWithItsNumber) {
  auto bad = Batch("mlp", 1, "ann", 1);
  bad.mutable_inputs()->erase("label");
  Call(training_, &Stub::TrainStep, bad, StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(LastApplied(), 0u);
  Call(training_, &Stub::TrainStep, Batch("mlp", 1, "ann", 1));
  EXPECT_EQ(LastApplied(), 1u);
}

TEST_F(ExactlyOnceTest, ClientsAndModelsHaveTheirOwnNumbers) {
  DefineMlp("other");
  Call(training_, &Stub::TrainStep, Batch("mlp", 1, "ann", 1));
  Call(training_, &Stub::TrainStep, Batch("mlp", 1, "bob", 1));
  Call(training_, &Stub::TrainStep, Batch("other", 1, "ann", 1));
  EXPECT_EQ(Call(training_, &Stub::GetTrainer, R"({"model": "mlp"})").trainer().step(), 2);
}

// Two calls that wait for a third and are refused, one after the other, where the third ends.
TEST_F(ExactlyOnceTest, CallsThatWaitEndWhereverTheOneBeforeEnds) {
  Call(training_, &Stub::UploadDataset, R"({"dataset": "d", "commit": true, "tensors": {
      "data": {"shape": [40000, 4], "fill": {}}, "label": {"shape": [40000], "dtype": "INT32", "fill": {}}}})");
  std::thread steps([this] {
    Call(training_, &Stub::TrainStep,
         R"({"model": "mlp", "rows": {"dataset": "d"}, "batch_size": "4", "call": {"client_id": "ann", "sequence": "1"}})");
  });
  std::vector<std::thread> backwards;
  for (int i = 0; i < 2; ++i) {
    backwards.emplace_back([this] {
      grpc::ClientContext context;
      v1::BackwardResponse response;
      const grpc::Status status = training_->Backward(
          &context,
          Json<v1::BackwardRequest>(R"({"model": "mlp", "recording": "99", "call": {"client_id": "ann", "sequence": "2"}})"),
          &response);
      EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION) << status.error_message();
    });
  }
  steps.join();
  for (std::thread& backward : backwards) backward.join();
  EXPECT_EQ(LastApplied(), 1u);
}

TEST_F(ExactlyOnceTest, AClientGoesOnAfterAReplyThatWasTooLarge) {
  Limits limits;
  limits.max_message_bytes = 1 << 20;
  StartServer(limits);
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "wide",
      "block": {"block": "Dense", "attributes": {"units": 100000}}, "variables": [{"name": "data", "shape": [-1, 4]}]})");
  const auto client = client::Connect(channel_);
  ASSERT_TRUE(client.ok()) << client.status();
  const client::Model model = client->GetModel("wide");
  ASSERT_TRUE(model.Initialize().ok());
  const auto forward = [&](int64_t rows) {
    return model.Forward({{"data", client::Tensor::Of<float>({rows, 4}, std::vector<float>(rows * 4))}}).status();
  };
  ASSERT_TRUE(forward(1).ok());
  EXPECT_EQ(forward(3).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(forward(1).ok());
}

// The values as numbers take more than the limit, which is found before there is a reply.
TEST_F(ExactlyOnceTest, AnAnswerThatCannotBeEncodedUsesItsNumberUp) {
  Limits limits;
  limits.max_message_bytes = 1 << 20;
  StartServer(limits);
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "wide", "block": {"block": "HybridSequential", "children": [
      {"block": "BatchNorm"}, {"block": "Dense", "attributes": {"units": 300000, "use_bias": false}}]},
      "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}]})");
  Call(models_, &v1::ModelService::Stub::InitializeParameters, R"({"model": "wide"})");
  const std::string call =
      R"({"model": "wide", "training": true, "encoding": "TYPED", "call": {"client_id": "ann", "sequence": "1"},
                               "inputs": {"data": {"shape": [2, 1], "float_data": [1, 3]}}})";
  const auto mean = [this] {
    return Call(models_, &v1::ModelService::Stub::GetParameters, R"({"model": "wide", "names": ["0.running_mean"]})")
        .parameters()
        .at("0.running_mean")
        .float_data(0);
  };
  Call(training_, &Stub::Forward, call, StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("(the call itself was applied)");
  const float moved = mean();
  EXPECT_NE(moved, 0);
  const auto again = Call(training_, &Stub::Forward, call);
  EXPECT_TRUE(again.replayed());
  EXPECT_EQ(again.recording(), 1u);
  EXPECT_TRUE(again.outputs().begin()->second.has_statistics());
  EXPECT_EQ(mean(), moved) << "it was not applied again";
  Call(training_, &Stub::Backward,
       R"({"model": "wide", "gradients": ["1.weight"], "encoding": "TYPED", "call": {"client_id": "ann", "sequence": "2"}})",
       StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Call(training_, &Stub::GetSequence, R"({"client_id": "ann", "model": "wide"})").last(), 2u);
}

TEST_F(ExactlyOnceTest, AClientLearnsOfARestartThatItDidNotSee) {
  ServerOptions options;
  options.address = "127.0.0.1:0";
  options.devices = "cpu";
  options.log = log_.sink();
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  options.address = absl::StrCat("127.0.0.1:", (*server)->port());
  const auto client = client::Client::Connect(options.address);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto define = [&] {
    return client->DefineModel("m", client::nn::Dense({.units = 3}), {client::Input("data", {-1, 4})}, {.replace = true});
  };
  const auto model = define();
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(model->Initialize().ok());
  server->reset();
  server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  absl::Status status = model->Initialize();
  for (int i = 0; i < 20 && absl::IsUnavailable(status); ++i) status = model->Initialize();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(define().ok());
  EXPECT_TRUE(model->Initialize().ok());
}

TEST_F(ExactlyOnceTest, LargeTensorsAreKeptAsStatistics) {
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "wide", "block": {"block": "Flatten"}})");
  auto request = Json<v1::ForwardRequest>(R"({"model": "wide", "call": {"client_id": "ann", "sequence": "1"}, "encoding": "RAW",
      "inputs": {"data": {"shape": [1, 20000], "fill": {"constant": 2}}}})");
  EXPECT_EQ(Call(training_, &Stub::Forward, request).outputs().at("output").raw().size(), 80'000u);
  const auto again = Call(training_, &Stub::Forward, request);
  EXPECT_TRUE(again.replayed());
  EXPECT_TRUE(again.outputs().at("output").raw().empty());
  EXPECT_EQ(again.outputs().at("output").statistics().mean(), 2);
}

// A server with a port, and a client behind a proxy.
class CutConnectionTest : public ExactlyOnceTest {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.address = "127.0.0.1:0";
    options.devices = "cpu";
    options.cpu_threads = 2;
    options.log = log_.sink();
    auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = server_->InProcessChannel();
    models_ = v1::ModelService::NewStub(channel_);
    training_ = v1::TrainingService::NewStub(channel_);
    DefineMlp("mlp");
    proxy_ = std::make_unique<TcpProxy>(server_->port());
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    through_proxy_ = grpc::CreateCustomChannel(proxy_->address(), grpc::InsecureChannelCredentials(), arguments);
    remote_ = Stub(through_proxy_);
  }
  void TearDown() override {
    remote_.reset();
    through_proxy_.reset();
    proxy_.reset();
    ServiceTest::TearDown();
  }
  static std::unique_ptr<v1::TrainingService::Stub> Stub(std::shared_ptr<grpc::Channel> channel) {
    return v1::TrainingService::NewStub(std::move(channel));
  }
  grpc::Status Step(int i, v1::TrainStepResponse* response) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return remote_->TrainStep(&context, Batch("mlp", i, "ann", static_cast<uint64_t>(i)), response);
  }

  std::unique_ptr<TcpProxy> proxy_;
  std::shared_ptr<grpc::Channel> through_proxy_;
  std::unique_ptr<v1::TrainingService::Stub> remote_;
};

TEST_F(CutConnectionTest, BetweenRequestAndReply) {
  v1::TrainStepResponse response;
  ASSERT_TRUE(Step(1, &response).ok());
  proxy_->SwallowReplies(true);
  std::thread cutter([this] {
    while (LastApplied() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    proxy_->CutSoon();  // The step is applied; its reply never came.
  });
  const grpc::Status lost = Step(2, &response);
  cutter.join();
  EXPECT_EQ(lost.error_code(), StatusCode::UNAVAILABLE) << lost.error_message();
  proxy_->SwallowReplies(false);
  grpc::Status again = Step(2, &response);
  // A connection that was made while replies were swallowed is of no use.
  for (int i = 0; i < 5 && again.error_code() == StatusCode::UNAVAILABLE; ++i) again = Step(2, &response);
  ASSERT_TRUE(again.ok()) << again.error_message();
  EXPECT_TRUE(response.replayed());
  EXPECT_EQ(response.report().step(), 2);
  ASSERT_TRUE(Step(3, &response).ok());
  EXPECT_EQ(Parameters("mlp"), Undisturbed(3));
}

TEST_F(CutConnectionTest, AtAnyMoment) {
  constexpr int kSteps = 30;
  std::mt19937 random(7);
  int cuts = 0;
  for (int i = 1; i <= kSteps; ++i) {
    for (bool first = true;; first = false) {
      std::thread cutter;
      if (first) {
        cutter = std::thread([this, delay = random() % 4000] {
          std::this_thread::sleep_for(std::chrono::microseconds(delay));
          proxy_->CutSoon();
        });
      }
      v1::TrainStepResponse response;
      const grpc::Status status = Step(i, &response);
      if (cutter.joinable()) cutter.join();
      if (status.ok()) break;
      ASSERT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
      ++cuts;
    }
  }
  EXPECT_GT(cuts, 0) << "no cut hit a call: nothing was tested";
  EXPECT_EQ(LastApplied(), static_cast<uint64_t>(kSteps));
  EXPECT_EQ(Parameters("mlp"), Undisturbed(kSteps));
}

// The server keeps statistics of a large tensor, and no values.
TEST_F(CutConnectionTest, LargeAnswersThatAreLost) {
  const auto client = client::Connect(through_proxy_, {.client_id = "ann"});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto wide = client->DefineModel("wide", client::nn::Dense({.units = 20'000}), {client::Input("data", {-1, 1})});
  ASSERT_TRUE(wide.ok()) << wide.status();
  ASSERT_TRUE(wide->Initialize().ok());
  const auto last = [this] {
    return Call(training_, &v1::TrainingService::Stub::GetSequence, R"({"client_id": "ann", "model": "wide"})").last();
  };
  const auto losing_the_answer = [&](const auto& call) {
    proxy_->SwallowReplies(true);
    std::thread cutter([&, before = last()] {
      while (last() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      proxy_->CutSoon();
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      proxy_->SwallowReplies(false);
    });
    const absl::StatusOr<client::Tensors> result = call();
    cutter.join();
    return result;
  };
  const client::Tensors data = {{"data", client::Tensor::Of<float>({2, 1}, {1, 3})}};
  const auto predicted = losing_the_answer([&] { return wide->Forward(data, /*training=*/false); });
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  EXPECT_EQ(predicted->begin()->second.bytes(), wide->Predict(data).value().begin()->second.bytes());
  const auto outputs = losing_the_answer([&] { return wide->Forward(data); });
  EXPECT_EQ(outputs.status().code(), absl::StatusCode::kDataLoss) << outputs.status();
  EXPECT_NE(outputs.status().message().find("Backward works"), std::string::npos) << outputs.status();
  const auto gradients = losing_the_answer([&] { return wide->Backward({}, {"weight"}); });
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ASSERT_EQ(gradients->size(), 1u);
  const std::vector<float> expected(20'000, 4);
  EXPECT_EQ(gradients->at("weight").bytes(), client::Tensor::Of<float>({20'000, 1}, expected).bytes());
  EXPECT_EQ(last(), 5u);
}

TEST_F(CutConnectionTest, ATrainGoesOnAfterEachCut) {
  constexpr int64_t kSteps = 20'000;
  UploadZeros("zeros", 1000);
  DefineMlp("calm");
  auto request = Json<v1::TrainRequest>(R"({"batch_size": 4, "rows": {"dataset": "zeros"}, "epochs": 80,
      "progress_every": "0.05s"})");
  const auto client = client::Connect(through_proxy_, {.client_id = "ann"});
  ASSERT_TRUE(client.ok()) << client.status();
  int messages = 0, cuts = 0;
  int64_t told = 0;
  const auto last = client->GetModel("mlp").Train(client::FromProto(request), [&](const client::TrainProgress& progress) {
    EXPECT_GE(progress.steps, told);
    told = progress.steps;
    if (++messages % 5 == 2 && !progress.done && cuts < 8) {
      ++cuts;
      proxy_->CutSoon();
    }
    return true;
  });
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_GT(cuts, 0) << "no cut hit the call: nothing was tested";
  EXPECT_GT(LastApplied(), 1u);
  EXPECT_TRUE(last->done);
  EXPECT_FALSE(last->cancelled);
  EXPECT_EQ(last->steps, kSteps);
  EXPECT_EQ(last->total_steps, kSteps);
  EXPECT_EQ(last->samples, 4 * kSteps);
  request.set_model("calm");
  EXPECT_EQ(TrainCall(training_, request).Last().steps(), kSteps);
  EXPECT_EQ(Parameters("mlp"), Parameters("calm"));
}

TEST_F(CutConnectionTest, ATrainEndsWhereItsCallbackSaysSo) {
  UploadZeros("zeros", 1000);
  const auto client = client::Connect(through_proxy_);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto request = Json<v1::TrainRequest>(R"({"batch_size": 4, "rows": {"dataset": "zeros"}, "epochs": 1000000000,
      "progress_every": "0.05s"})");
  const auto last = client->GetModel("mlp").Train(client::FromProto(request), [](const client::TrainProgress&) { return false; });
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->stop, client::TrainProgress::Stop::kByCall);
  EXPECT_EQ(Call(training_, &v1::TrainingService::Stub::GetTrainer, R"({"model": "mlp"})").trainer().step(), last->steps);
  const auto cancelled = client->GetModel("mlp").CancelTraining();
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_FALSE(*cancelled);
}

// The C++ client, which sends each step while the one before is computed.
TEST_F(CutConnectionTest, StepsThatAreSentAhead) {
  constexpr int kSteps = 60;
  const auto client = client::Connect(through_proxy_);
  ASSERT_TRUE(client.ok()) << client.status();
  std::atomic<bool> done = false;
  std::atomic<bool> lose = false;  // Cuts the connection, so that the answers under way are lost.
  std::thread cutter([&] {
    for (; !done; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      if (!lose) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      proxy_->CutSoon();
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      proxy_->SwallowReplies(false);
      lose = false;
    }
  });
  int given = 0, replayed = 0;
  std::vector<int64_t> reported;
  const absl::Status status = client->GetModel("mlp").TrainOnBatches(
      [&]() -> std::optional<client::Tensors> {
        if (given == kSteps) return std::nullopt;
        if (given % 10 == 9) {
          proxy_->SwallowReplies(true);
          lose = true;
        }
        const v1::TrainStepRequest batch = Batch("mlp", ++given);
        const auto& data = batch.inputs().at("data").float_data();
        const auto& label = batch.inputs().at("label").int_data();
        return client::Tensors{{"data", client::Tensor::Of<float>({6, 4}, {data.begin(), data.end()})},
                               {"label", client::Tensor::Of<float>({6}, {label.begin(), label.end()})}};
      },
      [&](const client::TrainStepResponse& response) {
        reported.push_back(response.report.step);
        replayed += response.replayed;
      });
  done = true;
  cutter.join();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(reported.size(), static_cast<size_t>(kSteps));
  for (int i = 0; i < kSteps; ++i) EXPECT_EQ(reported[static_cast<size_t>(i)], i + 1);
  EXPECT_GT(replayed, 0) << "no cut lost an answer: nothing was tested";
  EXPECT_EQ(Parameters("mlp"), Undisturbed(kSteps));
}

}  // namespace
}  // namespace gluond::server
