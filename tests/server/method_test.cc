// Methods are what their .protos say of them, and a method of which its .proto says too little stops the server's start.

#include "server/rpc/method.h"

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gluond/v1/operator.pb.h"
#include "gluond/v1/options.pb.h"
#include "gluond/v1/server.pb.h"
#include "gluond/v1/serving.pb.h"
#include "gluond/v1/session.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/health/v1/health.pb.h"
#include "proto/inference/grpc_service.pb.h"
#include "proto/reflection/v1/reflection.pb.h"
#include "proto/reflection/v1alpha/reflection.pb.h"
#include "server/rpc/raw_service.h"

namespace gluond::server {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;

// Who may call each method, whether its calls are audited, and where it runs. A change of a row changes who may do what.
const absl::btree_map<std::string, std::string> kMethods = {
    {"/gluond.v1.GroupService/DrainMember", "admin, audited each"},
    {"/gluond.v1.GroupService/GetGroup", "any role"},
    {"/gluond.v1.GroupService/Join", "member, audited many"},
    {"/gluond.v1.ModelService/DefineModel", "train, audited each, heavy, numbered"},
    {"/gluond.v1.ModelService/DeleteCheckpoint", "train, audited each, disk"},
    {"/gluond.v1.ModelService/DeleteModel", "train, audited each, heavy, numbered"},
    {"/gluond.v1.ModelService/DownloadParameter", "train, audited many"},
    {"/gluond.v1.ModelService/Explain", "any role, heavy"},
    {"/gluond.v1.ModelService/GetModel", "any role, heavy"},
    {"/gluond.v1.ModelService/GetParameters", "train, audited many"},
    {"/gluond.v1.ModelService/InitializeParameters", "train, audited each, numbered"},
    {"/gluond.v1.ModelService/ListCheckpoints", "train, disk"},
    {"/gluond.v1.ModelService/ListModels", "any role, heavy"},
    {"/gluond.v1.ModelService/LoadCheckpoint", "train, audited each, disk, numbered"},
    {"/gluond.v1.ModelService/Predict", "infer"},
    {"/gluond.v1.ModelService/SaveCheckpoint", "train, audited each, disk, numbered"},
    {"/gluond.v1.ModelService/SetParameters", "train, audited each, numbered"},
    {"/gluond.v1.ModelService/UploadParameter", "train, audited many, heavy"},
    {"/gluond.v1.OperatorService/CheckGradient", "train, heavy"},
    {"/gluond.v1.OperatorService/DescribeOperator", "any role"},
    {"/gluond.v1.OperatorService/HostOperators", "train, audited many"},
    {"/gluond.v1.OperatorService/Invoke", "train"},
    {"/gluond.v1.OperatorService/ListComponents", "any role"},
    {"/gluond.v1.OperatorService/ListOperators", "any role, heavy"},
    {"/gluond.v1.ServerService/GetServerInfo", "any role, always"},
    {"/gluond.v1.ServingService/FollowVersions", "follow"},
    {"/gluond.v1.ServingService/ListVersions", "any role, heavy"},
    {"/gluond.v1.ServingService/PublishModel", "publish, audited each, numbered"},
    {"/gluond.v1.ServingService/ReadVersion", "follow, audited many, disk"},
    {"/gluond.v1.ServingService/ReloadServing", "admin, audited each"},
    {"/gluond.v1.ServingService/RetireVersion", "publish, audited each"},
    {"/gluond.v1.ServingService/RouteVersions", "publish, audited each"},
    {"/gluond.v1.SessionService/DeleteSavedSession", "train, audited each"},
    {"/gluond.v1.SessionService/ListSavedSessions", "train, heavy"},
    {"/gluond.v1.SessionService/Run", "train, audited many"},
    {"/gluond.v1.TrainingService/Backward", "train, numbered"},
    {"/gluond.v1.TrainingService/CancelTraining", "train, audited each"},
    {"/gluond.v1.TrainingService/CreateTrainer", "train, audited each, heavy, numbered"},
    {"/gluond.v1.TrainingService/DeleteDataset", "train, audited each, heavy"},
    {"/gluond.v1.TrainingService/Evaluate", "train"},
    {"/gluond.v1.TrainingService/Forward", "train, numbered"},
    {"/gluond.v1.TrainingService/GetGradients", "train, audited many"},
    {"/gluond.v1.TrainingService/GetOptimizerState", "train, audited many"},
    {"/gluond.v1.TrainingService/GetSequence", "train"},
    {"/gluond.v1.TrainingService/GetTrainer", "train"},
    {"/gluond.v1.TrainingService/ListDatasets", "train"},
    {"/gluond.v1.TrainingService/SetLearningRate", "train, audited each, numbered"},
    {"/gluond.v1.TrainingService/SetOptimizerState", "train, audited each, numbered"},
    {"/gluond.v1.TrainingService/Step", "train, numbered"},
    {"/gluond.v1.TrainingService/Train", "train, audited each, numbered"},
    {"/gluond.v1.TrainingService/TrainStep", "train, numbered"},
    {"/gluond.v1.TrainingService/UploadDataset", "train, audited each, heavy"},
    {"/gluond.v1.TrainingService/ZeroGradients", "train, numbered"},
    {"/grpc.health.v1.Health/Check", "open, always"},
    {"/grpc.health.v1.Health/List", "any role, heavy"},
    {"/grpc.health.v1.Health/Watch", "open"},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "any role"},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "any role"},
    {"/inference.GRPCInferenceService/CudaSharedMemoryRegister", "admin, audited each"},
    {"/inference.GRPCInferenceService/CudaSharedMemoryStatus", "infer"},
    {"/inference.GRPCInferenceService/CudaSharedMemoryUnregister", "admin, audited each"},
    {"/inference.GRPCInferenceService/LogSettings", "admin, audited each, always"},
    {"/inference.GRPCInferenceService/ModelConfig", "any role"},
    {"/inference.GRPCInferenceService/ModelInfer", "infer"},
    {"/inference.GRPCInferenceService/ModelMetadata", "any role"},
    {"/inference.GRPCInferenceService/ModelReady", "any role"},
    {"/inference.GRPCInferenceService/ModelStatistics", "any role, heavy"},
    {"/inference.GRPCInferenceService/ModelStreamInfer", "infer"},
    {"/inference.GRPCInferenceService/RepositoryIndex", "any role, heavy"},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", "publish, audited each"},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", "publish, audited each"},
    {"/inference.GRPCInferenceService/ServerLive", "open"},
    {"/inference.GRPCInferenceService/ServerMetadata", "any role"},
    {"/inference.GRPCInferenceService/ServerReady", "open"},
    {"/inference.GRPCInferenceService/SystemSharedMemoryRegister", "admin, audited each"},
    {"/inference.GRPCInferenceService/SystemSharedMemoryStatus", "infer"},
    {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister", "admin, audited each"},
    {"/inference.GRPCInferenceService/TraceSetting", "admin, audited each"},
};
constexpr const char* kServices[] = {"gluond.v1.ServerService",
                                     "gluond.v1.GroupService",
                                     "gluond.v1.OperatorService",
                                     "gluond.v1.SessionService",
                                     "gluond.v1.ModelService",
                                     "gluond.v1.TrainingService",
                                     "gluond.v1.ServingService",
                                     "inference.GRPCInferenceService",
                                     "grpc.health.v1.Health",
                                     "grpc.reflection.v1.ServerReflection",
                                     "grpc.reflection.v1alpha.ServerReflection"};

