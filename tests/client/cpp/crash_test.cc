// A server that is killed in the middle of a training and started again on its store: the client ends with the same bits
// as without that.

#include <signal.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/connect.h"
#include "gluond/nn.h"
#include "gluond/v1/training.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/client/cpp/server_process.h"

namespace gluond::client {
namespace {

class CrashTest : public testing::Test {
 protected:
  static Model Define(const Client& client, const std::string& name) {
    const Model model = client
                            .DefineModel(name,
                                         nn::Sequential{nn::Dense({.units = 8, .activation = "relu"}), nn::Dropout({.rate = 0.3}),
                                                        nn::Dense({.units = 3})},
                                         {Input("data", {-1, 4})}, {.seed = 5})
                            .value();
    EXPECT_TRUE(model.Initialize(Named("Xavier")).ok());
    EXPECT_TRUE(
        model.CreateTrainer({.loss = Named("SoftmaxCrossEntropyLoss"), .optimizer = Named("adam", {{"learning_rate", 0.01}})})
            .ok());
    return model;
  }
  static Tensors Batch(int i) {
    std::mt19937 random(static_cast<unsigned>(i));
    std::vector<float> data, label;
    for (int row = 0; row < 6; ++row) {
      label.push_back(static_cast<float>(random() % 3));
      for (int j = 0; j < 4; ++j) data.push_back(static_cast<float>(random() % 100) / 100 + (label.back() == j));
    }
    return {{"data", Tensor::Of({6, 4}, data)}, {"label", Tensor::Of({6}, label)}};
  }
  // Trains on `count` batches; `given` counts those that were taken. Returns the losses.
  static std::vector<double> Train(const Model& model, int count, std::atomic<int>* given) {
    std::vector<double> losses;
    const absl::Status status = model.TrainOnBatches(
        [&]() -> std::optional<Tensors> {
          if (*given == count) return std::nullopt;
          std::this_thread::sleep_for(std::chrono::microseconds(300));
          return Batch(++*given);
        },
        [&](const TrainStepResponse& response) { losses.push_back(response.loss); });
    EXPECT_TRUE(status.ok()) << status;
    return losses;
  }
  static std::string Bytes(const Model& model) {
    std::string bytes;
    const Tensors parameters = model.GetParameters().value();
    for (const auto& [name, tensor] : parameters) absl::StrAppend(&bytes, name, "=", tensor.bytes());
    return bytes;
  }
  // Waits until the server has all calls on the model in its store.
  static void AwaitDurable(const Client& client, const std::string& id, const std::string& model) {
    const auto training = v1::TrainingService::NewStub(ChannelOf(client));
    for (;;) {
      grpc::ClientContext context;
      v1::GetSequenceRequest request;
      v1::GetSequenceResponse response;
      request.set_client_id(id);
      request.set_model(model);
      ASSERT_TRUE(training->GetSequence(&context, request, &response).ok());
      if (response.durable() == response.last()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  ServerProcess server_;
};

TEST_F(CrashTest, KilledAtManyMomentsItLosesNothing) {
  constexpr int kBatches = 1200, kKills = 10;
  server_.Start({"--checkpoint_every=25steps"});
  const Client client = Client::Connect(server_.address(), {.client_id = "ann", .retry_for = absl::Minutes(1)}).value();
  const Model model = Define(client, "m");
  AwaitDurable(client, "ann", "m");
  std::atomic<int> given = 0;
  std::thread killer([&] {
    for (int i = 1; i <= kKills; ++i) {
      do std::this_thread::sleep_for(std::chrono::milliseconds(3 + i));
      while (given < i * kBatches / (kKills + 1));
      server_.Kill();
      server_.Start({"--checkpoint_every=25steps"});
    }
  });
  const std::vector<double> losses = Train(model, kBatches, &given);
  killer.join();
  EXPECT_EQ(losses.size(), static_cast<size_t>(kBatches));
  EXPECT_EQ(model.GetTrainer().value().step, kBatches);
  std::atomic<int> again = 0;
  const Model calm = Define(client, "calm");
  const std::vector<double> expected = Train(calm, kBatches, &again);
  EXPECT_EQ(Bytes(model), Bytes(calm));
  int differ = 0;
  for (int i = 0; i < kBatches; ++i) differ += losses[i] != expected[i];
  EXPECT_LE(differ, kKills * 8) << "only answers that a crash took have no loss";
}

TEST_F(CrashTest, APlainLoopHearsFromWhichStepToGoOn) {
  server_.Start({"--checkpoint_every=1h"});
  const Client client = Client::Connect(server_.address(), {.client_id = "ann", .retry_for = absl::Minutes(1)}).value();
  const Model model = Define(client, "m");
  AwaitDurable(client, "ann", "m");
  for (int i = 1; i <= 5; ++i) ASSERT_TRUE(model.TrainStep(Batch(i)).ok());
  server_.Kill();
  server_.Start({"--checkpoint_every=1h"});
  const absl::Status status = model.TrainStep(Batch(6)).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  ASSERT_EQ(ReasonOf(status), "REWOUND") << status;
  EXPECT_EQ(FactsOf(status).at("last"), "3");
  EXPECT_TRUE(absl::StrContains(status.message(), "go on with step 1.")) << status;
  for (int i = 1; i <= 6; ++i) ASSERT_TRUE(model.TrainStep(Batch(i)).ok());
  const Model calm = Define(client, "calm");
  for (int i = 1; i <= 6; ++i) ASSERT_TRUE(calm.TrainStep(Batch(i)).ok());
  EXPECT_EQ(Bytes(model), Bytes(calm));
}

TEST_F(CrashTest, AServerThatIsToldToStopLosesNothing) {
  server_.Start({"--checkpoint_every="});
  const Client client = Client::Connect(server_.address(), {.client_id = "ann", .retry_for = absl::Minutes(1)}).value();
  const Model model = Define(client, "m");
  for (int i = 1; i <= 5; ++i) ASSERT_TRUE(model.TrainStep(Batch(i)).ok());
  const std::string before = Bytes(model);
  server_.Kill(SIGTERM);
  server_.Start({"--checkpoint_every="});
  EXPECT_EQ(Bytes(model), before);
  const auto report = model.TrainStep(Batch(6));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->report.step, 6);
  EXPECT_FALSE(report->durable_sequence.has_value());
}

}  // namespace
}  // namespace gluond::client
