#include "server/rpc/grpc_status.h"

#include <string>

#include "gtest/gtest.h"

namespace gluond::server {
namespace {

TEST(GrpcStatusTest, AMessageFitsIntoTheHeadersThatClientsTake) {
  const grpc::Status status = ToGrpc(absl::NotFoundError(std::string(1 << 20, 'x')));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_GT(status.error_message().size(), 1000u);
  EXPECT_LT(status.error_message().size(), 8000u);
  EXPECT_LT(ToGrpc(absl::NotFoundError(std::string(1 << 20, '%'))).error_message().size(), 8000u / 3);
}

TEST(GrpcStatusTest, ATracebackFollowsTheMessage) {
  absl::Status status = absl::InvalidArgumentError("what");
  status.SetPayload(kTraceback, absl::Cord("line 1\nline 2\n"));
  EXPECT_EQ(ToGrpc(status).error_message(), "what\nline 1\nline 2\n");
}

}  // namespace
}  // namespace gluond::server