std::string Describe(const Method& method) {
  std::string text(method.access == Access::kOpen ? "open" : NameOf(method.access));
  if (method.audit == Audit::kEach) text += ", audited each";
  if (method.audit == Audit::kMany) text += ", audited many";
  if (method.weight == Weight::kHeavy) text += ", heavy";
  if (method.weight == Weight::kDisk) text += ", disk";
  if (method.weight == Weight::kAlways) text += ", always";
  if (method.numbered) text += ", numbered";
  return text;
}

// A file that nobody refers to is not linked, and its service is not known.
bool AreLinked() {
  for (const auto* message :
       {v1::GetServerInfoRequest::descriptor(), v1::InvokeRequest::descriptor(), v1::PublishModelRequest::descriptor(),
        v1::SessionRequest::descriptor(), inference::ModelInferRequest::descriptor(),
        grpc::health::v1::HealthCheckRequest::descriptor(), grpc::reflection::v1::ServerReflectionRequest::descriptor(),
        grpc::reflection::v1alpha::ServerReflectionRequest::descriptor()}) {
    if (message == nullptr) return false;
  }
  return true;
}

TEST(MethodTest, EachMethodSaysWhoMayCallIt) {
  ASSERT_TRUE(AreLinked());
  absl::btree_map<std::string, std::string> found;
  for (const char* name : kServices) {
    const auto* const service = DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) {
      const absl::StatusOr<Method> method = Method::Of(*service->method(i));
      ASSERT_TRUE(method.ok()) << method.status();
      found[method->path] = Describe(*method);
    }
  }
  EXPECT_EQ(found, kMethods);
}

