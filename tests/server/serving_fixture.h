// A whole server with a classifier, `mlp`, and stubs to publish and ask its versions.

#ifndef TESTS_SERVER_SERVING_FIXTURE_H_
#define TESTS_SERVER_SERVING_FIXTURE_H_

#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gluond/v1/serving.grpc.pb.h"
#include "proto/inference/grpc_service.grpc.pb.h"
#include "server/start/cpu_check.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using Serving = v1::ServingService::Stub;
using Inference_ = inference::GRPCInferenceService::Stub;

class ServingTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    MakeStubs();
    DefineMlp("mlp");
  }
  void TearDown() override {
    DropStubs();
    ServiceTest::TearDown();
  }
  // Kills the server, and starts another one.
  void Restart(const Limits& limits = {}) {
    DropStubs();
    StartServer(limits);
    MakeStubs();
    DefineAgain();
  }
  // The model, which the store may have or not.
  void DefineAgain() {
    grpc::ClientContext context;
    v1::DeleteModelResponse response;
    (void)models_->DeleteModel(&context, Json<v1::DeleteModelRequest>(R"({"model": "mlp"})"), &response);
    DefineMlp("mlp");
  }
  void MakeStubs() {
    serving_ = v1::ServingService::NewStub(channel_);
    infer_ = inference::GRPCInferenceService::NewStub(channel_);
  }
  void DropStubs() {
    serving_.reset();
    infer_.reset();
  }

  // `more`: further fields, as JSON.
  v1::ServedVersion Publish(const std::string& more = "", StatusCode expected = StatusCode::OK, const std::string& model = "mlp") {
    return Call(serving_, &Serving::PublishModel, absl::StrCat(R"({"model": ")", model, "\"", more, "}"), expected).version();
  }
  // The answer to who publishes a float32 model with batch_invariant.
  static StatusCode PublishesInvariant() { return HasEqualRows() ? StatusCode::OK : StatusCode::FAILED_PRECONDITION; }
  // A request of so many rows, which differ.
  static inference::ModelInferRequest Rows(int64_t rows, const std::string& version = "", const std::string& id = "",
                                           const std::string& model = "mlp", float seed = 0) {
    inference::ModelInferRequest request;
    request.set_model_name(model);
    request.set_model_version(version);
    request.set_id(id);
    auto* const input = request.add_inputs();
    input->set_name("data");
    input->set_datatype("FP32");
    input->add_shape(rows);
    input->add_shape(4);
    for (int64_t i = 0; i < rows * 4; ++i) {
      input->mutable_contents()->add_fp32_contents(seed + 0.1f * static_cast<float>(i % 7) - 0.2f);
    }
    return request;
  }
  inference::ModelInferResponse Ask(const inference::ModelInferRequest& request, StatusCode expected = StatusCode::OK) {
    return Call(infer_, &Inference_::ModelInfer, request, expected);
  }
  static std::vector<float> Floats(const inference::ModelInferResponse& response) {
    std::vector<float> values(response.raw_output_contents(0).size() / 4);
    std::memcpy(values.data(), response.raw_output_contents(0).data(), values.size() * 4);
    return values;
  }
  void Train(int steps) {
    for (int i = 0; i < steps; ++i) Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", i));
  }
  std::vector<int64_t> Listed(const std::string& json = "{}") {
    std::vector<int64_t> numbers;
    const v1::ListVersionsResponse response = Call(serving_, &Serving::ListVersions, json);
    for (const v1::ServedVersion& version : response.versions()) numbers.push_back(version.version());
    return numbers;
  }

  std::unique_ptr<Serving> serving_;
  std::unique_ptr<Inference_> infer_;
};

}  // namespace gluond::server

#endif  // TESTS_SERVER_SERVING_FIXTURE_H_
