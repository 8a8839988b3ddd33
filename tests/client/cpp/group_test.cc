// Models of a group of servers: what the client asks for, and what a leader answers.

#include "client/cpp/connect.h"
#include "gluond/nn.h"
#include "gluond/v1/group.grpc.pb.h"
#include "gluond/v1/model.grpc.pb.h"
#include "gluond/v1/server.grpc.pb.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

class FakeLeader final : public v1::GroupService::Service, public v1::ModelService::Service, public v1::ServerService::Service {
 public:
  FakeLeader() {
    grpc::ServerBuilder builder;
    builder.RegisterService(static_cast<v1::GroupService::Service*>(this));
    builder.RegisterService(static_cast<v1::ModelService::Service*>(this));
    builder.RegisterService(static_cast<v1::ServerService::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~FakeLeader() override { server_->Shutdown(); }

  std::shared_ptr<grpc::Channel> channel() { return server_->InProcessChannel({}); }

  v1::DefineModelRequest defined;
  std::vector<int64_t> drained;

 private:
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*, v1::GetServerInfoResponse* response) override {
    response->set_protocol(kLowestProtocol);
    return grpc::Status::OK;
  }
  grpc::Status DefineModel(grpc::ServerContext*, const v1::DefineModelRequest* request, v1::DefineModelResponse*) override {
    defined = *request;
    return grpc::Status::OK;
  }
  grpc::Status GetGroup(grpc::ServerContext*, const v1::GetGroupRequest*, v1::GetGroupResponse* response) override {
    response->set_generation(3);
    return grpc::Status::OK;
  }
  grpc::Status DrainMember(grpc::ServerContext*, const v1::DrainMemberRequest* request, v1::DrainMemberResponse*) override {
    if (request->member() == 0) return {grpc::StatusCode::INVALID_ARGUMENT, "the leader stays"};
    if (!drained.empty()) return {grpc::StatusCode::NOT_FOUND, "there is no such member"};
    drained.push_back(request->member());
    return {grpc::StatusCode::UNAVAILABLE, "the answer is lost"};
  }

  std::unique_ptr<grpc::Server> server_;
};

class GroupTest : public testing::Test {
 protected:
  FakeLeader leader_;
  const Client client_ = Connect(leader_.channel()).value();
};

TEST_F(GroupTest, AModelAsksForAPlacementOnlyWhereItIsAGroups) {
  ASSERT_TRUE(client_.DefineModel("m", nn::Dense({.units = 1})).ok());
  EXPECT_FALSE(leader_.defined.has_placement());
  ASSERT_TRUE(client_.DefineModel("m", nn::Dense({.units = 1}), {}, {.group = true}).ok());
  EXPECT_TRUE(leader_.defined.placement().group());
  EXPECT_FALSE(leader_.defined.placement().has_virtual_shards());
  ASSERT_TRUE(client_.DefineModel("m", nn::Dense({.units = 1}), {}, {.group = true, .virtual_shards = 8}).ok());
  EXPECT_EQ(leader_.defined.placement().virtual_shards(), 8);
}

TEST_F(GroupTest, PartsWithoutAGroupAreAMistake) {
  const absl::Status status = client_.DefineModel("m", nn::Dense({.units = 1}), {}, {.virtual_shards = 8}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("set `group` as well"), std::string::npos) << status;
  EXPECT_EQ(leader_.defined.model(), "") << "nothing was sent";
}

TEST_F(GroupTest, TheGroupIsToldOf) { EXPECT_EQ(client_.GetGroup().value().generation, 3); }

TEST_F(GroupTest, AMemberThatHasLeftWhenTheAnswerWasLostHasLeft) {
  EXPECT_TRUE(client_.DrainMember(2).ok());
  EXPECT_EQ(leader_.drained, std::vector<int64_t>{2});
  EXPECT_EQ(client_.DrainMember(2).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_.DrainMember(0).message(), "the leader stays");
}

}  // namespace
}  // namespace gluond::client
