// The standard health service: for the server and for each service, asked once or watched.

#include "server/services/health_service.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "proto/health/v1/health.grpc.pb.h"
#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::health::v1::HealthListResponse;

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
  for (const char* service :
       {"", "gluond.v1.ModelService", "gluond.v1.SessionService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"}) {
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

class ModelHealthTest : public ServingTest {
 protected:
  void SetUp() override {
    ServingTest::SetUp();
    health_ = Health::NewStub(channel_);
  }
  void TearDown() override {
    health_.reset();
    ServingTest::TearDown();
  }
  // SERVICE_UNKNOWN: NOT_FOUND.
  HealthCheckResponse::ServingStatus StatusOf(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const grpc::Status status = health_->Check(&context, request, &response);
    if (status.error_code() == StatusCode::NOT_FOUND) return HealthCheckResponse::SERVICE_UNKNOWN;
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status();
  }

  std::unique_ptr<Health::Stub> health_;
};

TEST_F(ModelHealthTest, AModelServesWhileAVersionIsReady) {
  EXPECT_EQ(StatusOf("model:mlp"), HealthCheckResponse::SERVICE_UNKNOWN) << "it is defined, and not published";
  Publish(R"(, "labels": ["stable"])");
  for (const char* service : {"model:mlp", "model:mlp:1", "model:mlp:stable"}) {
    EXPECT_EQ(StatusOf(service), HealthCheckResponse::SERVING) << service;
  }
  EXPECT_EQ(StatusOf("model:mlp:"), HealthCheckResponse::SERVING) << "an empty version is none that is named";
  for (const char* service : {"mlp", "model:", "model:mlp:2", "model:mlp:canary", "model:mlp:1:1", "model:other"}) {
    EXPECT_EQ(StatusOf(service), HealthCheckResponse::SERVICE_UNKNOWN) << service;
  }
  Call(infer_, &Inference_::RepositoryModelUnload, R"({"model_name": "mlp"})");
  EXPECT_EQ(StatusOf("model:mlp"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(StatusOf("model:mlp:stable"), HealthCheckResponse::NOT_SERVING);
  Call(infer_, &Inference_::RepositoryModelLoad, R"({"model_name": "mlp"})");
  EXPECT_EQ(StatusOf("model:mlp:1"), HealthCheckResponse::SERVING);
}

TEST_F(ModelHealthTest, AListHasTheServerItsServicesDevicesAndModels) {
  const auto list = [this] {
    grpc::ClientContext context;
    HealthListResponse response;
    const grpc::Status status = health_->List(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    for (const auto& [name, health] : response.statuses()) EXPECT_EQ(health.status(), StatusOf(name)) << name;
    return response;
  };
  EXPECT_FALSE(list().statuses().contains("model:mlp"));
  Publish(R"(, "labels": ["stable"])");
  Publish();
  for (const char* name : {"", "cpu", "gluond.v1.ModelService", "grpc.health.v1.Health", "model:mlp"}) {
    ASSERT_TRUE(list().statuses().contains(name)) << name;
    EXPECT_EQ(list().statuses().at(name).status(), HealthCheckResponse::SERVING) << name;
  }
  EXPECT_FALSE(list().statuses().contains("model:mlp:1")) << "versions are asked for by Check";
  Call(infer_, &Inference_::RepositoryModelUnload, R"({"model_name": "mlp"})");
  EXPECT_EQ(list().statuses().at("model:mlp").status(), HealthCheckResponse::NOT_SERVING);
}

TEST_F(ModelHealthTest, AListOfTooManyNamesIsRefused) {
  grpc::ClientContext first;
  HealthListResponse response;
  ASSERT_TRUE(health_->List(&first, {}, &response).ok());
  const int others = response.statuses_size();
  for (int i = others; i < 100; ++i) Publish(absl::StrCat(R"(, "served": "m)", i, "\""));
  grpc::ClientContext most;
  ASSERT_TRUE(health_->List(&most, {}, &response).ok());
  EXPECT_EQ(response.statuses_size(), 100);
  Publish(R"(, "served": "one-more")");
  grpc::ClientContext more;
  const grpc::Status status = health_->List(&more, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(),
            "List: there are 101 services, devices and models, and a list has 100 at most; ask for one "
            "by Check, or for models by ListVersions");
}

TEST_F(ModelHealthTest, WatchersFollowPublishingAndRetiring) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  HealthCheckRequest request;
  request.set_service("model:mlp:2");
  const auto watch = health_->Watch(&context, request);
  HealthCheckResponse response;
  const auto next = [&] {
    EXPECT_TRUE(watch->Read(&response));
    return response.status();
  };
  EXPECT_EQ(next(), HealthCheckResponse::SERVICE_UNKNOWN);
  Publish();
  Publish();
  EXPECT_EQ(next(), HealthCheckResponse::SERVING);
  Call(serving_, &Serving::RetireVersion, R"({"served": "mlp", "version": "2"})");
  EXPECT_EQ(next(), HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_EQ(StatusOf("model:mlp"), HealthCheckResponse::SERVING);
  context.TryCancel();
}

TEST_F(ModelHealthTest, NoModelServesWhileTheServerDrains) {
  Publish();
  std::thread drain([this] { server_->Drain(std::chrono::seconds(0), std::chrono::milliseconds(300)); });
  HealthCheckResponse::ServingStatus status;
  while ((status = StatusOf("model:mlp")) == HealthCheckResponse::SERVING) continue;
  EXPECT_EQ(status, HealthCheckResponse::NOT_SERVING);
  drain.join();
}

}  // namespace
}  // namespace gluond::server
