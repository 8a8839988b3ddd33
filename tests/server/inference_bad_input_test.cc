// Hostile requests to what is served: every field of every request of the two services with values that hurt others. Each is
// answered with a code that a client's mistake has; afterwards the server answers a good request as before, and has the
// memory that it had.

#include <thread>

#include "grpcpp/generic/generic_stub.h"
#include "tests/server/hostile_messages.h"
#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

using inference::ModelInferRequest;

constexpr char kInference[] = "/inference.GRPCInferenceService/", kServing[] = "/gluond.v1.ServingService/";

class InferenceBadInputTest : public ServingTest {
 protected:
  void SetUp() override {
    ServingTest::SetUp();
    generic_ = std::make_unique<grpc::GenericStub>(channel_);
    before_ = TensorBytes();
    Publish(kOptions);
    good_ = Floats(Ask(Rows(2)));
  }
  void TearDown() override {
    generic_.reset();
    ServingTest::TearDown();
  }
  void Configure(ServerOptions* options) override { options->shared_memory = true; }

  static constexpr char kOptions[] = R"(, "labels": ["stable"], "options": {"max_batch_size": 8, "priority_levels": 3,
      "allow_timeout_override": true})";

  grpc::Status Send(const std::string& path, const Message& request) {
    const grpc::Slice slice(request.SerializePartialAsString());
    const grpc::ByteBuffer buffer(&slice, 1);
    grpc::ByteBuffer reply;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    grpc::CompletionQueue queue;
    const auto call = generic_->PrepareUnaryCall(&context, path, buffer, &queue);
    grpc::Status status;
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status;
  }

  static bool IsClients(StatusCode code) {
    return code == StatusCode::OK || code == StatusCode::INVALID_ARGUMENT || code == StatusCode::NOT_FOUND ||
           code == StatusCode::ALREADY_EXISTS || code == StatusCode::FAILED_PRECONDITION ||
           code == StatusCode::RESOURCE_EXHAUSTED || code == StatusCode::UNIMPLEMENTED || code == StatusCode::ABORTED ||
           code == StatusCode::UNAVAILABLE;  // A timeout of a microsecond.
  }

  // Ends all versions of a name but the first of "mlp".
  void RetireWhatWasPublished() {
    const v1::ListVersionsResponse list = Call(serving_, &Serving::ListVersions, "{}");
    for (const v1::ServedVersion& version : list.versions()) {
      if (version.served() == "mlp" && version.version() == 1) continue;
      v1::RouteVersionsRequest routes;
      routes.set_served(version.served());
      routes.set_clear_weights(true);
      for (const std::string& label : version.labels()) (*routes.mutable_labels())[label] = version.served() == "mlp" ? 1 : 0;
      Call(serving_, &Serving::RouteVersions, routes);
      v1::RetireVersionRequest retire;
      retire.set_served(version.served());
      retire.set_version(version.version());
      Call(serving_, &Serving::RetireVersion, retire);
    }
  }

  // The label, the weights and the version that requests without one get, as they were.
  void ExpectServed(const std::string& after) {
    RetireWhatWasPublished();
    Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "labels": {"stable": "1"}, "clear_weights": true})");
    const std::vector<float> answer = Floats(Ask(Rows(2)));
    ASSERT_EQ(answer.size(), good_.size()) << after;
    for (size_t i = 0; i < answer.size(); ++i) EXPECT_NEAR(answer[i], good_[i], 1e-5) << after;
  }

  // Each hostile form of `good`; the number of them.
  int Attack(const std::string& path, Message* good) {
    int cases = 0;
    HostileMessages([&](const std::string& change) {
      SCOPED_TRACE(absl::StrCat(path, " ", change));
      const grpc::Status status = Send(path, *good);
      EXPECT_TRUE(IsClients(status.error_code())) << status.error_code() << " " << status.error_message();
      EXPECT_EQ(status.error_message().empty(), status.ok());
      EXPECT_LT(status.error_message().size(), 4096u) << "an error repeats little of the request";
      ++cases;
    }).Of(good);
    ExpectServed(path);
    return cases;
  }
  template <class Request>
  int Attack(const std::string& path, const std::string& json) {
    Request request = Json<Request>(json);
    return Attack(path, &request);
  }

  int64_t TensorBytes() {
    int64_t bytes = 0;
    const v1::GetServerInfoResponse info = Call(info_, &v1::ServerService::Stub::GetServerInfo, "{}");
    for (const auto& device : info.devices()) bytes += device.tensor_bytes();
    return bytes;
  }

  // Without the version, and the plans that it keeps for shapes that it has seen, the server has what it had before it. A
  // version lets go of its tensors a moment after the answer.
  void ExpectNothingLeft() {
    Call(infer_, &Inference_::RepositoryModelUnload, R"({"model_name": "mlp"})");
    for (int i = 0; i < 1000 && TensorBytes() != before_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(TensorBytes(), before_);
  }

  std::unique_ptr<grpc::GenericStub> generic_;
  std::vector<float> good_;
  int64_t before_ = 0;
};

