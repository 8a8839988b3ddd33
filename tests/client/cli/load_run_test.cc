#include "client/cli/load_run.h"

#include <gtest/gtest.h>

#include <memory>

#include "grpcpp/grpcpp.h"

namespace gluond::cli {
namespace {

// The channel's end waits for gRPC's threads: were one of them the last to hold it, the process would abort.
TEST(LoadRunTest, NoThreadOfGrpcHoldsTheChannelAfterTheAnswer) {
  const std::shared_ptr<grpc::Channel> channel = grpc::CreateChannel("unix:/nowhere", grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  const Shot shot{"/nowhere.Service/Method", grpc::ByteBuffer(nullptr, 0)};
  const int64_t holders = channel.use_count();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(Fire(stub, shot, absl::Seconds(10)).code(), absl::StatusCode::kUnavailable);
    ASSERT_EQ(channel.use_count(), holders) << "after call " << i;
  }
}

}  // namespace
}  // namespace gluond::cli
