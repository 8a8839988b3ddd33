// Models of a group of servers: what the client asks for, and what a leader answers.

#include "client/cpp/client.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

google::rpc::Status ErrorOf(grpc::StatusCode code, const std::string& message) {
  google::rpc::Status status;
  status.set_code(code);
  status.set_message(message);
  return status;
}

// As a leader says it.
google::rpc::Status TooFew() {
  google::rpc::Status status = ErrorOf(grpc::StatusCode::UNAVAILABLE, "the group has 1 processes, and needs 2");
  google::rpc::ErrorInfo info;
  info.set_reason("LIMIT");
  status.add_details()->PackFrom(info);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(1'000'000);
  status.add_details()->PackFrom(retry);
  return status;
}

class FakeLeader final : public v1::GroupService::Service,
                         public v1::ModelService::Service,
                         public v1::ServerService::Service,
                         public v1::TrainingService::Service {
 public:
  FakeLeader() {
    grpc::ServerBuilder builder;
    builder.RegisterService(static_cast<v1::GroupService::Service*>(this));
    builder.RegisterService(static_cast<v1::ModelService::Service*>(this));
    builder.RegisterService(static_cast<v1::ServerService::Service*>(this));
    builder.RegisterService(static_cast<v1::TrainingService::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~FakeLeader() override { server_->Shutdown(); }

  std::shared_ptr<grpc::Channel> channel() { return server_->InProcessChannel({}); }

  v1::DefineModelRequest defined;
  std::vector<int64_t> drained;
  // Each call of Train ends by one of these after 3 steps, or, where it is UNAVAILABLE and `refuses`, before the first.
  std::vector<google::rpc::Status> ends;
  std::vector<v1::TrainRequest> trained;
  int refuses = 0;

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

  grpc::Status Train(grpc::ServerContext*, const v1::TrainRequest* request,
                     grpc::ServerWriter<v1::TrainProgress>* writer) override {
    if (!trained.empty() && --refuses >= 0) return {grpc::StatusCode::UNAVAILABLE, "", TooFew().SerializeAsString()};
    trained.push_back(*request);
    const size_t call = trained.size();
    v1::TrainProgress last;
    last.set_steps(call > ends.size() ? request->steps() : 3);
    last.set_total_steps(request->steps());
    last.mutable_next()->set_begin(static_cast<int64_t>(call) * 3);
    last.set_done(true);
    if (call <= ends.size()) {
      last.set_stop(v1::TrainProgress::BY_ERROR);
      last.set_error(ends[call - 1].message());
      *last.mutable_status() = ends[call - 1];
    }
    writer->Write(last);
    return grpc::Status::OK;
  }
  grpc::Status GetSequence(grpc::ServerContext*, const v1::GetSequenceRequest*, v1::GetSequenceResponse* response) override {
    response->set_last(trained.size());
    return grpc::Status::OK;
  }

  std::unique_ptr<grpc::Server> server_;
};

class GroupTest : public testing::Test {
 protected:
  FakeLeader leader_;
  const Client client_ = Client::Connect(leader_.channel()).value();
};

TEST_F(GroupTest, AModelAsksForAPlacementOnlyWhereItIsAGroups) {
  ASSERT_TRUE(client_.DefineModel("m", Dense(1)).ok());
  EXPECT_FALSE(leader_.defined.has_placement());
  ASSERT_TRUE(client_.DefineModel("m", Dense(1), {}, {.group = true}).ok());
  EXPECT_TRUE(leader_.defined.placement().group());
  EXPECT_FALSE(leader_.defined.placement().has_virtual_shards());
  ASSERT_TRUE(client_.DefineModel("m", Dense(1), {}, {.group = true, .virtual_shards = 8}).ok());
  EXPECT_EQ(leader_.defined.placement().virtual_shards(), 8);
}

TEST_F(GroupTest, PartsWithoutAGroupAreAMistake) {
  const absl::Status status = client_.DefineModel("m", Dense(1), {}, {.virtual_shards = 8}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("set `group` as well"), std::string::npos) << status;
  EXPECT_EQ(leader_.defined.model(), "") << "nothing was sent";
}

TEST_F(GroupTest, TheGroupIsToldOf) { EXPECT_EQ(client_.GetGroup().value().generation(), 3); }

TEST_F(GroupTest, AMemberThatHasLeftWhenTheAnswerWasLostHasLeft) {
  EXPECT_TRUE(client_.DrainMember(2).ok());
  EXPECT_EQ(leader_.drained, std::vector<int64_t>{2});
  EXPECT_EQ(client_.DrainMember(2).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_.DrainMember(0).message(), "the leader stays");
}

TEST_F(GroupTest, ATrainingGoesOnWhenEnoughProcessesAreThereAgain) {
  leader_.ends = {TooFew(), ErrorOf(grpc::StatusCode::UNAVAILABLE, "the leader of the group is stopping")};
  leader_.refuses = 2;
  v1::TrainRequest request;
  request.set_steps(10);
  int messages = 0;
  const auto last = client_.GetModel("m").Train(request, [&](const v1::TrainProgress& progress) {
    EXPECT_EQ(progress.steps(), std::vector<int64_t>({3, 6, 10})[static_cast<size_t>(messages)]);
    EXPECT_EQ(progress.done(), ++messages == 3);
    EXPECT_EQ(progress.error(), "");
    EXPECT_FALSE(progress.has_status());
    return true;
  });
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(messages, 3);
  EXPECT_EQ(last->steps(), 10);
  EXPECT_EQ(last->total_steps(), 10);
  ASSERT_EQ(leader_.trained.size(), 3u);
  EXPECT_EQ(leader_.trained[1].start_at().begin(), 3);
  EXPECT_EQ(leader_.trained[1].steps(), 7);
  EXPECT_EQ(leader_.trained[2].steps(), 4);
}

TEST_F(GroupTest, AnErrorThatStaysEndsATraining) {
  leader_.ends = {ErrorOf(grpc::StatusCode::ABORTED, "another trainer")};
  v1::TrainRequest request;
  request.set_steps(10);
  const auto last = client_.GetModel("m").Train(request, [](const v1::TrainProgress&) { return true; });
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->steps(), 3);
  EXPECT_EQ(last->stop(), v1::TrainProgress::BY_ERROR);
  EXPECT_EQ(last->error(), "another trainer");
  EXPECT_EQ(leader_.trained.size(), 1u);
}

}  // namespace
}  // namespace gluond::client
