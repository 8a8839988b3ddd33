// A thread that reads more calls than have begun waits, until the queue has brought them out.

#include "server/net/grpc_1_51/arrivals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "grpc/grpc_security.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/net/grpc_1_51/poll_threads.h"
#include "server/net/grpc_1_51/watched_credentials.h"

namespace gluond::server {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kWindow = Arrivals::kWindow;

class ArrivalsTest : public testing::Test {
 protected:
  ArrivalsTest() {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    builder.AddListeningPort("127.0.0.1:0", WatchedCredentials(grpc_insecure_server_credentials_create(), arrivals_), &port_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    arrivals_.Start(*queue_);
  }
  ~ArrivalsTest() override {
    arrivals_.Stop();
    server_->Shutdown(std::chrono::system_clock::now());
    if (queue_ != nullptr) Poll();
    threads_.reset();
  }
  void Poll() { threads_ = std::make_unique<PollThreads>(std::move(queue_), 2); }
  // How long a thread that may wait takes to read so many calls.
  std::chrono::milliseconds Read(int64_t calls) {
    const Clock::time_point start = Clock::now();
    std::thread([&] {
      Arrivals::MayWaitHere();
      for (int64_t i = 0; i < calls; ++i) arrivals_.Read();
    }).join();
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  }

  grpc::AsyncGenericService service_;
  Arrivals arrivals_;
  int port_ = 0;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<PollThreads> threads_;
};

TEST_F(ArrivalsTest, WhileNothingComesOutOfTheQueueAReaderWaitsAMomentForEachWindow) {
  EXPECT_LT(Read(3 * kWindow - 2).count(), 100) << "a mark after a window, and two windows more";
  EXPECT_GE(Read(2 * kWindow).count(), 200);
}

TEST_F(ArrivalsTest, WhereTheMarksComeOutNobodyWaits) {
  Poll();
  EXPECT_LT(Read(1000 * kWindow).count(), 5000) << "998 moments would be 100 s";
}

TEST_F(ArrivalsTest, AThreadThatTakesCallsDoesNotWait) {
  const Clock::time_point start = Clock::now();
  std::thread([&] {
    for (int64_t i = 0; i < 100 * kWindow; ++i) arrivals_.Read();
  }).join();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
}

TEST_F(ArrivalsTest, AfterStopNobodyWaits) {
  EXPECT_LT(Read(3 * kWindow - 2).count(), 100);
  arrivals_.Stop();
  EXPECT_LT(Read(100 * kWindow).count(), 1000);
}

// gRPC tells of each call of a connection: here nobody takes them, and a thread that may not wait reads them.
TEST_F(ArrivalsTest, EachCallOfAServerIsRead) {
  EXPECT_LT(Read(2 * kWindow - 1).count(), 100);  // One more, and a mark is due.
  grpc::GenericStub stub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port_), grpc::InsecureChannelCredentials()));
  for (int64_t i = 0; i < kWindow; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(10));
    grpc::CompletionQueue calls;
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, "/no.Such/Method", grpc::ByteBuffer(), &calls);
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag;
    bool ok;
    ASSERT_TRUE(calls.Next(&tag, &ok));
  }
  EXPECT_GE(Read(kWindow).count(), 100) << "the calls were not counted";
}

}  // namespace
}  // namespace gluond::server
