// Publishing holds no thread while it waits: the disk's threads read and write for others meanwhile, and no client is called.

#include <fstream>
#include <map>
#include <set>

#include "server/hosted/wait_for.h"
#include "server/serving/publisher.h"
#include "tests/server/custom_host_fixture.h"
#include "tests/server/gate_operator.h"
#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

constexpr char kGate[] = R"("op": "_test_gate")";
constexpr char kSquare[] = R"("op": "Custom", "attributes": {"op_type": "square"})";

class PublishingTest : public ServingTest {
 protected:
  void Configure(ServerOptions* options) override { options->address = "127.0.0.1:0"; }
  std::string address() const { return absl::StrCat("127.0.0.1:", server_->port()); }

  void Define(const std::string& model, const std::string& op) {
    Call(models_, &v1::ModelService::Stub::DefineModel,
         absl::StrCat(R"({"model": ")", model, R"(", "seed": "1", "graph": {
        "nodes": [{"name": "fc", "op": "FullyConnected", "inputs": ["data"], "attributes": {"num_hidden": 3}},
                  {"name": "mid", "inputs": ["fc"], )",
                      op, R"(}]},
        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}]})"));
    Call(models_, &v1::ModelService::Stub::InitializeParameters,
         absl::StrCat(R"({"model": ")", model, R"(", "initializer": {"name": "xavier"}})"));
  }
};

TEST_F(PublishingTest, ASaveDoesNotWaitForVersionsThatWarmUp) {
  Define("gated", kGate);
  Gate::Get().TakeGroups();
  Gate::Get().Set(true);
  std::atomic<int> published = 0;
  std::vector<std::thread> publishers;
  for (int i = 0; i < 10; ++i) {
    publishers.emplace_back([this, i, &published] {
      grpc::ClientContext context;
      v1::PublishModelResponse response;
      const auto status = serving_->PublishModel(
          &context, Json<v1::PublishModelRequest>(absl::StrCat(R"({"model": "gated", "served": "gated-)", i, "\"}")), &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      ++published;
    });
  }
  Gate::Get().WaitForOne();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::SaveCheckpointResponse response;
  const grpc::Status saved = models_->SaveCheckpoint(&context, Json<v1::SaveCheckpointRequest>(R"({"model": "mlp"})"), &response);
  EXPECT_TRUE(saved.ok()) << saved.error_message();
  EXPECT_EQ(published, 0) << "the gate is closed";
  Gate::Get().Set(false);
  for (std::thread& publisher : publishers) publisher.join();
  EXPECT_EQ(Listed().size(), 10u);
}

TEST_F(PublishingTest, NoClientIsCalled) {
  Provider provider(address(), {"square"});
  Define("squares", kSquare);
  Publish("", StatusCode::OK, "squares");
  EXPECT_EQ(provider.Count(&v1::Callback::has_forward), 0u);
  Ask(Rows(2, "", "", "squares"));
  EXPECT_EQ(provider.Count(&v1::Callback::has_forward), 1u);
}

TEST_F(PublishingTest, AVersionWithAClientsOperatorIsServedAgainAfterARestart) {
  std::vector<float> before;
  {
    Provider provider(address(), {"square"});
    Define("squares", kSquare);
    Publish("", StatusCode::OK, "squares");
    before = Floats(Ask(Rows(2, "", "", "squares")));
  }
  Restart();
  Ask(Rows(2, "", "", "squares"), StatusCode::UNAVAILABLE);  // Nobody computes the operator yet.
  Provider provider(address(), {"square"});
  EXPECT_EQ(Floats(Ask(Rows(2, "", "", "squares"))), before);
}

// Without services: versions of two tenants' names and of nobody's.
TEST(TenantsVersionsTest, WhatAVersionComputesIsItsTenantsWork) {
  const std::string tenants = testing::TempDir() + "/tenants";
  std::ofstream(tenants) << "acme\nglobex lane_share=8\n";
  const std::unique_ptr<Devices> devices = *Devices::Open("cpu", 1, Limits());
  Runner runner(
      Limits(), [](absl::string_view) {}, devices->memory());
  ASSERT_EQ(runner.tenants.Load(tenants), absl::OkStatus());
  Publisher publisher(runner, *devices, nullptr, [](absl::string_view) {});
  ModelState state;
  state.definition.inputs = {{"x", {1, 2}, DType::kFloat32}};
  state.definition.outputs = {MakeNode("_test_gate", "y", {MakeVariable("x")})};
  state.definition.output_names = {"y"};
  const std::map<std::string, std::string> group_of = {{"acme/m", "acme"}, {"globex/m", "globex"}, {"m", ""}};
  for (const auto& [name, group] : group_of) {
    ASSERT_EQ(WaitFor([&, name = name](auto done) {
                publisher.Publish(name, state, {}, {}, /*cancellation=*/nullptr,
                                  [done](const absl::StatusOr<v1::ServedVersion>& made) { done(made.status()); });
              }),
              absl::OkStatus());
    Gate::Get().TakeGroups();
    const auto request = std::make_shared<InferRequest>();
    request->inputs = {{"x", *Tensor::Empty(*devices->host().allocator, {1, 2}, DType::kFloat32)}};
    std::memset(request->inputs[0].tensor.data(), 0, request->inputs[0].tensor.bytes());
    EXPECT_EQ(WaitFor([&, name = name](auto done) {
                request->done = [done](const absl::StatusOr<NamedTensors>& outputs) { done(outputs.status()); };
                (*publisher.table().Choose(name, "", ""))->Infer(request);
              }),
              absl::OkStatus());
    EXPECT_EQ(Gate::Get().TakeGroups(), std::set<std::string>{group}) << name;
  }
  publisher.Stop();
}

}  // namespace
}  // namespace gluond::server
