// Two changers of one thing, each of whom says what he has seen: the second one learns that it is another by now, and changes
// nothing. Nobody comes between the look at a thing and its removal.

#include <future>

#include "gluond/v1/serving.grpc.pb.h"
#include "tests/server/custom_host_fixture.h"

namespace gluond::server {
namespace {

using grpc::StatusCode;
using Models = v1::ModelService::Stub;
using Serving = v1::ServingService::Stub;
using Training = v1::TrainingService::Stub;

class EtagTest : public CustomTest {
 protected:
  template <class Request, class Response>
  Response Serve(grpc::Status (Serving::*method)(grpc::ClientContext*, const Request&, Response*), const std::string& json,
                 StatusCode expected = StatusCode::OK) {
    return Call(v1::ServingService::NewStub(channel_), method, json, expected);
  }
  void ExpectChanged() { EXPECT_EQ(ReasonOf(status_), "VERSION_CHANGED") << status_.error_message(); }
  std::string VersionsEtag() { return Serve(&Serving::ListVersions, R"({"served": "mlp"})").versions(0).etag(); }
};

TEST_F(EtagTest, RoutesThatAnotherHasChangedStayAsHeWantsThem) {
  DefineMlp("mlp");
  for (int i = 0; i < 2; ++i) Serve(&Serving::PublishModel, R"({"model": "mlp"})");
  const std::string seen = VersionsEtag();
  const auto route = [&](const char* change, StatusCode expected) {
    return Serve(&Serving::RouteVersions, absl::StrCat(R"({"served": "mlp", "expected_etag": ")", seen, R"(", )", change, "}"),
                 expected);
  };
  const auto routed = route(R"("weights": {"1": 9, "2": 1})", StatusCode::OK);
  EXPECT_NE(routed.versions(0).etag(), seen);
  route(R"("weights": {"1": 1, "2": 1})", StatusCode::ABORTED);
  ExpectChanged();
  EXPECT_EQ(Serve(&Serving::ListVersions, "{}").versions(0).weight(), 9u);
  const std::string now = VersionsEtag();
  EXPECT_EQ(now, routed.versions(0).etag());
  StartServer({});
  EXPECT_EQ(VersionsEtag(), now) << "a restart changes nothing";
  DefineMlp("mlp");
  Serve(&Serving::PublishModel, R"({"model": "mlp"})");
  EXPECT_NE(VersionsEtag(), now);
}

TEST_F(EtagTest, AVersionIsRetiredAsItWasSeen) {
  DefineMlp("mlp");
  for (int i = 0; i < 2; ++i) Serve(&Serving::PublishModel, R"({"model": "mlp"})");
  const std::string seen = VersionsEtag();
  Serve(&Serving::RouteVersions, R"({"served": "mlp", "weights": {"2": 1}})");
  const auto retire = [&](const std::string& etag, StatusCode expected) {
    Serve(&Serving::RetireVersion, R"({"served": "mlp", "version": "1", "expected_etag": ")" + etag + "\"}", expected);
  };
  retire(seen, StatusCode::ABORTED);
  ExpectChanged();
  retire(VersionsEtag(), StatusCode::OK);
}

TEST_F(EtagTest, ACheckpointThatIsAnotherByNowIsNotDeleted) {
  DefineMlp("mlp");
  const auto save = [this] {
    return Call(models_, &Models::SaveCheckpoint, R"({"model": "mlp", "overwrite": true})").checkpoint().etag();
  };
  const std::string seen = save();
  EXPECT_EQ(Call(models_, &Models::ListCheckpoints, "{}").checkpoints(0).etag(), seen);
  Call(training_, &Training::TrainStep, Batch("mlp", 1));
  const std::string now = save();
  const auto remove = [&](const std::string& etag, StatusCode expected) {
    Call(models_, &Models::DeleteCheckpoint, R"({"checkpoint": "mlp", "expected_etag": ")" + etag + "\"}", expected);
  };
  remove(seen, StatusCode::ABORTED);
  ExpectChanged();
  EXPECT_EQ(Call(models_, &Models::ListCheckpoints, "{}").checkpoints_size(), 1);
  remove(now, StatusCode::OK);
  remove(now, StatusCode::NOT_FOUND);
}

