// PublishModel: what is published stays as it was, and comes back after a restart. serving_routes_test has the routes to versions.

#include <fstream>
#include <string>
#include <vector>

#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

class ServingServiceTest : public ServingTest {};

TEST_F(ServingServiceTest, AVersionStaysAsItWasWhileItsModelTrains) {
  Train(3);
  const v1::ServedVersion first = Publish(R"(, "labels": ["stable"])");
  EXPECT_EQ(first.served(), "mlp");
  EXPECT_EQ(first.version(), 1);
  EXPECT_EQ(first.state(), v1::ServedVersion::READY);
  EXPECT_EQ(first.source(), "mlp");
  EXPECT_EQ(first.source_version(), 4u);  // InitializeParameters, and three steps.
  EXPECT_GE(first.tensor_bytes(), 4 * (8 * 4 + 8 + 3 * 8 + 3));
  EXPECT_TRUE(first.stored());
  EXPECT_GT(first.created().seconds(), 1'700'000'000);
  const auto predict = [this] {
    v1::PredictRequest request;
    request.set_model("mlp");
    const inference::ModelInferRequest rows = Rows(2);
    v1::Tensor& data = (*request.mutable_inputs())["data"];
    for (const int64_t dim : rows.inputs(0).shape()) data.add_shape(dim);
    *data.mutable_float_data() = rows.inputs(0).contents().fp32_contents();
    const auto response = Call(models_, &v1::ModelService::Stub::Predict, request);
    const auto& values = response.outputs().begin()->second.float_data();
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> before = Floats(Ask(Rows(2))), working = predict();
  EXPECT_THAT(before, testing::Pointwise(testing::FloatNear(1e-5f), working)) << "the working model's answer";
  Train(5);
  EXPECT_EQ(Floats(Ask(Rows(2))), before);
  EXPECT_THAT(predict(), testing::Not(testing::Pointwise(testing::FloatNear(1e-5f), working)));
  const v1::ServedVersion second = Publish();
  EXPECT_EQ(second.version(), 2);
  EXPECT_THAT(Floats(Ask(Rows(2, "2"))), testing::Pointwise(testing::FloatNear(1e-5f), predict()));
  EXPECT_EQ(Floats(Ask(Rows(2))), before) << "the label `stable`";
  Call(models_, &v1::ModelService::Stub::DeleteModel, R"({"model": "mlp"})");
  EXPECT_EQ(Floats(Ask(Rows(2))), before) << "versions need no model";
}

TEST_F(ServingServiceTest, WhatCannotBePublishedIsRefusedAndLeavesNothing) {
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "empty", "block": {"block": "Dense",
      "attributes": {"units": 2}}, "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 3]}]})");
  Publish("", StatusCode::FAILED_PRECONDITION, "empty");
  ExpectMessage("has no value");
  Publish("", StatusCode::NOT_FOUND, "mpl");
  Publish(R"(, "checkpoint": "x")", StatusCode::INVALID_ARGUMENT);
  Publish("", StatusCode::INVALID_ARGUMENT, "");
  Publish(R"(, "served": "a/b")", StatusCode::INVALID_ARGUMENT);
  Publish(absl::StrCat(R"(, "served": ")", std::string(101, 'a'), "\""), StatusCode::INVALID_ARGUMENT);
  Publish(R"(, "labels": ["12"])", StatusCode::INVALID_ARGUMENT);
  Publish(R"(, "call": {"expected_version": "99"})", StatusCode::ABORTED);
  for (const char* options :
       {R"("max_batch_size": -1)", R"("max_batch_size": 100000)", R"("instances": 65)",
        R"("preferred_batch_sizes": [9], "max_batch_size": 8)", R"("priority_levels": -1)",
        R"("default_priority": 2, "priority_levels": 1)", R"("max_queue_delay_us": "-1")",
        R"("max_queue_delay_us": "18446744073709551615")", R"("max_queue_size": -3)", R"("default_timeout_us": "9999999999999")"}) {
    v1::PublishModelRequest request;
    if (!google::protobuf::util::JsonStringToMessage(absl::StrCat(R"({"model": "mlp", "options": {)", options, "}}"), &request)
             .ok())
      continue;
    Call(serving_, &Serving::PublishModel, request, StatusCode::INVALID_ARGUMENT);
    ExpectMessage("want");
  }
  Publish(R"(, "options": {"batch_invariant": true})", StatusCode::INVALID_ARGUMENT);
  Publish(R"(, "options": {"device": "gpu:7"})", StatusCode::NOT_FOUND);
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "sum", "graph": {"nodes": [{"name": "s", "op": "sum",
      "inputs": ["data"]}], "outputs": ["s"]}, "variables": [{"name": "data", "kind": "INPUT", "shape": [2, 3]}]})");
  Publish(R"(, "options": {"max_batch_size": 8})", StatusCode::INVALID_ARGUMENT, "sum");
  ExpectMessage("first axis of the input 'data'");
  EXPECT_TRUE(Listed().empty());
  EXPECT_EQ(Publish("", StatusCode::OK, "sum").version(), 1);
}

