// RouteVersions and RetireVersion: requests get the version that the routes say, also while versions come and go.

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/serving/stored_versions.h"
#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

class ServingRoutesTest : public ServingTest {};

TEST_F(ServingRoutesTest, RequestsGetTheVersionThatTheRoutesSay) {
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

TEST_F(ServingRoutesTest, RoutesChangeWholeOrNotAtAll) {
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

TEST_F(ServingRoutesTest, AnIndexThatIsLostLosesNoVersionButTheRoutes) {
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

TEST_F(ServingRoutesTest, ANameWhoseVersionsAreAllRetiredIsNotOffered) {
  Publish();
  Ask(Rows(1, "", "", "mlpp"), StatusCode::NOT_FOUND);
  ExpectMessage("no model is served as 'mlpp'; did you mean 'mlp'? (PublishModel");
  Call(serving_, &Serving::RetireVersion, R"({"served": "mlp", "version": 1})");
  for (const char* name : {"mlp", "mlpp"}) {
    Ask(Rows(1, "", "", name), StatusCode::NOT_FOUND);
    ExpectMessage(absl::StrCat("no model is served as '", name, "' (PublishModel"));
  }
}

TEST_F(ServingRoutesTest, RequestsWithoutAVersionFindOneWhileTheHighestIsRetired) {
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

TEST_F(ServingRoutesTest, ARetiringVersionIsGoneForAllButItsRequests) {
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

TEST_F(ServingRoutesTest, ARoutedVersionIsNotRetired) {
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

TEST_F(ServingRoutesTest, RetiredNamesTakeNoRoomAndTheirNumbersAreNotUsedAgain) {
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

TEST_F(ServingRoutesTest, PublishingAndRetiringInALoopOfRequestsLosesNone) {
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