TEST_F(EtagTest, ADatasetThatIsAnotherByNowIsNotDeleted) {
  const auto upload = [this] {
    Call(training_, &Training::UploadDataset, R"({"dataset": "toy", "commit": true, "tensors": {
        "data": {"shape": [2, 1], "float_data": [1, 2]}}})");
    return Call(training_, &Training::ListDatasets, "{}").datasets(0).etag();
  };
  const auto remove = [&](const std::string& etag, StatusCode expected) {
    Call(training_, &Training::DeleteDataset, R"({"dataset": "toy", "expected_etag": ")" + etag + "\"}", expected);
  };
  const std::string seen = upload();
  Call(training_, &Training::DeleteDataset, R"({"dataset": "toy"})");
  const std::string now = upload();
  EXPECT_NE(now, seen);
  remove(seen, StatusCode::ABORTED);
  ExpectChanged();
  EXPECT_EQ(Call(training_, &Training::ListDatasets, "{}").datasets_size(), 1);
  StartServer({});
  remove(now, StatusCode::OK);
}

// A step is under way, and changes the model when it ends, while another call looks at the version that the model still has.
class BusyModelTest : public EtagTest {
 protected:
  // How `call`, which comes while the step is under way, ends.
  template <class Stub, class Request, class Response>
  void ExpectToComeTooLate(const std::unique_ptr<Stub>& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const std::string& rest) {
    SCOPED_TRACE(rest);
    std::promise<void> may_answer;
    const std::shared_future<void> answer = may_answer.get_future().share();
    Provider provider(address(), {"square"}, [&](const v1::Callback& callback) {
      if (callback.has_forward()) answer.wait();
      return RightAnswer(callback);
    });
    DefineTrained("m");
    const uint64_t version = Call(models_, &Models::GetModel, R"({"model": "m"})").model().version();
    const auto step = StartStep("m", 0);
    provider.WaitFor(1, &v1::Callback::has_forward);
    const Request request =
        Json<Request>(absl::StrCat(R"({"model": "m", )", rest, R"("call": {"expected_version": ")", version, "\"}}"));
    Response response;
    grpc::ClientContext context;
    auto late = std::async(std::launch::async, [&] { return (stub.get()->*method)(&context, request, &response); });
    // By then it waits behind the step, or has ended; one that comes later still is refused all the same.
    (void)late.wait_for(std::chrono::milliseconds(500));
    may_answer.set_value();
    EXPECT_TRUE(step->Wait().ok()) << step->status.error_message();
    const grpc::Status status = late.get();
    EXPECT_EQ(status.error_code(), StatusCode::ABORTED) << status.error_message();
    EXPECT_EQ(ReasonOf(status), "VERSION_CHANGED");
    EXPECT_EQ(Call(models_, &Models::GetModel, R"({"model": "m"})").model().version(), version + 1);
  }
};

TEST_F(BusyModelTest, IsNotDeletedAtAVersionThatItHasNoMore) { ExpectToComeTooLate(models_, &Models::DeleteModel, ""); }

TEST_F(BusyModelTest, IsNotReplacedAtAVersionThatItHasNoMore) {
  ExpectToComeTooLate(models_, &Models::DefineModel, R"("replace": true, "block": {"block": "Dense", "attributes": {"units": 3}},
      "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}], )");
}

TEST_F(BusyModelTest, IsNotReplacedByACheckpointAtAVersionThatItHasNoMore) {
  DefineMlp("other");
  Call(models_, &Models::SaveCheckpoint, R"({"model": "other"})");
  ExpectToComeTooLate(models_, &Models::LoadCheckpoint, R"("checkpoint": "other", "replace": true, )");
}

// A value is removed, or replaced, if it is the very one that was looked at.
TEST(RegistryTest, RemovesTheVeryValueThatWasLookedAt) {
  Registry<int> registry("thing", 10, "--most", nullptr, &Quotas::models);
  const auto one = std::make_shared<int>(1), two = std::make_shared<int>(2);
  registry.Load("a", one);
  registry.Load("a", two);
  EXPECT_TRUE(absl::IsAborted(registry.Remove("a", one)));
  EXPECT_TRUE(absl::IsAborted(registry.Exchange("a", one, std::make_shared<int>(3))));
  EXPECT_EQ(**registry.Find("a"), 2);
  EXPECT_TRUE(registry.Exchange("a", two, one).ok());
  EXPECT_TRUE(registry.Remove("a", one).ok());
  EXPECT_TRUE(absl::IsNotFound(registry.Remove("a", one)));
}

// Else a starting server would forget whose it is.
TEST(RegistryTest, AValueThatIsBeingLoadedIsThere) {
  Registry<int> registry("thing", 10, "--most", nullptr, &Quotas::models);
  registry.BeginLoading({"a", "b"});
  EXPECT_TRUE(registry.Has("a"));
  EXPECT_TRUE(registry.AddLoaded("a", std::make_shared<int>(1)).ok());
  for (const char* name : {"a", "b"}) registry.EndLoading(name);
  EXPECT_TRUE(registry.Has("a"));
  EXPECT_FALSE(registry.Has("b")) << "it could not be had";
}

}  // namespace
}  // namespace gluond::server