TEST_F(ServingServiceTest, BatchInvariantIsRefusedWhereItDoesNotHold) {
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "doubles", "graph": {"nodes": [{"name": "y",
      "op": "FullyConnected", "inputs": ["data"], "attributes": {"num_hidden": 2, "no_bias": true}}], "outputs": ["y"]},
      "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 3], "dtype": "FLOAT64"},
                    {"name": "y_weight", "kind": "PARAMETER", "dtype": "FLOAT64"}]})");
  Call(models_, &v1::ModelService::Stub::InitializeParameters, R"({"model": "doubles", "initializer": {"name": "xavier"}})");
  const std::string options = R"(, "options": {"max_batch_size": 8, "batch_invariant": true})";
  Publish(options, StatusCode::FAILED_PRECONDITION, "doubles");
  ExpectMessage("options.batch_invariant");
  ExpectMessage(PublishesInvariant() == StatusCode::OK ? "the model computes in float64" : "has no AVX-512");
  EXPECT_TRUE(Listed().empty());
  Publish(options, PublishesInvariant());
  EXPECT_EQ(Publish(R"(, "options": {"max_batch_size": 8})", StatusCode::OK, "doubles").version(), 1);
}

TEST_F(ServingServiceTest, ARestartServesThemAgain) {
  Publish(R"(, "labels": ["stable"], "options": {"max_batch_size": 8, "max_queue_delay_us": "100",
             "preferred_batch_sizes": [4], "priority_levels": 2, "instances": 2, "delay_late_requests": true})");
  Train(2);
  Publish();
  Publish();
  Call(serving_, &Serving::RetireVersion, R"({"served": "mlp", "version": 3})");
  Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "weights": {"2": 1}})");
  const std::vector<float> first = Floats(Ask(Rows(3, "1"))), second = Floats(Ask(Rows(3)));
  const auto before = Call(serving_, &Serving::ListVersions, "{}");
  Restart();
  auto after = Call(serving_, &Serving::ListVersions, "{}");
  ASSERT_EQ(after.versions_size(), 2);
  for (int i = 0; i < 2; ++i) {
    after.mutable_versions(i)->set_tensor_bytes(before.versions(i).tensor_bytes());  // Scratch memory comes and goes.
    after.mutable_versions(i)->set_requests(before.versions(i).requests());
    *after.mutable_versions(i)->mutable_time() = before.versions(i).time();
    EXPECT_EQ(after.versions(i).ShortDebugString(), before.versions(i).ShortDebugString());
  }
  EXPECT_EQ(Floats(Ask(Rows(3, "stable"))), first);
  EXPECT_EQ(Floats(Ask(Rows(3))), second);
  EXPECT_EQ(Publish().version(), 4) << "a number is never used again";
}

TEST_F(ServingServiceTest, ADamagedVersionLeavesTheOthers) {
  Publish();
  Publish(R"(, "labels": ["stable"])");
  DropStubs();
  StopServer();
  std::ofstream(store_ + "/.versions/mlp.1/v1/parameters.safetensors", std::ios::app) << "x";
  log_.Take();
  StartServer({});
  MakeStubs();
  std::string logged;
  for (const std::string& line : log_.Take()) logged += line;
  EXPECT_THAT(logged, HasSubstr("'mlp' is not served as it was: version 1"));
  Ask(Rows(1, "1"), StatusCode::UNAVAILABLE);
  EXPECT_EQ(Ask(Rows(1)).model_version(), "2");
  DefineAgain();
  EXPECT_EQ(Publish().version(), 3);
}

TEST_F(ServingServiceTest, AParameterThatNoOutputReadsNeedsNoValue) {
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "part", "graph": {"nodes": [
      {"name": "y", "op": "identity", "inputs": ["x"]}, {"name": "dead", "op": "dot", "inputs": ["x", "w"]}],
      "outputs": ["y"]}, "variables": [{"name": "x", "kind": "INPUT", "shape": [-1, 4]},
      {"name": "w", "kind": "PARAMETER", "shape": [4, 2]}]})");
  Publish("", StatusCode::OK, "part");
  inference::ModelInferRequest request = Rows(2, "", "", "part");
  request.mutable_inputs(0)->set_name("x");
  EXPECT_EQ(Ask(request).outputs(0).shape(0), 2);
  Restart();
  EXPECT_EQ(Ask(request).outputs(0).shape(0), 2);
}

TEST_F(ServingServiceTest, ACheckpointIsPublishedToo) {
  Call(models_, &v1::ModelService::Stub::SaveCheckpoint, R"({"model": "mlp", "checkpoint": "epoch-3"})");
  const std::vector<float> then = Floats(Ask(Rows(2, absl::StrCat(Publish().version()))));
  Train(3);
  const auto version = Call(serving_, &Serving::PublishModel, R"({"checkpoint": "epoch-3", "served": "mlp"})").version();
  EXPECT_EQ(version.version(), 2);
  EXPECT_EQ(version.source(), "epoch-3");
  EXPECT_EQ(Floats(Ask(Rows(2))), then);
  Call(serving_, &Serving::PublishModel, R"({"checkpoint": "none"})", StatusCode::NOT_FOUND);
}