TEST(MethodTest, WhatTheServerReadsAndWrites) {
  ASSERT_TRUE(AreLinked());
  const auto of = [](const char* name) { return *Method::Of(*DescriptorPool::generated_pool()->FindMethodByName(name)); };
  const Method step = of("gluond.v1.TrainingService.TrainStep");
  EXPECT_EQ(step.call->full_name(), "gluond.v1.TrainStepRequest.call");
  EXPECT_EQ(step.replayed->full_name(), "gluond.v1.TrainStepResponse.replayed");
  EXPECT_EQ(step.durable_sequence->full_name(), "gluond.v1.TrainStepResponse.durable_sequence");
  EXPECT_EQ(step.timing->full_name(), "gluond.v1.TrainStepResponse.timing");
  EXPECT_EQ(step.num_tensor_fields, 1);
  EXPECT_EQ(step.commit, nullptr);
  EXPECT_EQ(of("gluond.v1.TrainingService.UploadDataset").commit->full_name(), "gluond.v1.UploadDatasetRequest.commit");
  EXPECT_EQ(of("gluond.v1.TrainingService.GetSequence").client_id->full_name(), "gluond.v1.GetSequenceRequest.client_id");
  const Method publish = of("gluond.v1.ServingService.PublishModel");
  ASSERT_EQ(publish.targets.size(), 3);
  EXPECT_EQ(publish.targets[0]->name(), "model") << "the numbered call's model";
  EXPECT_FALSE(publish.is_short);
  EXPECT_TRUE(of("grpc.health.v1.Health.Watch").is_short);
}

// A service with one method, of a .proto that is not linked.
class OtherProtoTest : public testing::Test {
 protected:
  absl::Status Made(const std::string& options, const std::string& reply_field, const std::string& model_options = "") {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(absl::StrCat(R"(
            name: "other.proto" package: "other" syntax: "proto3" dependency: "gluond/v1/options.proto"
            dependency: "gluond/v1/call.proto"
            message_type { name: "Request"
              field { name: "model" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL )",
                                                                           model_options, R"( }
              field { name: "call" number: 2 type: TYPE_MESSAGE type_name: ".gluond.v1.CallOptions" label: LABEL_OPTIONAL } }
            message_type { name: "Reply" )",
                                                                           reply_field, R"( }
            service { name: "Service" method { name: "Do" input_type: ".other.Request" output_type: ".other.Reply" )",
                                                                           options, "} }"),
                                                              &file));
    DescriptorPool pool(DescriptorPool::generated_pool());
    const auto* const built = pool.BuildFile(file);
    return built == nullptr ? absl::InvalidArgumentError("no file") : Method::Of(*built->service(0)->method(0)).status();
  }
  const std::string replayed_ =
      R"(field { name: "again" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL options { [gluond.v1.use]: REPLAYED } })";
};

