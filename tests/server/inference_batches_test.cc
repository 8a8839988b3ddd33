// GRPCInferenceService: requests that wait for one another and are computed together, each with its own answer.

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

using InferenceBatchesTest = ServingTest;

TEST_F(InferenceBatchesTest, RequestsOfOtherSizesAreComputedTogetherWithTheirOwnAnswers) {
  Publish(R"(, "options": {"max_batch_size": 16, "max_queue_delay_us": "20000"})");
  std::vector<std::vector<float>> alone;
  for (int i = 0; i < 8; ++i) alone.push_back(Floats(Ask(Rows(1 + i % 3, "", "", "mlp", 0.3f * static_cast<float>(i)))));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 5; ++n) {
        grpc::ClientContext context;
        inference::ModelInferResponse response;
        const auto status = infer_->ModelInfer(&context, Rows(1 + i % 3, "", "", "mlp", 0.3f * static_cast<float>(i)), &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        const std::vector<float> values = Floats(response);
        ASSERT_EQ(values.size(), alone[static_cast<size_t>(i)].size());
        for (size_t j = 0; j < values.size(); ++j) EXPECT_NEAR(values[j], alone[static_cast<size_t>(i)][j], 1e-5f);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto statistics = Call(infer_, &Inference_::ModelStatistics, R"({"name": "mlp", "version": "1"})").model_stats(0);
  EXPECT_EQ(statistics.inference_stats().success().count(), 48u);
  EXPECT_EQ(statistics.inference_count(), 6u * (1 + 2 + 3 + 1 + 2 + 3 + 1 + 2));
  EXPECT_LT(statistics.execution_count(), 40u) << "batches were made";
  uint64_t rows = 0;
  for (const auto& batch : statistics.batch_stats()) rows += batch.batch_size() * batch.compute_infer().count();
  EXPECT_EQ(rows, statistics.inference_count());
  EXPECT_GT(statistics.inference_stats().queue().ns(), 0u);
}

TEST_F(InferenceBatchesTest, ABatchInvariantAnswerHasTheBitsOfALoneOne) {
  if (PublishesInvariant() != StatusCode::OK) GTEST_SKIP() << "this processor cannot promise that";
  Publish(R"(, "options": {"max_batch_size": 16, "max_queue_delay_us": "20000", "batch_invariant": true})");
  const std::vector<float> alone = Floats(Ask(Rows(1)));
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      grpc::ClientContext context;
      inference::ModelInferResponse response;
      ASSERT_TRUE(infer_->ModelInfer(&context, Rows(1 + i % 2), &response).ok());
      std::vector<float> values = Floats(response);
      values.resize(alone.size());
      EXPECT_EQ(values, alone);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(InferenceBatchesTest, UnloadingWaitsForNoCompanions) {
  Publish(R"(, "options": {"max_batch_size": 8, "max_queue_delay_us": "3600000000"})");
  std::atomic<bool> answered = false;
  std::thread waits([&] {
    while (!answered) {  // UNAVAILABLE while the version is not loaded.
      grpc::ClientContext context;
      inference::ModelInferResponse response;
      answered = infer_->ModelInfer(&context, Rows(1), &response).ok();
    }
  });
  while (!answered) {
    Call(infer_, &Inference_::RepositoryModelUnload, R"({"model_name": "mlp"})");
    Call(infer_, &Inference_::RepositoryModelLoad, R"({"model_name": "mlp"})");
  }
  waits.join();
}

TEST_F(InferenceBatchesTest, RequestsThatCannotBeTakenApartAreComputedAlone) {
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "sum", "graph": {"nodes": [{"name": "s", "op": "sum",
      "inputs": ["x"], "attributes": {"axis": 0, "keepdims": true}}], "outputs": ["s"]},
      "variables": [{"name": "x", "kind": "INPUT"}]})");
  Publish(R"(, "options": {"max_batch_size": 4, "max_queue_delay_us": "50000"})", StatusCode::OK, "sum");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      inference::ModelInferRequest request = Rows(1, "", "", "sum", static_cast<float>(i));
      request.mutable_inputs(0)->set_name("x");
      grpc::ClientContext context;
      inference::ModelInferResponse response;
      const grpc::Status status = infer_->ModelInfer(&context, request, &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_NEAR(Floats(response)[0], static_cast<float>(i) - 0.2f, 1e-5f);
    });
  }
  for (std::thread& thread : threads) thread.join();
  inference::ModelInferRequest two = Rows(2, "", "", "sum");
  two.mutable_inputs(0)->set_name("x");
  Ask(two, StatusCode::FAILED_PRECONDITION);
  ExpectMessage("has shape [1,4] for 2 rows: it cannot be taken apart");
}

TEST_F(InferenceBatchesTest, ACancelledRequestLeavesTheQueueAtOnce) {
  Publish(R"(, "options": {"max_batch_size": 8, "max_queue_delay_us": "60000000", "max_queue_size": 1})");
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
    inference::ModelInferResponse response;
    EXPECT_EQ(infer_->ModelInfer(&context, Rows(1), &response).error_code(), StatusCode::DEADLINE_EXCEEDED);
    // The next one finds its place free.
    bool is_free = false;
    for (int n = 0; n < 1000 && !is_free; ++n) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      is_free = Call(infer_, &Inference_::ModelStatistics, R"({"name": "mlp"})").model_stats(0).inference_stats().fail().count() ==
                static_cast<uint64_t>(i + 1);
    }
    EXPECT_TRUE(is_free);
  }
  EXPECT_EQ(Ask(Rows(8)).outputs(0).shape(0), 8) << "a full batch waits for nobody";
}

TEST_F(InferenceBatchesTest, AStoppedServerAnswersThoseWhoWaitAtOnce) {
  Publish(R"(, "options": {"max_batch_size": 8, "max_queue_delay_us": "3600000000"})");
  while (server_->UnderWay() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  grpc::Status status;
  std::thread waits([&] {
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    status = infer_->ModelInfer(&context, Rows(1), &response);
  });
  while (server_->UnderWay() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(server_->Drain(std::chrono::hours(1)), 0);
  waits.join();
  EXPECT_EQ(status.error_code(), StatusCode::OK) << status.error_message();
}

}  // namespace
}  // namespace gluond::server
