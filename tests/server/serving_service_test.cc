// PublishModel and the routes to versions: what is published stays as it was, and comes back after a restart.

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "server/serving/stored_versions.h"
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

TEST_F(ServingServiceTest, RequestsGetTheVersionThatTheRoutesSay) {
  for (int i = 0; i < 3; ++i) {
    Train(1);
    Publish();
  }
  EXPECT_EQ(Ask(Rows(1)).model_version(), "3") << "the newest";
  Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "labels": {"stable": 1, "canary": 3}})");
  EXPECT_EQ(Ask(Rows(1)).model_version(), "1");
  EXPECT_EQ(Ask(Rows(1, "canary")).model_version(), "3");
  EXPECT_EQ(Ask(Rows(1, "2")).model_version(), "2");
  Ask(Rows(1, "4"), StatusCode::NOT_FOUND);
  ExpectMessage("there are 1, 2, 3, canary, stable");
  for (const char* odd : {" 1", "+1", "01", "1.0"}) Ask(Rows(1, odd), StatusCode::NOT_FOUND);
  Ask(Rows(1, "", "", "other"), StatusCode::NOT_FOUND);
  ExpectMessage("no model is served as 'other' (PublishModel");
  const auto routed = Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "weights": {"1": 3, "2": 1}})");
  EXPECT_EQ(routed.versions(0).weight(), 3u);
  EXPECT_THAT(routed.versions(0).labels(), ElementsAre("stable"));
  int of_first = 0;
  std::string chosen;
  for (int i = 0; i < 200; ++i) {
    const std::string id = absl::StrCat("request ", i);
    const std::string version = Ask(Rows(1, "", id)).model_version();
    EXPECT_EQ(Ask(Rows(1, "", id)).model_version(), version) << "an id keeps its version";
    chosen += version;
    of_first += version == "1";
    EXPECT_TRUE(version == "1" || version == "2");
  }
  EXPECT_GT(of_first, 120);
  EXPECT_LT(of_first, 180);
  EXPECT_EQ(chosen.substr(0, 24), "111111111112121112112112") << "the same in each process";
  EXPECT_EQ(Ask(Rows(1, "stable", "request 7")).model_version(), "1") << "a label is a label";
  Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "clear_weights": true, "labels": {"stable": 0}})");
  EXPECT_EQ(Ask(Rows(1)).model_version(), "3");
}

TEST_F(ServingServiceTest, RoutesChangeWholeOrNotAtAll) {
  Publish(R"(, "labels": ["stable"])");
  for (const auto& [json, says] :
       std::vector<std::pair<std::string, std::string>>{{R"("labels": {"canary": 1, "x": 7})", "no version '7'"},
                                                        {R"("labels": {"7": 1})", "is a number"},
                                                        {R"("labels": {"a/b": 1})", "a/b"},
                                                        {R"("labels": {"canary": 1}, "weights": {"1": 0})", "sum is 0"},
                                                        {R"("weights": {"1": 1, "2": 1})", "no version '2'"}}) {
    grpc::ClientContext context;
    v1::RouteVersionsResponse response;
    const grpc::Status status = serving_->RouteVersions(
        &context, Json<v1::RouteVersionsRequest>(absl::StrCat(R"({"served": "mlp", )", json, "}")), &response);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.error_message(), HasSubstr(says));
    Ask(Rows(1, "canary"), StatusCode::NOT_FOUND);
    EXPECT_EQ(Ask(Rows(1)).model_version(), "1");
  }
  Call(serving_, &Serving::RouteVersions, R"({"served": "none", "labels": {"x": 1}})", StatusCode::NOT_FOUND);
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

