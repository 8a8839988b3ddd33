// CallOptions.expected_version: a call on a model that another one has changed changes nothing.

#include "absl/strings/str_cat.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

using Models = v1::ModelService::Stub;
using Training = v1::TrainingService::Stub;
using grpc::StatusCode;

class ExpectedVersionTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    DefineMlp("mlp");
    Call(training_, &Training::TrainStep, Batch("mlp", 1));
    version_ = Version();
  }
  uint64_t Version() { return Call(models_, &Models::GetModel, R"({"model": "mlp"})").model().version(); }
  // A request to "mlp" with `rest`, `ahead` versions from the present one.
  std::string Request(const std::string& rest, int ahead) {
    return absl::StrCat(R"({"model": "mlp", )", rest, R"("call": {"expected_version": ")", version_ + ahead, R"("}})");
  }
  void ExpectRefusal() {
    EXPECT_EQ(ReasonOf(status_), "VERSION_CHANGED");
    ExpectMessage(absl::StrCat("model 'mlp' has version ", version_, " by now, expected ", version_ - 1));
  }
  template <class Stub, class Request_, class Response>
  void ExpectOnlyAtItsVersion(const std::unique_ptr<Stub>& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request_&, Response*),
                              const std::string& rest) {
    SCOPED_TRACE(rest);
    const auto before = Parameters("mlp");
    Call(stub, method, Request(rest, -1), StatusCode::ABORTED);
    ExpectRefusal();
    EXPECT_EQ(Version(), version_);
    EXPECT_EQ(Parameters("mlp"), before);
    Call(stub, method, Request(rest, 0));
    version_ = Version();
  }
  uint64_t version_ = 0;
};

TEST_F(ExpectedVersionTest, EachCallIsRefusedThatComesTooLate) {
  ExpectOnlyAtItsVersion(models_, &Models::InitializeParameters, R"("force_reinit": true, )");
  ExpectOnlyAtItsVersion(models_, &Models::SetParameters, R"("parameters": {"1.bias": {"shape": [3], "float_data": [1, 2, 3]}}, )");
  ExpectOnlyAtItsVersion(training_, &Training::Forward,
                         R"("training": true, "inputs": {"data": {"shape": [2, 4], "fill": {"constant": 1}}}, )");
  ExpectOnlyAtItsVersion(training_, &Training::Backward, "");
  ExpectOnlyAtItsVersion(training_, &Training::Step, R"("batch_size": 2, )");
  ExpectOnlyAtItsVersion(training_, &Training::ZeroGradients, "");
  ExpectOnlyAtItsVersion(training_, &Training::SetLearningRate, R"("learning_rate": 0.5, )");
  ExpectOnlyAtItsVersion(training_, &Training::SetOptimizerState, R"("step": "7", )");
  ExpectOnlyAtItsVersion(training_, &Training::CreateTrainer, R"("loss": {"name": "L2Loss"}, "replace": true, )");
  ExpectOnlyAtItsVersion(models_, &Models::SaveCheckpoint, "");
  ExpectOnlyAtItsVersion(models_, &Models::LoadCheckpoint, R"("checkpoint": "mlp", )");
  ExpectOnlyAtItsVersion(models_, &Models::DefineModel,
                         R"("replace": true, "block": {"block": "Dense", "attributes": {"units": 3}}, )");
}

TEST_F(ExpectedVersionTest, AStepOfAnotherClientComesBetween) {
  auto request = Batch("mlp", 2, "ann", 1);
  request.mutable_call()->set_expected_version(version_);
  Call(training_, &Training::TrainStep, Batch("mlp", 3, "bob", 1));
  Call(training_, &Training::TrainStep, request, StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(status_), "VERSION_CHANGED");
  request.mutable_call()->set_expected_version(version_ + 1);
  EXPECT_EQ(Call(training_, &Training::TrainStep, request).report().step(), 3) << "its number is not used up";
}

TEST_F(ExpectedVersionTest, AModelThatHasChangedIsNotDeleted) {
  Call(models_, &Models::DeleteModel, Request("", -1), StatusCode::ABORTED);
  ExpectRefusal();
  Call(models_, &Models::DeleteModel, Request("", 0));
  Call(models_, &Models::GetModel, R"({"model": "mlp"})", StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace gluond::server
