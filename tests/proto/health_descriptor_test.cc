#include <memory>

#include "google/protobuf/descriptor.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

// Nothing here names the generated code: linking //proto/health/v1:health_cc_grpc alone must do.
TEST(HealthDescriptorTest, ReflectionCanDescribeTheServiceThatGrpcAnswers) {
  const auto* health = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      "grpc.health.v1.Health");
  ASSERT_NE(health, nullptr);
  EXPECT_NE(health->FindMethodByName("Check"), nullptr);
  EXPECT_NE(health->FindMethodByName("Watch"), nullptr);
}

// libgrpc++ has its own messages of the same name (upb), which must not clash with ours.
TEST(HealthDescriptorTest, GrpcsOwnHealthServiceStillAnswers) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  const std::unique_ptr<grpc::Server> server = grpc::ServerBuilder().BuildAndStart();
  ASSERT_NE(server, nullptr);
  EXPECT_NE(server->GetHealthCheckService(), nullptr);
}

}  // namespace
}  // namespace gluond
