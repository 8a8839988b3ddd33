#include <thread>

#include "client/cpp/client.h"
#include "gtest/gtest.h"
#include "tests/client/cpp/fake_server.h"

namespace gluond::client {
namespace {

using Fault = FakeServer::Fault;

class RetryTest : public testing::Test {
 protected:
  Model ConnectedModel(Options options = {}) {
    auto client = Client::Connect(server_.channel(), std::move(options));
    EXPECT_TRUE(client.ok()) << client.status();
    return client->GetModel("lenet");
  }

  FakeServer server_;
};

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
  EXPECT_EQ(report->step(), 1);
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
  EXPECT_EQ(model.Step(1).status().code(), absl::StatusCode::kDeadlineExceeded);
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

TEST_F(RetryTest, ThreadsThatShareAModelLeaveNoGap) {
  const Model model = ConnectedModel();
  server_.set_faults(
      {Fault::kCutAfter, Fault::kNone, Fault::kCutBefore, Fault::kNone, Fault::kCutAfter});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([model] {
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(model.Step(1).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_.steps(), 20);
}

TEST_F(RetryTest, NobodyThereSaysHowToStartAServer) {
  const auto client = Client::Connect("127.0.0.1:1", {.retry_for = absl::ZeroDuration()});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(client.status().message().find("gluond serve"), std::string::npos) << client.status();
}

}  // namespace
}  // namespace gluond::client