TEST_F(ServingServiceTest, AnIndexThatIsLostLosesNoVersionButTheRoutes) {
  Publish(R"(, "labels": ["stable"])");
  Train(1);
  Publish(R"(, "labels": ["canary"])");
  const std::vector<float> first = Floats(Ask(Rows(2, "1"))), second = Floats(Ask(Rows(2, "2")));
  const std::string index = store_ + "/.versions/mlp.index";
  size_t versions = 2;
  for (const auto& lose : std::vector<std::function<void()>>{[&] { std::ofstream(index + "/CURRENT") << "x"; },
                                                             [&] { std::filesystem::remove(index + "/CURRENT"); },
                                                             [&] { std::filesystem::remove_all(index); }}) {
    DropStubs();
    StopServer();
    lose();
    log_.Take();
    StartServer({});
    MakeStubs();
    std::string logged;
    for (const std::string& line : log_.Take()) logged += line;
    EXPECT_THAT(logged, HasSubstr("the index of the versions of 'mlp' was not loaded, and requests that name no version"));
    EXPECT_EQ(Floats(Ask(Rows(2, "1"))), first);
    EXPECT_EQ(Floats(Ask(Rows(2, "2"))), second);
    const auto expect_lost = [&] {
      Ask(Rows(2), StatusCode::UNAVAILABLE);
      ExpectMessage("RouteVersions");
      EXPECT_FALSE(Call(infer_, &Inference_::ModelReady, R"({"name": "mlp"})").ready());
    };
    expect_lost();
    DefineAgain();
    EXPECT_GT(Publish().version(), 3) << "numbers that the index knew are not used again";
    Restart();
    EXPECT_EQ(Listed().size(), ++versions);
    expect_lost();
    Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "labels": {"canary": 2}})");
    expect_lost();
    Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "labels": {"stable": 1}})");
    EXPECT_EQ(Floats(Ask(Rows(2))), first);
    Restart();
    EXPECT_EQ(Floats(Ask(Rows(2))), first);
  }
}