TEST_F(InferenceBadInputTest, EachFieldOfAnInference) {
  ModelInferRequest typed = Rows(2, "stable", "id");
  auto& parameters = *typed.mutable_parameters();
  parameters["priority"].set_uint64_param(1);
  parameters["timeout"].set_int64_param(1'000'000);
  typed.add_outputs()->set_name(Ask(Rows(1)).outputs(0).name());
  (*typed.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(2);
  EXPECT_GT(Attack(absl::StrCat(kInference, "ModelInfer"), &typed), 400);

  ModelInferRequest raw = Rows(2);
  raw.mutable_inputs(0)->clear_contents();
  raw.add_raw_input_contents(std::string(32, '\0'));
  (*raw.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("a");
  (*raw.mutable_inputs(0)->mutable_parameters())["shared_memory_byte_size"].set_int64_param(32);
  EXPECT_GT(Attack(absl::StrCat(kInference, "ModelInfer"), &raw), 400);
  ExpectNothingLeft();
}

TEST_F(InferenceBadInputTest, EachFieldOfAnInferenceOnAStream) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  const auto stream = infer_->ModelStreamInfer(&context);
  ModelInferRequest hostile = Rows(2, "1", "hostile");
  (*hostile.mutable_parameters())["priority"].set_uint64_param(1);
  const ModelInferRequest good = Rows(2, "1", "good");
  int cases = 0, refused = 0;
  HostileMessages([&](const std::string& change) {
    SCOPED_TRACE(change);
    ++cases;
    inference::ModelStreamInferResponse first, second;
    ASSERT_TRUE(stream->Write(hostile));
    ASSERT_TRUE(stream->Write(good));
    ASSERT_TRUE(stream->Read(&first));
    ASSERT_TRUE(stream->Read(&second));
    refused += !first.error_message().empty();
    EXPECT_LE(first.ByteSizeLong(), 32u << 10);
    EXPECT_EQ(second.error_message(), "");
    EXPECT_EQ(second.infer_response().id(), "good") << "answers come in the order of requests";
    EXPECT_EQ(Floats(second.infer_response()).size(), good_.size());
  }).Of(&hostile);
  stream->WritesDone();
  inference::ModelStreamInferResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::OK);
  EXPECT_GT(cases, 300);
  EXPECT_GT(refused, cases / 4);
  ExpectNothingLeft();
}

TEST_F(InferenceBadInputTest, EachFieldOfOtherRequestsAboutModels) {
  const auto path = [](const char* method) { return absl::StrCat(kInference, method); };
  const std::string name = R"({"name": "mlp", "version": "1"})";
  int cases = Attack<inference::ModelReadyRequest>(path("ModelReady"), name);
  cases += Attack<inference::ModelMetadataRequest>(path("ModelMetadata"), name);
  cases += Attack<inference::ModelConfigRequest>(path("ModelConfig"), name);
  cases += Attack<inference::ModelStatisticsRequest>(path("ModelStatistics"), name);
  cases += Attack<inference::RepositoryIndexRequest>(path("RepositoryIndex"), "{}");
  cases += Attack<inference::RepositoryModelLoadRequest>(path("RepositoryModelLoad"), R"({"model_name": "mlp"})");
  cases += Attack<inference::RepositoryModelUnloadRequest>(path("RepositoryModelUnload"), R"({"model_name": "none"})");
  const std::string region = R"({"name": "a", "key": "/gluond-none", "byte_size": "64"})";
  cases += Attack<inference::SystemSharedMemoryRegisterRequest>(path("SystemSharedMemoryRegister"), region);
  cases += Attack<inference::SystemSharedMemoryStatusRequest>(path("SystemSharedMemoryStatus"), R"({"name": "a"})");
  cases += Attack<inference::SystemSharedMemoryUnregisterRequest>(path("SystemSharedMemoryUnregister"), R"({"name": "a"})");
  cases += Attack<inference::CudaSharedMemoryRegisterRequest>(path("CudaSharedMemoryRegister"), R"({"name": "a"})");
  cases += Attack<inference::TraceSettingRequest>(path("TraceSetting"), R"({"model_name": "mlp"})");
  cases += Attack<inference::LogSettingsRequest>(path("LogSettings"), "{}");
  EXPECT_GT(cases, 300);
}

TEST_F(InferenceBadInputTest, EachFieldOfWhatPublishes) {
  const auto path = [](const char* method) { return absl::StrCat(kServing, method); };
  int cases = Attack<v1::ListVersionsRequest>(path("ListVersions"), R"({"served": "mlp", "page_size": 1})");
  cases += Attack<v1::RouteVersionsRequest>(path("RouteVersions"),
                                            R"({"served": "mlp", "labels": {"stable": "1"}, "weights": {"1": 1}})");
  cases += Attack<v1::RetireVersionRequest>(path("RetireVersion"), R"({"served": "none", "version": "1"})");
  cases += Attack<v1::ReloadServingRequest>(path("ReloadServing"), "{}");
  cases += Attack<v1::ReadVersionRequest>(path("ReadVersion"), R"({"served": "mlp", "version": "1", "file": "graph.json"})");
  EXPECT_GT(cases, 60);
  v1::PublishModelRequest publish = Json<v1::PublishModelRequest>(
      R"({"model": "mlp", "served": "other", "labels": ["canary"], "options": {"max_batch_size": 4, "instances": 1}})");
  EXPECT_GT(Attack(path("PublishModel"), &publish), 150);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace gluond::server
