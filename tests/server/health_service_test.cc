// The standard health service: for the server and for each service, asked once or watched.

#include "server/services/health_service.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "proto/health/v1/health.grpc.pb.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthServiceTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    health_ = Health::NewStub(channel_);
  }
  void TearDown() override {
    health_.reset();
    ServiceTest::TearDown();
  }
  static HealthCheckRequest Of(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    return request;
  }

  std::unique_ptr<Health::Stub> health_;
};

TEST_F(HealthServiceTest, TheServerAndEachServiceServe) {
  for (const char* service : {"", "gluond.v1.ModelService", "gluond.v1.SessionService", "grpc.health.v1.Health",
                              "grpc.reflection.v1.ServerReflection"}) {
    grpc::ClientContext context;
    HealthCheckResponse response;
    ASSERT_TRUE(health_->Check(&context, Of(service), &response).ok()) << service;
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << service;
  }
}

TEST_F(HealthServiceTest, AServiceThatIsNotThereIsUnknown) {
  grpc::ClientContext context;
  HealthCheckResponse response;
  const grpc::Status status = health_->Check(&context, Of("no.such"), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "Check: there is no service 'no.such'");

  grpc::ClientContext watching;
  const auto watch = health_->Watch(&watching, Of("no.such"));
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  watching.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(HealthServiceTest, WhoAsksAndWhoWatchesHearsThatTheServerDrains) {
  grpc::ClientContext watching;
  const auto watch = health_->Watch(&watching, Of("gluond.v1.ModelService"));
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  std::thread drain([this] { server_->Drain(std::chrono::seconds(0), std::chrono::milliseconds(300)); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  grpc::ClientContext context;
  ASSERT_TRUE(health_->Check(&context, {}, &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  watching.TryCancel();
  drain.join();
}

TEST_F(HealthServiceTest, ANameIsShort) {
  grpc::ClientContext context;
  HealthCheckResponse response;
  const auto watch = health_->Watch(&context, Of(std::string(100'000, 'x')));
  EXPECT_FALSE(watch->Read(&response));
  const grpc::Status status = watch->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "Watch: the request has 100004 bytes, and 16384 are enough for a name");
}

}  // namespace
}  // namespace gluond::server
