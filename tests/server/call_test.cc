// UnaryCall and Call: a call ends once, whoever finishes it, drops it or cancels it, on whatever thread.

#include "server/rpc/call.h"

#include <atomic>
#include <thread>

#include "gluond/v1/server.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/net/grpc_1_51/poll_threads.h"
#include "server/rpc/router.h"

namespace gluond::server {
namespace {

using InfoCall = Call<v1::GetServerInfoRequest, v1::GetServerInfoResponse>;
using Answer = std::function<void(InfoCall)>;

// A service of one method, whose answer the test decides.
class TestService final : public RawService {
 public:
  TestService(Runner& runner, Answer answer, Weight weight)
      : RawService(runner, "gluond.v1.ServerService"), answer_(std::move(answer)) {
    Add("GetServerInfo", this, &TestService::GetServerInfo);
    rows().back()->method.weight = weight;
    rows().back()->method.is_short = false;
  }

 private:
  void GetServerInfo(InfoCall call) { answer_(std::move(call)); }
  const Answer answer_;
};

class CallTest : public testing::TestWithParam<Weight> {
 protected:
  void Serve(Answer answer, Limits limits = {}) {
    runner_ = std::make_unique<Runner>(
        limits,
        [this](absl::string_view line) {
          std::lock_guard lock(mu_);
          log_ += std::string(line);
        },
        std::make_shared<Budget>("the test", int64_t{1} << 30, "--max_memory_bytes"));
    runner_->calls.Open();
    service_ = std::make_unique<TestService>(*runner_, std::move(answer), GetParam());
    grpc::ServerBuilder builder;
    router_ = std::make_unique<Router>(*runner_, /*gatekeeper=*/nullptr);
    router_->Add(*service_);
    router_->RegisterAt(builder);
    auto queue = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    poll_threads_ = std::make_unique<PollThreads>(std::move(queue), 2);
    router_->Start(poll_threads_->queue());
    stub_ = v1::ServerService::NewStub(server_->InProcessChannel({}));
  }
  // Waits for the calls under way.
  void Stop() {
    if (server_ != nullptr) {
      router_->Stop();
      server_->Shutdown(std::chrono::system_clock::now());
      router_->Wait();
    }
    stub_.reset();
    poll_threads_.reset();
    server_.reset();
  }
  void TearDown() override {
    Stop();
    EXPECT_EQ(runner_->requests.held(), 0) << "a permit was not given back";
  }
  grpc::Status Ask(grpc::ClientContext* context) {
    v1::GetServerInfoResponse response;
    return stub_->GetServerInfo(context, {}, &response);
  }
  grpc::Status Ask() {
    grpc::ClientContext context;
    return Ask(&context);
  }

