// Calls that gRPC has read and not begun are counted, and a thread that reads too many waits.

#include "server/net/arrivals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"

namespace gluond::server {
namespace {

using Clock = std::chrono::steady_clock;

TEST(ArrivalsTest, AThreadThatMayWaitReadsNoMoreThanMayWait) {
  Arrivals arrivals(2);
  std::thread([&arrivals] {
    Arrivals::MayWaitHere();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < 10; ++i) arrivals.Read();
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(800));
  }).join();
  EXPECT_EQ(arrivals.waiting(), 10);
  for (int i = 0; i < 10; ++i) arrivals.Begin();
  EXPECT_EQ(arrivals.waiting(), 0);
}

// gRPC's threads that begin calls may read a flood before they have begun any.
TEST(ArrivalsTest, AnyOtherThreadDoesNotWait) {
  Arrivals arrivals(0);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 100; ++i) arrivals.Read();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
}

// A service that begins each call, and has no methods.
class NoMethods final : public grpc::CallbackGenericService {
 public:
  explicit NoMethods(Arrivals& arrivals) : arrivals_(arrivals) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    arrivals_.Begin();
    return CallbackGenericService::CreateReactor(context);
  }

 private:
  Arrivals& arrivals_;
};

TEST(ArrivalsTest, EachCallOfAServerIsReadAndBegins) {
  const auto arrivals = std::make_shared<Arrivals>(0);
  NoMethods unimplemented(*arrivals);
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&unimplemented);
  Arrivals::CountIn(arrivals, builder);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  grpc::GenericStub stub(server->InProcessChannel({}));
  constexpr int kCalls = 10;
  Arrivals::MayWaitHere();  // Within a process the client's thread is the one that reads.
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kCalls; ++i) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, "/no.Such/Method", grpc::ByteBuffer(), &queue);
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag;
    bool ok;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(100 * kCalls)) << "nobody waited";
  EXPECT_EQ(arrivals->waiting(), 0);
}

}  // namespace
}  // namespace gluond::server