TEST_F(OtherProtoTest, AMethodWithoutARoleIsRefused) {
  EXPECT_TRUE(AreLinked());
  EXPECT_EQ(Made("options { [gluond.v1.method] { role: ANY target: 'model' } }", ""), absl::OkStatus());
  EXPECT_THAT(Made("", "").message(), testing::HasSubstr("other.Service.Do does not say who may call it"));
  EXPECT_THAT(Made("options { [gluond.v1.method] { audited: EACH } }", "").message(), testing::HasSubstr("who may call it"));
}

TEST_F(OtherProtoTest, ATargetIsAFieldWithAName) {
  EXPECT_THAT(Made("options { [gluond.v1.method] { role: ANY target: 'modle' } }", "").message(),
              testing::HasSubstr("other.Request has no string field modle"));
  EXPECT_FALSE(Made("options { [gluond.v1.method] { role: ANY target: 'call' } }", "").ok());
}

TEST_F(OtherProtoTest, ANameThatStandsForAnEmptyOneIsAStringFieldOfTheSameMessage) {
  const auto made = [this](const char* if_empty) {
    return Made("options { [gluond.v1.method] { role: ANY } }", "",
                absl::StrCat("options { [gluond.v1.name] { thing: MODEL if_empty: '", if_empty, "' } }"));
  };
  EXPECT_EQ(made("model"), absl::OkStatus());
  EXPECT_THAT(made("modle").message(), testing::HasSubstr("other.Request has no string field modle"));
  EXPECT_FALSE(made("call").ok());
}

TEST_F(OtherProtoTest, ANumberedMethodHasAModelAndAReplyThatSaysThatItIsRepeated) {
  EXPECT_EQ(Made("options { [gluond.v1.method] { role: TRAIN numbered: true target: 'model' } }", replayed_), absl::OkStatus());
  EXPECT_FALSE(Made("options { [gluond.v1.method] { role: TRAIN numbered: true target: 'model' } }", "").ok());
  EXPECT_FALSE(Made("options { [gluond.v1.method] { role: TRAIN numbered: true } }", replayed_).ok());
  EXPECT_FALSE(Made("options { [gluond.v1.method] { role: TRAIN target: 'model' } }", replayed_).ok());
}

// A table that differs from the .proto.
template <class Rows>
class Differing final : public RawService {
 public:
  Differing(Runner& runner, const char* name, Rows rows) : RawService(runner, name) { rows(*this); }
  using RawService::Add;
  void Invoke(Call<v1::InvokeRequest, v1::InvokeResponse>) {}
  void Info(Call<v1::GetServerInfoRequest, v1::GetServerInfoResponse>) {}
};

TEST(RawServiceTest, ATableThatDiffersFromItsProtoStopsTheStart) {
  ASSERT_TRUE(AreLinked());
  Runner runner(
      {}, [](absl::string_view) {}, std::make_shared<Budget>("the test", 1 << 30, "--max_memory_bytes"));
  const auto check = [&runner](const char* name, auto rows) { return Differing(runner, name, rows).CheckComplete(); };
  constexpr char kServer[] = "gluond.v1.ServerService";
  EXPECT_EQ(check(kServer, [](auto& it) { it.Add("GetServerInfo", &it, &std::decay_t<decltype(it)>::Info); }), absl::OkStatus());
  EXPECT_FALSE(check(kServer, [](auto&) {}).ok()) << "a method without a row";
  EXPECT_FALSE(check(kServer, [](auto& it) { it.Add("GetServerInfo", &it, &std::decay_t<decltype(it)>::Invoke); }).ok())
      << "other types";
  EXPECT_THAT(
      check("gluond.v1.OperatorService", [](auto& it) { it.Add("Invoke", &it, &std::decay_t<decltype(it)>::Invoke); }).message(),
      testing::HasSubstr("no row that fits"));
  EXPECT_THAT(check(kServer, [](auto& it) { it.Add("Undo", &it, &std::decay_t<decltype(it)>::Info); }).message(),
              testing::HasSubstr("no .proto has gluond.v1.ServerService/Undo"));
}

}  // namespace
}  // namespace gluond::server