  std::mutex mu_;
  std::string log_;  // Guarded by mu_.
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<TestService> service_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<PollThreads> poll_threads_;
  std::unique_ptr<v1::ServerService::Stub> stub_;
};

INSTANTIATE_TEST_SUITE_P(Weights, CallTest, testing::Values(Weight::kLight, Weight::kHeavy));

TEST_P(CallTest, AnswersWhatTheMethodSays) {
  Serve([](InfoCall call) {
    call.response().set_version("7");
    call.Finish();
  });
  v1::GetServerInfoResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->GetServerInfo(&context, {}, &response).ok());
  EXPECT_EQ(response.version(), "7");
}

TEST_P(CallTest, AnErrorLeadsWithTheMethod) {
  Serve([](InfoCall call) { call.Finish(absl::DataLossError("oh \"no\"")); });
  const grpc::Status status = Ask();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(status.error_message(), "GetServerInfo: oh \"no\"");
  std::lock_guard lock(mu_);
  EXPECT_NE(log_.find(R"("code":"DATA_LOSS","message":"oh \"no\"")"), std::string::npos) << log_;
}

// The trailing `x-request-id`; empty: none.
std::string RequestIdOf(const grpc::ClientContext& context) {
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto found = trailing.find("x-request-id");
  return found == trailing.end() ? "" : std::string(found->second.data(), found->second.size());
}

TEST_P(CallTest, AFailureAndItsLineHaveTheClientsRequestId) {
  constexpr char kTrace[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  Serve([](InfoCall call) { call.Finish(absl::DataLossError("oh")); });
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "mine-7");
  context.AddMetadata("traceparent", kTrace);
  EXPECT_EQ(Ask(&context).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(RequestIdOf(context), "mine-7");
  std::lock_guard lock(mu_);
  EXPECT_NE(log_.find(R"("request_id":"mine-7")"), std::string::npos) << log_;
  EXPECT_NE(log_.find(std::string(R"("traceparent":")") + kTrace + "\""), std::string::npos) << log_;
}

TEST_P(CallTest, AFailureWithoutARequestIdGetsOne) {
  Serve([](InfoCall call) { call.Finish(absl::DataLossError("oh")); });
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", std::string(200, 'x'));
  context.AddMetadata("traceparent", "nonsense");
  EXPECT_EQ(Ask(&context).error_code(), grpc::StatusCode::DATA_LOSS);
  const std::string id = RequestIdOf(context);
  EXPECT_EQ(id.size(), 16u);
  std::lock_guard lock(mu_);
  EXPECT_NE(log_.find("\"request_id\":\"" + id + "\""), std::string::npos) << log_;
  EXPECT_EQ(log_.find("traceparent"), std::string::npos) << log_;
}

TEST_P(CallTest, ASuccessRepeatsTheRequestIdIfThereIsOne) {
  Serve([](InfoCall call) { call.Finish(); });
  grpc::ClientContext with, without;
  with.AddMetadata("x-request-id", "mine-8");
  EXPECT_TRUE(Ask(&with).ok());
  EXPECT_EQ(RequestIdOf(with), "mine-8");
  EXPECT_TRUE(Ask(&without).ok());
  EXPECT_EQ(RequestIdOf(without), "");
}

TEST_P(CallTest, OnlyTheFirstFinishCounts) {
  Serve([](InfoCall call) {
    call.Finish(absl::NotFoundError("first"));
    call.Finish();
    call.Finish(absl::InternalError("third"));
  });
  EXPECT_EQ(Ask().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_P(CallTest, ACallThatNobodyFinishesEndsAllTheSame) {
  Serve([](InfoCall) {});
  EXPECT_EQ(Ask().error_code(), grpc::StatusCode::INTERNAL);
}

TEST_P(CallTest, ManyThreadsMayRaceToFinish) {
  std::mutex mu;
  std::vector<std::thread> threads;
  Serve([&](InfoCall call) {
    std::lock_guard lock(mu);
    for (int i = 0; i < 3; ++i) threads.emplace_back([call] { call.Finish(absl::AbortedError("raced")); });
  });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Ask().error_code(), grpc::StatusCode::ABORTED);
  std::lock_guard lock(mu);
  for (std::thread& thread : threads) thread.join();
}

TEST_P(CallTest, CancellationReachesTheWork) {
  std::atomic<bool> cancelled = false;
  std::thread work;
  Serve([&](InfoCall call) {
    work = std::thread([&cancelled, call] {
      while (call.cancellation()->Check().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      cancelled = true;
      call.Finish(call.cancellation()->Check());
    });
  });
  grpc::ClientContext context;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    context.TryCancel();
  });
  EXPECT_EQ(Ask(&context).error_code(), grpc::StatusCode::CANCELLED);
  canceller.join();
  work.join();
  EXPECT_TRUE(cancelled);
}

// Calls that send only their headers.
class OpenCalls {
 public:
  explicit OpenCalls(std::shared_ptr<grpc::Channel> channel) : stub_(std::move(channel)) {}
  ~OpenCalls() {
    Cancel();
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) continue;
  }
  void Open(int count) {
    for (int i = 0; i < count; ++i) {
      contexts_.push_back(std::make_unique<grpc::ClientContext>());
      calls_.push_back(stub_.PrepareCall(contexts_.back().get(), "/gluond.v1.ServerService/GetServerInfo", &queue_));
      calls_.back()->StartCall(nullptr);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  void Cancel() {
    for (const auto& context : contexts_) context->TryCancel();
  }

 private:
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> calls_;
};

TEST_P(CallTest, APeerWithFarMoreCallsOpenThanItMayHaveKeepsThemAndIsRefusedFurtherOnes) {
  Serve([](InfoCall call) { call.Finish(); });
  std::atomic<int> ended = 0;
  runner_->peers.Guard(4, [&ended](const std::string&, Ending) { ++ended; });
  OpenCalls calls(server_->InProcessChannel({}));
  calls.Open(4);
  calls.Cancel();
  calls.Open(7);
  EXPECT_TRUE(Ask().ok()) << "cancelled calls are not open";
  calls.Open(2);
  EXPECT_TRUE(Ask().ok()) << "for a moment there may seem to be more";
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const grpc::Status refused = Ask();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_message().find("calls open"), std::string::npos) << refused.error_message();
  calls.Cancel();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(Ask().ok());
  EXPECT_EQ(ended, 0);
}

TEST_P(CallTest, ACallIsChargedFromItsHeadersOn) {
  Serve([](InfoCall call) { call.Finish(); });
  OpenCalls calls(server_->InProcessChannel({}));
  calls.Open(4);
  EXPECT_GE(runner_->memory->used(), 4 * (16 << 10));
  calls.Cancel();
  Stop();
  EXPECT_EQ(runner_->memory->used(), 0);
}

TEST_P(CallTest, ACallWithHeadersBeyondItsOwnIsRefusedAndNamesTheLimit) {
  Serve([](InfoCall call) { call.Finish(); });
  grpc::ClientContext context;
  context.AddMetadata("x-large", std::string(20'000, 'a'));
  const grpc::Status status = Ask(&context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("16384"), std::string::npos) << status.error_message();
  Stop();
  EXPECT_EQ(runner_->memory->used(), 0);
}

// Bytes that have come and were given to nobody are charged (unread.h), and a header may be meant by one byte.
TEST_P(CallTest, LongHeadersAreGivenAsFarAsTheyMustHaveBeenSent) {
  Serve([](InfoCall call) { call.Finish(); });
  const auto given = [this](const std::vector<std::string>& headers) {
    const auto all = [this] {
      int64_t bytes = 0;
      for (const auto& [name, given] : runner_->peers.Look()) bytes += given.bytes;
      return bytes;
    };
    const int64_t before = all();
    grpc::ClientContext context;
    for (const std::string& header : headers) context.AddMetadata("x-large", header);
    EXPECT_TRUE(Ask(&context).ok());
    return all() - before;
  };
  EXPECT_GE(given({std::string(12'000, 'a')}), 8000);
  EXPECT_GE(given({std::string(4000, 'a'), std::string(4000, 'b'), std::string(4000, 'c')}), 8000);
  EXPECT_LE(given({std::string(4000, 'a'), std::string(4000, 'a'), std::string(4000, 'a')}), 2000);
}

TEST_P(CallTest, WhereNoMemoryIsLeftACallIsRefusedAndNothingIsKeptOfIt) {
  Serve([](InfoCall call) { call.Finish(); });
  ASSERT_TRUE(runner_->memory->Charge(int64_t{1} << 30).ok());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ask().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  runner_->memory->Refund(int64_t{1} << 30);
  EXPECT_TRUE(Ask().ok());
}

TEST_P(CallTest, TheDeadlineReachesTheWork) {
  std::atomic<int> code = 0;
  std::thread work;
  Serve([&](InfoCall call) {
    work = std::thread([&code, call] {
      while (call.cancellation()->Check().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      code = static_cast<int>(call.cancellation()->Check().code());
      call.Finish(call.cancellation()->Check());
    });
  });
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(30));
  EXPECT_EQ(Ask(&context).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  work.join();
  // gRPC's own cancellation at the deadline may come first.
  EXPECT_TRUE(code == static_cast<int>(absl::StatusCode::kDeadlineExceeded) ||
              code == static_cast<int>(absl::StatusCode::kCancelled));
}

TEST_P(CallTest, CancelsAndFinishesMayCross) {
  std::mutex mu;
  std::vector<std::thread> threads;
  Serve([&](InfoCall call) {
    std::lock_guard lock(mu);
    threads.emplace_back([call] { call.Finish(); });
  });
  for (int i = 0; i < 200; ++i) {
    grpc::ClientContext context;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(i));
      context.TryCancel();
    });
    const grpc::Status status = Ask(&context);
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED);
    canceller.join();
  }
  Stop();  // A call that was cancelled may not have reached the service yet.
  std::lock_guard lock(mu);
  for (std::thread& thread : threads) thread.join();
}

TEST_P(CallTest, AReplyOverTheLimitNamesTheFlag) {
  Limits limits;
  limits.max_message_bytes = 1000;
  Serve(
      [](InfoCall call) {
        call.response().set_version(std::string(2000, 'x'));
        call.Finish();
      },
      limits);
  const grpc::Status status = Ask();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("--max_message_bytes"), std::string::npos);
}

}  // namespace
}  // namespace gluond::server