TEST_F(ServingServiceTest, LimitsHold) {
  Limits limits;
  limits.max_served_versions = 2;
  Restart(limits);
  Publish();
  Publish();
  Publish("", StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("--max_served_versions");
  Call(serving_, &Serving::RetireVersion, R"({"served": "mlp", "version": 1})");
  EXPECT_EQ(Publish().version(), 3);
  EXPECT_EQ(Call(serving_, &Serving::ListVersions, R"({"page_size": 1})").versions_size(), 1);
}

TEST_F(ServingServiceTest, InstancesShareTheValuesWhichAreChargedOnce) {
  constexpr int64_t kValues = 4 * (4 * 100'000 + 100'000);
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "wide", "block": {"block": "Dense", "attributes":
      {"units": 100000}}, "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}]})");
  Call(models_, &v1::ModelService::Stub::InitializeParameters, R"({"model": "wide"})");
  const int64_t one = Publish("", StatusCode::OK, "wide").tensor_bytes();
  EXPECT_GE(one, kValues);
  EXPECT_LT(one, 2 * kValues) << "there are no gradients, and no copies of values";
  const int64_t four = Publish(R"(, "options": {"instances": 4})", StatusCode::OK, "wide").tensor_bytes();
  EXPECT_LT(four, one + kValues);
  EXPECT_EQ(Floats(Ask(Rows(1, "1", "", "wide"))), Floats(Ask(Rows(1, "2", "", "wide"))));
}

TEST_F(ServingServiceTest, FiltersAreKeptAsTheKernelWantsThemForAllInstances) {
  constexpr int64_t kFilters = 4 * 256 * 256 * 3 * 3;
  Call(models_, &v1::ModelService::Stub::DefineModel, R"json({"model": "filters", "block": {"block": "Conv2D", "attributes":
      {"channels": 256, "kernel_size": "(3, 3)"}}, "variables": [{"name": "data", "kind": "INPUT",
      "shape": [-1, 256, 4, 4]}]})json");
  Call(models_, &v1::ModelService::Stub::InitializeParameters, R"({"model": "filters"})");
  const int64_t bytes = Publish(R"(, "options": {"instances": 3, "max_batch_size": 8})", StatusCode::OK, "filters").tensor_bytes();
  EXPECT_GE(bytes, 2 * kFilters);
  EXPECT_LT(bytes, 3 * kFilters) << "one image and eight have the same layout";
  for (const int64_t rows : {1, 2, 8}) {
    inference::ModelInferRequest request = Rows(rows, "", "", "filters");
    inference::ModelInferRequest::InferInputTensor& input = *request.mutable_inputs(0);
    for (const int64_t axis : {256, 4, 4}) input.add_shape(axis);
    input.mutable_shape()->erase(input.shape().begin() + 1);
    v1::PredictRequest predict;
    predict.set_model("filters");
    v1::Tensor& data = (*predict.mutable_inputs())["data"];
    for (const int64_t axis : input.shape()) data.add_shape(axis);
    for (int64_t i = 0; i < rows * 256 * 4 * 4; ++i) data.add_float_data(static_cast<float>(i % 13) - 6);
    *input.mutable_contents()->mutable_fp32_contents() = data.float_data();
    const auto response = Call(models_, &v1::ModelService::Stub::Predict, predict);
    const auto& want = response.outputs().begin()->second.float_data();
    for (int again = 0; again < 4; ++again) {
      EXPECT_THAT(Floats(Ask(request)), testing::Pointwise(testing::FloatNear(1e-3f), want)) << rows << " rows";
    }
  }
}

TEST_F(ServingServiceTest, RequestsAreWorkOfLanesOfTheirOwn) {
  Publish();
  const auto taken = [&](const std::string& name) {
    int64_t found = -1;
    for (const Dispatch::Queue& queue : server_->queues())
      if (queue.name == name) found = queue.load.taken;
    return found;
  };
  const int64_t trained = taken("cpu"), served = taken("serving");
  Ask(Rows(1));
  EXPECT_EQ(taken("cpu"), trained);
  EXPECT_GT(taken("serving"), served);
  Train(1);
  EXPECT_GT(taken("cpu"), trained);
}

TEST_F(ServingServiceTest, BothHaveAShareOfTheThreads) {
  EXPECT_TRUE(Devices::Open("cpu", 2, {}, 99).ok());
  for (const int share : {0, 100, -1}) {
    ServerOptions options;
    options.serve_share = share;
    const absl::Status status = Server::Check(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--serve_share"));
  }
}

TEST_F(ServingServiceTest, ARepeatedCallPublishesOnce) {
  const std::string more = R"(, "call": {"client_id": "ann", "sequence": "1"})";
  EXPECT_EQ(Publish(more).version(), 1);
  EXPECT_EQ(Publish(more).version(), 1);
  EXPECT_EQ(Listed(), std::vector<int64_t>{1});
}

}  // namespace
}  // namespace gluond::server
