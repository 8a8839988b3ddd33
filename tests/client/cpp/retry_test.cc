#include <thread>

#include "client/cpp/connect.h"
#include "gtest/gtest.h"
#include "tests/client/cpp/fake_server.h"

namespace gluond::client {
namespace {

using Fault = FakeServer::Fault;

class RetryTest : public testing::Test {
 protected:
  Model ConnectedModel(Options options = {}) {
    auto client = Connect(server_.channel(), std::move(options));
    EXPECT_TRUE(client.ok()) << client.status();
    return client->GetModel("lenet");
  }

  FakeServer server_;
};

TEST(CheckServerTest, AServerThatIsTooOldIsNamed) {
  GetServerInfoResponse server;
  server.version = ("0.0.7");
  EXPECT_TRUE(CheckServer(server, /*lowest=*/1).ok()) << "one that tells no protocol speaks 1";
  const absl::Status status = CheckServer(server);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"gluond 0.0.7 speaks protocol 1", "this client, gluond 0.1.0, needs 2", "start a newer server"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
  }
  server.protocol = (kLowestProtocol);
  EXPECT_TRUE(CheckServer(server).ok());
}

TEST_F(RetryTest, ACallCutBeforeItWasAppliedIsAppliedOnce) {
  const Model model = ConnectedModel();
  server_.set_faults({Fault::kCutBefore, Fault::kCutBefore});
  ASSERT_TRUE(model.Step(1).ok());
  EXPECT_EQ(server_.steps(), 1);
}

TEST_F(RetryTest, ACallWhoseAnswerWasLostIsAppliedOnce) {
  const Model model = ConnectedModel();
  server_.set_faults({Fault::kCutAfter, Fault::kCutAfter});
  const auto report = model.Step(1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->step, 1);
  EXPECT_EQ(server_.steps(), 1);
  ASSERT_TRUE(model.Step(1).ok());
  EXPECT_EQ(server_.steps(), 2);
}

TEST_F(RetryTest, ARefusedCallDoesNotUseItsNumberUp) {
  const Model model = ConnectedModel();
  server_.set_faults({Fault::kInvalidArgument});
  EXPECT_EQ(model.Step(1).status().message(), "no such batch");
  EXPECT_TRUE(model.Step(1).ok());
  EXPECT_EQ(server_.steps(), 1);
}

TEST_F(RetryTest, AfterADeadlineTheServerIsAskedWhatItApplied) {
  const Model model = ConnectedModel();
  server_.set_faults({Fault::kDeadlineAfter});
  const absl::Status status = model.Step(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("no answer from "), std::string::npos) << status;
  EXPECT_EQ(server_.steps(), 1);
  ASSERT_TRUE(model.Step(1).ok());
  EXPECT_EQ(server_.steps(), 2);
}

TEST_F(RetryTest, AServerThatForgotIsNotTakenForTheSame) {
  const Model model = ConnectedModel();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(model.Step(1).ok());
  server_.set_faults({Fault::kRestart});
  const absl::Status status = model.Step(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_NE(status.message().find("Load a checkpoint"), std::string::npos) << status;
  EXPECT_EQ(server_.steps(), 0);
  EXPECT_TRUE(model.Step(1).ok());  // From here on it is the server's new count.
}

TEST_F(RetryTest, AKnownClientGoesOnWithItsNumbers) {
  ASSERT_TRUE(ConnectedModel({.client_id = "me"}).Step(1).ok());
  ASSERT_TRUE(ConnectedModel({.client_id = "me"}).Step(1).ok());
  EXPECT_EQ(server_.steps(), 2);
}

TEST_F(RetryTest, UnavailableIsTheAnswerWhenTheTimeIsUp) {
  const Model model = ConnectedModel({.retry_for = absl::Milliseconds(120)});
  server_.set_faults(std::vector<Fault>(50, Fault::kCutBefore));
  const absl::Time start = absl::Now();
  const absl::Status status = model.Step(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  server_.set_faults({});
  ASSERT_TRUE(model.Step(1).ok());
  EXPECT_EQ(server_.steps(), 1);
}

TEST_F(RetryTest, AnErrorTellsWhenToComeBack) {
  const Model model = ConnectedModel();
  server_.set_faults({Fault::kBusy});
  absl::Time start = absl::Now();
  ASSERT_TRUE(model.Step(1).ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(300));
  server_.set_faults({Fault::kBusyForLong});
  start = absl::Now();
  const absl::Status status = model.Step(1).status();
  EXPECT_EQ(status.message(), "busy");
  EXPECT_EQ(RetryDelayOf(status), absl::Hours(1));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5)) << "it takes longer than the client's patience";
  EXPECT_EQ(server_.steps(), 1);
}

TEST_F(RetryTest, ThreadsThatShareAModelLeaveNoGap) {
  const Model model = ConnectedModel();
  server_.set_faults({Fault::kCutAfter, Fault::kNone, Fault::kCutBefore, Fault::kNone, Fault::kCutAfter});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([model] {
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(model.Step(1).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_.steps(), 20);
}

// Steps that are sent ahead, under each fault in each place.
class TrainOnBatchesTest : public RetryTest {
 protected:
  // Trains on `count` batches and returns the steps that were reported.
  std::vector<int64_t> Train(const Model& model, int count, absl::Status* status) {
    std::vector<int64_t> steps;
    int given = 0;
    *status = model.TrainOnBatches(
        [&]() -> std::optional<Tensors> {
          if (given == count) return std::nullopt;
          return Tensors{{"data", Tensor::Of<float>({1}, {static_cast<float>(++given)})}};
        },
        [&](const TrainStepResponse& response) { steps.push_back(response.report.step); });
    return steps;
  }
  static std::vector<int64_t> UpTo(int64_t n) {
    std::vector<int64_t> steps;
    for (int64_t i = 1; i <= n; ++i) steps.push_back(i);
    return steps;
  }
};

TEST_F(TrainOnBatchesTest, AppliesEachBatchOnceInOrder) {
  const Model model = ConnectedModel();
  for (const int count : {0, 1, 2, 50}) {
    const int64_t before = server_.steps();
    absl::Status status;
    const std::vector<int64_t> steps = Train(model, count, &status);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(steps.size(), static_cast<size_t>(count));
    EXPECT_EQ(server_.steps(), before + count);
  }
  ASSERT_TRUE(model.Step(1).ok());  // The numbers go on.
}

TEST_F(TrainOnBatchesTest, ACallWithinItIsRefusedAndDoesNotWaitForItself) {
  const Model model = ConnectedModel();
  absl::Status status, within;
  int given = 0;
  status = model.TrainOnBatches(
      [&]() -> std::optional<Tensors> {
        if (given++ == 2) return std::nullopt;
        return Tensors{{"data", Tensor::Of<float>({1}, {1})}};
      },
      [&](const TrainStepResponse&) { within = model.SetLearningRate(0.1); });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(within.code(), absl::StatusCode::kFailedPrecondition) << within;
  EXPECT_TRUE(model.Step(1).ok());
}

TEST_F(TrainOnBatchesTest, CutsWhereverTheyFallLoseAndRepeatNothing) {
  for (const Fault a : {Fault::kNone, Fault::kCutBefore, Fault::kCutAfter}) {
    for (const Fault b : {Fault::kNone, Fault::kCutBefore, Fault::kCutAfter}) {
      for (const Fault c : {Fault::kNone, Fault::kCutBefore, Fault::kCutAfter}) {
        FakeServer server;
        const Model model = Connect(server.channel())->GetModel("lenet");
        server.set_faults({a, b, c, Fault::kNone, a, c, b});
        absl::Status status;
        EXPECT_EQ(Train(model, 8, &status), UpTo(8)) << status;
        EXPECT_EQ(server.steps(), 8);
      }
    }
  }
}

TEST_F(TrainOnBatchesTest, AServerThatIsBusyIsWaitedFor) {
  const Model model = ConnectedModel();
  server_.set_faults({Fault::kNone, Fault::kBusy, Fault::kNone, Fault::kNone, Fault::kBusy});
  absl::Status status;
  EXPECT_EQ(Train(model, 10, &status), UpTo(10)) << status;
  EXPECT_EQ(server_.steps(), 10);
}

TEST_F(TrainOnBatchesTest, ARefusedBatchEndsItAndNothingAfterItIsApplied) {
  const Model model = ConnectedModel();
  server_.set_faults({Fault::kNone, Fault::kNone, Fault::kInvalidArgument});
  absl::Status status;
  const std::vector<int64_t> steps = Train(model, 10, &status);
  EXPECT_EQ(status.message(), "no such batch");
  EXPECT_EQ(steps, UpTo(static_cast<int64_t>(steps.size())));
  EXPECT_EQ(server_.steps(), static_cast<int64_t>(steps.size()));
  EXPECT_LT(server_.steps(), 10);
  ASSERT_TRUE(model.Step(1).ok());
}

TEST_F(TrainOnBatchesTest, AServerThatForgotIsNotTakenForTheSame) {
  const Model model = ConnectedModel();
  server_.set_faults({Fault::kNone, Fault::kNone, Fault::kNone, Fault::kRestart, Fault::kCutBefore});
  absl::Status status;
  Train(model, 10, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_EQ(server_.steps(), 0);
}

TEST_F(RetryTest, NobodyThereSaysHowToStartAServer) {
  const auto client = Client::Connect("127.0.0.1:1", {.retry_for = absl::ZeroDuration()});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(client.status().message().find("gluond serve"), std::string::npos) << client.status();
}

// A server that crashes and comes back as it was at its last durable step.
class CrashedTest : public TrainOnBatchesTest {
 protected:
  static std::vector<std::string> Batches(int n) {
    std::vector<std::string> batches;
    for (int i = 1; i <= n; ++i) {
      batches.emplace_back(Tensor::Of<float>({1}, {static_cast<float>(i)}).bytes());
    }
    return batches;
  }
};

TEST_F(CrashedTest, WhereverItFallsTheBatchesThatAreLostAreSentAgain) {
  for (const Fault fault : {Fault::kCrash, Fault::kSilentCrash}) {
    for (size_t place = 0; place < 24; ++place) {
      FakeServer server;
      server.set_durable_every(5);
      const Model model = Connect(server.channel())->GetModel("lenet");
      std::vector<Fault> faults(place, Fault::kNone);
      faults.insert(faults.end(), {fault, Fault::kNone, Fault::kNone, Fault::kNone, fault});
      server.set_faults(faults);
      absl::Status status;
      EXPECT_EQ(Train(model, 20, &status), UpTo(20)) << place << ": " << status;
      EXPECT_EQ(server.batches(), Batches(20)) << place;
    }
  }
}

TEST_F(CrashedTest, AnAnswerThatACrashTookIsReportedOnce) {
  FakeServer server;
  server.set_durable_every(5);
  const Model model = Connect(server.channel())->GetModel("lenet");
  server.set_faults({Fault::kCrashAfter});
  absl::Status status;
  EXPECT_EQ(Train(model, 1, &status), std::vector<int64_t>{0}) << status;
  EXPECT_EQ(server.steps(), 1);
  EXPECT_EQ(Train(model, 1, &status), std::vector<int64_t>{2}) << status;
}

TEST_F(CrashedTest, BatchesThatAreKeptNoMoreEndTheTraining) {
  FakeServer server;
  server.set_durable_every(1000);
  const Model model = Connect(server.channel(), {.keep_bytes = 40})->GetModel("lenet");
  std::vector<Fault> faults(30, Fault::kNone);
  faults.push_back(Fault::kCrash);
  server.set_faults(faults);
  absl::Status status;
  Train(model, 60, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  ASSERT_EQ(ReasonOf(status), "REWOUND") << status;
  EXPECT_EQ(FactsOf(status).at("last"), "0");
}

}  // namespace
}  // namespace gluond::client
