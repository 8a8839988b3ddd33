// GRPCInferenceService.ModelStreamInfer: many requests on one stream, answered in their order.

#include <chrono>
#include <thread>

#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

using InferStreamTest = ServingTest;

TEST_F(InferStreamTest, KeepsOrderAndReportsErrorsInAnswers) {
  Publish(R"(, "options": {"max_batch_size": 8})");
  grpc::ClientContext context;
  const auto stream = infer_->ModelStreamInfer(&context);
  constexpr int kRequests = 200;  // More than are computed at once.
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(stream->Write(Rows(i % 10 == 3 ? 9 : 1 + i % 3, "", absl::StrCat(i))));
    }
    stream->WritesDone();
  });
  inference::ModelStreamInferResponse response;
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(stream->Read(&response)) << i;
    EXPECT_EQ(response.infer_response().id(), absl::StrCat(i));
    EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
    EXPECT_EQ(response.error_message().empty(), i % 10 != 3) << response.error_message();
    if (i % 10 == 3) continue;
    EXPECT_EQ(response.infer_response().outputs(0).shape(0), 1 + i % 3);
  }
  EXPECT_FALSE(stream->Read(&response));
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferStreamTest, AnAnswerOfAnErrorIsSmallWhateverCame) {
  grpc::ClientContext context;
  const auto stream = infer_->ModelStreamInfer(&context);
  inference::ModelInferRequest request;
  request.set_model_name(std::string(60 << 20, 'm'));
  inference::ModelStreamInferResponse response;
  for (const char* id : {"1", "2"}) {
    request.set_id(id);
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_THAT(response.error_message(), HasSubstr("no model is served"));
    EXPECT_EQ(response.infer_response().id(), id);
    EXPECT_LT(response.ByteSizeLong(), 20'000u);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferStreamTest, HoldsFewRequestsForAClientThatReadsNoneAndEnds) {
  Limits limits;
  limits.session_lease_seconds = 1;
  Restart(limits);
  Publish();
  grpc::ClientContext context;
  const auto stream = infer_->ModelStreamInfer(&context);
  const inference::ModelInferRequest request = Rows(20'000);
  std::thread writer([&] {
    for (int i = 0; i < 1000 && stream->Write(request); ++i) continue;
  });
  writer.join();  // The stream ended.
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_EQ(Ask(Rows(1)).model_version(), "1");
}

TEST_F(InferStreamTest, EndsWithoutRequests) {
  Limits limits;
  limits.stream_idle_seconds = 1;
  limits.session_lease_seconds = 1;
  Restart(limits);
  Publish(R"(, "options": {"max_batch_size": 8, "max_queue_delay_us": "2500000"})");
  grpc::ClientContext context;
  const auto stream = infer_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(Rows(1)));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response)) << "one with a request under way is not without any";
  EXPECT_EQ(response.error_message(), "");
  const auto answered = std::chrono::steady_clock::now();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_GE(std::chrono::steady_clock::now() - answered, std::chrono::milliseconds(900));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("1 s of --stream_idle_seconds"));
}

TEST_F(InferStreamTest, AnErrorEndsItForAClientThatWantsThat) {
  Publish(R"(, "options": {"max_batch_size": 8})");
  grpc::ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  const auto stream = infer_->ModelStreamInfer(&context);
  for (const char* version : {"1", "1", "7", "1"}) stream->Write(Rows(1, version));  // The last may come too late.
  inference::ModelStreamInferResponse response;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream->Read(&response)) << i;
    EXPECT_EQ(response.error_message(), "");
  }
  EXPECT_FALSE(stream->Read(&response)) << "the third one failed";
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("'7'"));
}

}  // namespace
}  // namespace gluond::server
