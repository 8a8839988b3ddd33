// A server that starts loads its store several things at once, and with `ready_when_core` takes calls meanwhile: those about
// what is not there yet are told so, and nothing takes its name.

#include <thread>

#include "proto/health/v1/health.grpc.pb.h"
#include "tests/server/gate_operator.h"
#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

class LoadingTest : public ServingTest {
 protected:
  void Configure(ServerOptions* options) override {
    options->ready_when_core = ready_when_core_;
    options->checkpoint_every = {.steps = 1};
  }
  void TearDown() override {
    Gate::Get().Set(false);
    ServingTest::TearDown();
  }
  // Publishes so many models that compute as soon as the gate is open, and "mlp".
  void PublishGated(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string name = absl::StrCat("gated-", i);
      DefineGated(name);
      Publish("", StatusCode::OK, name);
      Call(models_, &v1::ModelService::Stub::DeleteModel, absl::StrCat(R"({"model": ")", name, "\"}"));
    }
    Publish();
  }
  void DefineGated(const std::string& name) {
    Call(models_, &v1::ModelService::Stub::DefineModel, absl::StrCat(R"({"model": ")", name, R"(", "graph": {"nodes": [
        {"name": "y", "op": "_test_gate", "inputs": ["data"]}]},
        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}]})"));
  }
  // Saves all, and starts another server, in which versions with the gate wait.
  void StartWithClosedGate(bool ready_when_core) {
    server_->Drain(std::chrono::seconds(60));
    DropStubs();
    Gate::Get().Set(true);
    ready_when_core_ = ready_when_core;
    StartServer({});
    MakeStubs();
  }
  grpc::health::v1::HealthCheckResponse::ServingStatus Health(const std::string& service) {
    const auto health = grpc::health::v1::Health::NewStub(channel_);
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    return Call(health, &grpc::health::v1::Health::Stub::Check, request).status();
  }
  template <class Ask>
  void Until(Ask holds) {
    while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  bool ready_when_core_ = false;
};

using HealthResponse = grpc::health::v1::HealthCheckResponse;

TEST_F(LoadingTest, AModelIsReadyBeforeAnotherThatTakesLong) {
  PublishGated(1);
  StartWithClosedGate(/*ready_when_core=*/true);
  EXPECT_EQ(Health(""), HealthResponse::SERVING);
  Until([this] { return Health("model:mlp") == HealthResponse::SERVING; });
  Ask(Rows(1));
  EXPECT_EQ(Health("model:gated-0"), HealthResponse::NOT_SERVING);
  Ask(Rows(1, "", "", "gated-0"), StatusCode::UNAVAILABLE);
  ExpectMessage("is being loaded; try again in a moment");
  EXPECT_EQ(ReasonOf(status_), "LOADING");
  Gate::Get().Set(false);
  Until([this] { return Health("model:gated-0") == HealthResponse::SERVING; });
  Ask(Rows(1, "", "", "gated-0"));
}

// As many as the CPU's two threads are loaded at once: these two hold up the models, which come last.
TEST_F(LoadingTest, CallsOnAModelThatIsBeingLoadedAreToldSo) {
  PublishGated(2);
  Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", 1, "ann", 1));
  StartWithClosedGate(/*ready_when_core=*/true);
  const auto expect_loading = [this] {
    ExpectMessage("the model 'mlp' is being loaded; try again in a moment");
    EXPECT_EQ(ReasonOf(status_), "LOADING");
  };
  Call(models_, &v1::ModelService::Stub::GetModel, R"({"model": "mlp"})", StatusCode::UNAVAILABLE);
  expect_loading();
  Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", 2, "ann", 2), StatusCode::UNAVAILABLE);
  expect_loading();
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "mlp", "replace": true, "block": {"block": "Dense",
      "attributes": {"units": 1}}, "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}]})",
       StatusCode::UNAVAILABLE);
  expect_loading();
  DefineMlp("new");
  Gate::Get().Set(false);
  Until([this] {
    grpc::ClientContext context;
    v1::GetModelResponse response;
    return models_->GetModel(&context, Json<v1::GetModelRequest>(R"({"model": "mlp"})"), &response).ok();
  });
  Until([this] {  // The numbers come with the model.
    grpc::ClientContext context;
    v1::TrainStepResponse response;
    status_ = training_->TrainStep(&context, Batch("mlp", 2, "ann", 2), &response);
    return status_.error_code() != StatusCode::UNAVAILABLE;
  });
  EXPECT_TRUE(status_.ok()) << status_.error_message();
}

TEST_F(LoadingTest, AServerThatEndsMeanwhileLosesNothing) {
  PublishGated(2);
  StartWithClosedGate(/*ready_when_core=*/true);
  std::thread opens([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Gate::Get().Set(false);
  });
  server_->Drain(std::chrono::seconds(60));
  opens.join();
  DropStubs();
  ready_when_core_ = false;
  StartServer({});
  MakeStubs();
  EXPECT_EQ(Listed(), (std::vector<int64_t>{1, 1, 1}));
  Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", 1));
}

}  // namespace
}  // namespace gluond::server