TEST_F(ServingServiceTest, ANameWhoseVersionsAreAllRetiredIsNotOffered) {
  Publish();
  Ask(Rows(1, "", "", "mlpp"), StatusCode::NOT_FOUND);
  ExpectMessage("no model is served as 'mlpp'; did you mean 'mlp'? (PublishModel");
  Call(serving_, &Serving::RetireVersion, R"({"served": "mlp", "version": 1})");
  for (const char* name : {"mlp", "mlpp"}) {
    Ask(Rows(1, "", "", name), StatusCode::NOT_FOUND);
    ExpectMessage(absl::StrCat("no model is served as '", name, "' (PublishModel"));
  }
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

TEST_F(ServingServiceTest, RequestsWithoutAVersionFindOneWhileTheHighestIsRetired) {
  Publish();
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!ends) {
        grpc::ClientContext context;
        inference::ModelInferResponse response;
        const grpc::Status status = infer_->ModelInfer(&context, Rows(1), &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    const int64_t number = Publish().version();
    Call(serving_, &Serving::RetireVersion, absl::StrCat(R"({"served": "mlp", "version": )", number, "}"));
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ServingServiceTest, ARetiringVersionIsGoneForAllButItsRequests) {
  Publish();
  Publish(R"(, "options": {"max_batch_size": 8, "max_queue_delay_us": "600000"})");
  std::thread waits([&] { EXPECT_EQ(Ask(Rows(1, "2")).model_version(), "2"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  std::thread retires([&] {
    grpc::ClientContext context;
    v1::RetireVersionResponse response;
    EXPECT_TRUE(
        serving_->RetireVersion(&context, Json<v1::RetireVersionRequest>(R"({"served": "mlp", "version": 2})"), &response).ok());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  grpc::ClientContext routing, asking, unloading, loading;
  v1::RouteVersionsResponse routed;
  EXPECT_EQ(serving_->RouteVersions(&routing, Json<v1::RouteVersionsRequest>(R"({"served": "mlp", "labels": {"x": 2}})"), &routed)
                .error_code(),
            StatusCode::NOT_FOUND);
  inference::ModelInferResponse response;
  EXPECT_EQ(infer_->ModelInfer(&asking, Rows(1, "2"), &response).error_code(), StatusCode::NOT_FOUND);
  inference::RepositoryModelUnloadResponse unloaded;
  inference::RepositoryModelLoadResponse loaded;
  EXPECT_TRUE(
      infer_
          ->RepositoryModelUnload(&unloading, Json<inference::RepositoryModelUnloadRequest>(R"({"model_name": "mlp"})"), &unloaded)
          .ok());
  EXPECT_TRUE(
      infer_->RepositoryModelLoad(&loading, Json<inference::RepositoryModelLoadRequest>(R"({"model_name": "mlp"})"), &loaded).ok());
  waits.join();
  retires.join();
  EXPECT_EQ(Listed(), std::vector<int64_t>{1});
  EXPECT_EQ(Ask(Rows(1)).model_version(), "1");
  Restart();
  EXPECT_EQ(Listed(), std::vector<int64_t>{1});
}

TEST_F(ServingServiceTest, ARoutedVersionIsNotRetired) {
  Publish(R"(, "labels": ["stable"])");
  Publish();
  Call(serving_, &Serving::RetireVersion, R"({"served": "mlp", "version": 1})", StatusCode::FAILED_PRECONDITION);
  ExpectMessage("label 'stable'");
  Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "labels": {"stable": 2}, "weights": {"1": 1}})");
  Call(serving_, &Serving::RetireVersion, R"({"served": "mlp", "version": 1})", StatusCode::FAILED_PRECONDITION);
  ExpectMessage("weight");
  Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "clear_weights": true})");
  Call(serving_, &Serving::RetireVersion, R"({"served": "mlp", "version": 1})");
  Call(serving_, &Serving::RetireVersion, R"({"served": "mlp", "version": 1})", StatusCode::NOT_FOUND);
  EXPECT_EQ(Listed(), std::vector<int64_t>{2});
  EXPECT_EQ(Listed(R"({"served": "other"})"), std::vector<int64_t>{});
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

TEST_F(ServingServiceTest, RetiredNamesTakeNoRoomAndTheirNumbersAreNotUsedAgain) {
  Limits limits;
  limits.max_served_versions = 1;
  Restart(limits);
  const auto publish = [&](const std::string& name) {
    const int64_t number = Publish(absl::StrCat(R"(, "served": ")", name, "\"")).version();
    Call(serving_, &Serving::RetireVersion, absl::StrCat(R"({"served": ")", name, R"(", "version": )", number, "}"));
    return number;
  };
  const auto stored = [&] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(store_ + "/.versions")) {
      const std::string name = entry.path().filename();
      if (name[0] != '.') found.push_back(name);
    }
    return found;
  };
  for (int i = 0; i < 8; ++i) EXPECT_EQ(publish(absl::StrCat("run-", i)), 1);
  EXPECT_EQ(publish("run-3"), 2);
  EXPECT_THAT(stored(), ElementsAre("names.retired"));
  Restart(limits);
  EXPECT_EQ(publish("run-3"), 3);
  EXPECT_EQ(publish("run-8"), 1);
  // An index without versions is left by a server that ended in the midst of it, and by an earlier release.
  DropStubs();
  StopServer();
  const auto store = *CheckpointStore::Open(LocalFileSystem(), store_);
  VersionIndex index;
  index.next = 4;
  EXPECT_EQ(StoredVersions(store->OpenApart(".versions")).SaveIndex("run-9", index), absl::OkStatus());
  StartServer(limits);
  MakeStubs();
  DefineAgain();
  EXPECT_THAT(stored(), ElementsAre("names.retired"));
  EXPECT_EQ(publish("run-9"), 4);
  // Numbers that nobody knows any more are kept away from.
  DropStubs();
  StopServer();
  std::ofstream(store_ + "/.versions/names.retired/CURRENT") << "x";
  log_.Take();
  StartServer(limits);
  MakeStubs();
  DefineAgain();
  EXPECT_THAT(log_.Take(), testing::Contains(HasSubstr("the last numbers of retired names are lost")));
  EXPECT_EQ(publish("run-3"), 1000);
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

TEST_F(ServingServiceTest, PublishingAndRetiringInALoopOfRequestsLosesNone) {
  Publish(R"(, "labels": ["stable"], "options": {"max_batch_size": 4})");
  std::atomic<bool> ends = false;
  std::atomic<int> answers = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      while (!ends) {
        grpc::ClientContext context;
        inference::ModelInferResponse response;
        const grpc::Status status = infer_->ModelInfer(&context, Rows(1 + i % 3), &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        ++answers;
      }
    });
  }
  std::set<int64_t> seen;
  for (int i = 0; i < 10; ++i) {
    Train(1);
    const int64_t number = Publish(R"(, "labels": ["stable"], "options": {"max_batch_size": 4})").version();
    EXPECT_TRUE(seen.insert(number).second);
    Call(serving_, &Serving::RetireVersion, absl::StrCat(R"({"served": "mlp", "version": )", number - 1, "}"));
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(answers, 20);
  EXPECT_EQ(Listed(), std::vector<int64_t>{11});
}

}  // namespace
}  // namespace gluond::server
