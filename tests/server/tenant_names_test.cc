// The names of tenants change at one place, which knows all fields that have names.

#include "server/rpc/tenant_names.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/error_info.h"
#include "engine/store/stored_name.h"
#include "gluond/v1/custom_operator.pb.h"
#include "gluond/v1/model.pb.h"
#include "gluond/v1/operator.pb.h"
#include "gluond/v1/server.pb.h"
#include "gluond/v1/serving.pb.h"
#include "gluond/v1/session.pb.h"
#include "gluond/v1/training.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/rpc/error_details.pb.h"
#include "proto/inference/grpc_service.pb.h"
#include "server/rpc/method.h"

namespace gluond::server {
namespace {

using google::protobuf::FieldDescriptor;

constexpr const char* kAllServices[] = {"gluond.v1.ServerService", "gluond.v1.OperatorService",     "gluond.v1.SessionService",
                                        "gluond.v1.ModelService",  "gluond.v1.TrainingService",     "gluond.v1.ServingService",
                                        "gluond.v1.GroupService",  "inference.GRPCInferenceService"};

// String fields that name no thing of a tenant's. A new field belongs here, or has the option gluond.v1.name.
constexpr struct {
  const char* message;
  const char* fields;
} kOthers[] = {
    {"gluond.v1.ArrayType", "device"},
    {"gluond.v1.BackwardRequest", "gradients"},
    {"gluond.v1.Block", "block name"},
    {"gluond.v1.CallOptions", "client_id"},
    {"gluond.v1.CallType", "inputs outputs"},
    {"gluond.v1.CallType.InputAttributes.AttributesEntry", "value"},
    {"gluond.v1.Callback", "op_type"},
    {"gluond.v1.Callback.AttributesEntry", "value"},
    {"gluond.v1.Callback.BackwardCall", "device"},
    {"gluond.v1.Callback.Forward", "device"},
    {"gluond.v1.CallbackResult.CallbackFailure", "type message traceback"},
    {"gluond.v1.CheckGradientRequest", "op"},
    {"gluond.v1.CheckGradientResponse.InputError", "input"},
    {"gluond.v1.Checkpoint", "etag"},
    {"gluond.v1.Column", "name"},
    {"gluond.v1.Command.Assign", "device"},
    {"gluond.v1.Command.DefineGraph", "inputs"},
    {"gluond.v1.Command.DefineOptimizer.Weight", "name"},
    {"gluond.v1.Command.DescribeCall", "op"},
    {"gluond.v1.Command.Initialize", "device"},
    {"gluond.v1.Command.Invoke", "device"},
    {"gluond.v1.Command.OpenSaved", "key"},
    {"gluond.v1.Command.Prepare", "op"},
    {"gluond.v1.Command.Put", "device"},
    {"gluond.v1.Command.SaveAsModel", "outputs device"},
    {"gluond.v1.Command.SaveAsModel.State", "name"},
    {"gluond.v1.Command.SaveSession", "key manifest"},
    {"gluond.v1.Component", "name"},
    {"gluond.v1.CreateTrainerRequest", "loss_output prediction"},
    {"gluond.v1.CustomOperatorSpec", "op_type arguments outputs auxiliary"},
    {"gluond.v1.DefineModelRequest", "device host"},
    {"gluond.v1.Dataset", "etag"},
    {"gluond.v1.DeleteCheckpointRequest", "expected_etag"},
    {"gluond.v1.DeleteDatasetRequest", "expected_etag"},
    {"gluond.v1.DeleteSavedSessionRequest", "key"},
    {"gluond.v1.DescribeOperatorRequest", "op"},
    {"gluond.v1.Device", "name description"},
    {"gluond.v1.DownloadParameterRequest", "parameter"},
    {"gluond.v1.ExplainRequest", "version"},
    {"gluond.v1.ExplainRequest.Input", "name"},
    {"gluond.v1.ExplainResponse", "device"},
    {"gluond.v1.ForwardRequest", "outputs"},
    {"gluond.v1.GetGradientsRequest", "names"},
    {"gluond.v1.GetOptimizerStateRequest", "names"},
    {"gluond.v1.ErrorFacts", "reason traceback"},
    {"gluond.v1.ErrorFacts.FactsEntry", "value"},
    {"gluond.v1.GetParametersRequest", "names"},
    {"gluond.v1.GetSequenceRequest", "client_id"},
    {"gluond.v1.GetServerInfoResponse", "version features registry_hash"},
    {"gluond.v1.GetGroupResponse", "why_not"},
    {"gluond.v1.Graph", "outputs"},
    {"gluond.v1.GroupMember", "name"},
    {"gluond.v1.HostResponse", "taken_over offered given_back"},
    {"gluond.v1.InitializeParametersResponse", "initialized deferred"},
    {"gluond.v1.InvokeRequest", "op device"},
    {"gluond.v1.JoinRequest.Ask", "model"},
    {"gluond.v1.JoinRequest.Broken", "message"},
    {"gluond.v1.JoinRequest.Computed", "message"},
    {"gluond.v1.JoinRequest.Failed", "message"},
    {"gluond.v1.JoinRequest.Hello", "fingerprint name"},
    {"gluond.v1.JoinRequest.Meeting", "key"},
    {"gluond.v1.JoinRequest.Withdraw", "model"},
    {"gluond.v1.JoinResponse.Answer", "model"},
    {"gluond.v1.JoinResponse.Answer.Error", "message"},
    {"gluond.v1.JoinResponse.Form", "ring"},
    {"gluond.v1.JoinResponse.Part", "model file"},
    {"gluond.v1.JoinResponse.State", "models"},
    {"gluond.v1.JoinResponse.Step", "model"},
    {"gluond.v1.ListCheckpointsRequest", "page_token"},
    {"gluond.v1.ListCheckpointsResponse", "next_page_token"},
    {"gluond.v1.ListComponentsResponse.Entry", "name aliases description"},
    {"gluond.v1.ListDatasetsRequest", "page_token"},
    {"gluond.v1.ListDatasetsResponse", "next_page_token"},
    {"gluond.v1.ListModelsRequest", "page_token"},
    {"gluond.v1.ListModelsResponse", "next_page_token"},
    {"gluond.v1.ListOperatorsRequest", "contains page_token"},
    {"gluond.v1.ListOperatorsResponse", "next_page_token registry_hash"},
    {"gluond.v1.ListSavedSessionsRequest", "page_token"},
    {"gluond.v1.ListSavedSessionsResponse", "next_page_token"},
    {"gluond.v1.ListVersionsRequest", "page_token"},
    {"gluond.v1.ListVersionsResponse", "next_page_token"},
    {"gluond.v1.LoadCheckpointRequest", "device"},
    {"gluond.v1.Model", "device"},
    {"gluond.v1.Node", "name op inputs"},
    {"gluond.v1.OfferOperator", "op_type"},
    {"gluond.v1.OpenHost", "scope client_id key"},
    {"gluond.v1.OpenSession", "session device client_id features host"},
    {"gluond.v1.Operator", "name aliases description outputs devices variable_inputs"},
    {"gluond.v1.Operator.Argument", "name type description"},
    {"gluond.v1.Operator.Parameter", "name type default_value values range description"},
    {"gluond.v1.PredictRequest", "outputs"},
    {"gluond.v1.ProgramPass", "name effect"},
    {"gluond.v1.ProgramPass.Change", "node before after"},
    {"gluond.v1.ProgramStep", "name op made_by"},
    {"gluond.v1.ProgramTensor", "name"},
    {"gluond.v1.PublishModelRequest", "labels"},
    {"gluond.v1.RefusedOperator", "op_type reason"},
    {"gluond.v1.ReleaseOperator", "op_type"},
    {"gluond.v1.SavedSession", "client_id key manifest"},
    {"gluond.v1.ReadVersionRequest", "file"},
    {"gluond.v1.RetireVersionRequest", "expected_etag"},
    {"gluond.v1.RouteVersionsRequest", "expected_etag"},
    {"gluond.v1.ServedVersion", "labels etag"},
    {"gluond.v1.ServingOptions", "device"},
    {"gluond.v1.SessionOpened", "session devices features registry_hash"},
    {"gluond.v1.SetParametersRequest", "uploaded"},
    {"gluond.v1.StepReport", "stale_parameters"},
    {"gluond.v1.Trainer", "loss_output prediction"},
    {"gluond.v1.UploadDatasetRequest", "column"},
    {"gluond.v1.UploadParameterRequest", "parameter"},
    {"gluond.v1.Variable", "name"},
    {"inference.CudaSharedMemoryRegisterRequest", "name"},
    {"inference.CudaSharedMemoryStatusRequest", "name"},
    {"inference.CudaSharedMemoryStatusResponse.RegionStatus", "name"},
    {"inference.CudaSharedMemoryUnregisterRequest", "name"},
    {"inference.InferParameter", "string_param"},
    {"inference.LogSettingsRequest.SettingValue", "string_param"},
    {"inference.LogSettingsResponse.SettingValue", "string_param"},
    {"inference.MemoryUsage", "type"},
    {"inference.ModelConfig", "platform backend"},
    {"inference.ModelConfigRequest", "version"},
    {"inference.ModelInferRequest", "model_version id"},
    {"inference.ModelInferRequest.InferInputTensor", "name datatype"},
    {"inference.ModelInferRequest.InferRequestedOutputTensor", "name"},
    {"inference.ModelInferResponse", "model_version id"},
    {"inference.ModelInferResponse.InferOutputTensor", "name datatype"},
    {"inference.ModelInput", "name"},
    {"inference.ModelInstanceGroup", "name"},
    {"inference.ModelMetadataRequest", "version"},
    {"inference.ModelMetadataResponse", "versions platform"},
    {"inference.ModelMetadataResponse.TensorMetadata", "name datatype"},
    {"inference.ModelOutput", "name"},
    {"inference.ModelReadyRequest", "version"},
    {"inference.ModelRepositoryParameter", "string_param"},
    {"inference.ModelStatistics", "version"},
    {"inference.ModelStatisticsRequest", "version"},
    {"inference.RepositoryIndexRequest", "repository_name"},
    {"inference.RepositoryIndexResponse.ModelIndex", "version state"},
    {"inference.RepositoryModelLoadRequest", "repository_name"},
    {"inference.RepositoryModelUnloadRequest", "repository_name"},
    {"inference.ServerMetadataResponse", "name version extensions"},
    {"inference.SystemSharedMemoryRegisterRequest", "name key"},
    {"inference.SystemSharedMemoryStatusRequest", "name"},
    {"inference.SystemSharedMemoryStatusResponse.RegionStatus", "name key"},
    {"inference.SystemSharedMemoryUnregisterRequest", "name"},
    {"inference.TraceSettingRequest.SettingValue", "value"},
    {"inference.TraceSettingResponse.SettingValue", "value"},
};

absl::flat_hash_set<std::string> Others() {
  absl::flat_hash_set<std::string> others;
  for (const auto& [message, fields] : kOthers) {
    for (const absl::string_view field : absl::StrSplit(fields, ' ')) others.insert(absl::StrCat(message, ".", field));
  }
  return others;
}

// Messages that requests and replies may hold, with themselves.
class Walk {
 public:
  explicit Walk(bool replies = true) {
    // A file that nobody refers to is not linked, and its service is not known.
    for (const google::protobuf::Descriptor* file :
         {v1::GetServerInfoRequest::descriptor(), v1::InvokeRequest::descriptor(), v1::PublishModelRequest::descriptor()}) {
      EXPECT_NE(file, nullptr);
    }
    const auto* pool = google::protobuf::DescriptorPool::generated_pool();
    for (const char* name : kAllServices) {
      const auto* service = pool->FindServiceByName(name);
      EXPECT_NE(service, nullptr) << name;
      for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
        Add(service->method(i)->input_type());
        if (replies) Add(service->method(i)->output_type());
      }
    }
  }

  const std::vector<const google::protobuf::Descriptor*>& messages() const { return messages_; }

 private:
  void Add(const google::protobuf::Descriptor* message) {
    if (absl::StartsWith(message->full_name(), "google.") || !seen_.insert(message).second) return;
    messages_.push_back(message);
    for (int i = 0; i < message->field_count(); ++i) {
      if (const google::protobuf::Descriptor* below = message->field(i)->message_type(); below != nullptr) Add(below);
    }
  }

  absl::flat_hash_set<const google::protobuf::Descriptor*> seen_;
  std::vector<const google::protobuf::Descriptor*> messages_;
};

TEST(TenantNamesTest, EachStringFieldIsANameOrSomethingElse) {
  absl::flat_hash_set<std::string> others = Others();
  const Walk walk;
  for (const google::protobuf::Descriptor* message : walk.messages()) {
    for (int i = 0; i < message->field_count(); ++i) {
      const FieldDescriptor& field = *message->field(i);
      const bool is_key = message->options().map_entry() && field.number() == 1;
      if (field.type() != FieldDescriptor::TYPE_STRING || is_key) continue;
      const bool is_named = NamedFieldOf(field)->has_value(), is_other = others.erase(field.full_name()) > 0;
      EXPECT_NE(is_named, is_other) << field.full_name()
                                    << " has the option gluond.v1.name if it names something of a tenant's, "
                                       "else a place in the list of this test";
      EXPECT_FALSE(is_named && (field.is_repeated() || message->options().map_entry())) << field.full_name();
    }
  }
  EXPECT_THAT(others, testing::IsEmpty()) << "no request and no reply has these";
}

// A request's name says what the call does to the thing: what nobody has thought of, everybody could do to others' things.
TEST(TenantNamesTest, EachNameOfARequestSaysWhatIsDoneToTheThing) {
  const Walk requests(/*replies=*/false);
  for (const google::protobuf::Descriptor* message : requests.messages()) {
    for (int i = 0; i < message->field_count(); ++i) {
      const std::optional<NamedField> named = *NamedFieldOf(*message->field(i));
      EXPECT_FALSE(named.has_value() && (named->is_text || named->thing == Thing::kNone)) << message->field(i)->full_name();
    }
  }
  EXPECT_GE(requests.messages().size(), 50);
}

TEST(TenantNamesTest, WhatACallTouches) {
  v1::PublishModelRequest publish;
  publish.set_checkpoint("best");
  v1::TrainRequest train;
  train.set_model("digits");
  train.mutable_rows()->set_dataset("fashion");
  std::vector<Touched> touched;
  AddTouched(publish, &touched);
  AddTouched(train, &touched);
  const auto is = [](Thing thing, Deed deed, const char* name) {
    return testing::AllOf(testing::Field(&Touched::thing, thing), testing::Field(&Touched::deed, deed),
                          testing::Field(&Touched::name, name));
  };
  EXPECT_THAT(touched,
              testing::UnorderedElementsAre(is(Thing::kModel, Deed::kRead, ""), is(Thing::kCheckpoint, Deed::kRead, "best"),
                                            is(Thing::kVersions, Deed::kMake, "best"), is(Thing::kModel, Deed::kChange, "digits"),
                                            is(Thing::kDataset, Deed::kRead, "fashion")));
}

class OfAcme : public testing::Test {
 protected:
  const Reach reach_ = Reach::Of(std::make_shared<Tenant>("acme"));
};

TEST_F(OfAcme, NamesOfARequestAreTheTenants) {
  v1::LoadCheckpointRequest load;
  load.set_checkpoint("best");
  Qualify(reach_, &load);
  EXPECT_EQ(load.checkpoint(), "acme/best");
  EXPECT_EQ(load.model(), "") << "a name that was left out stays left out";

  v1::TrainStepRequest step;
  step.set_model("digits");
  step.mutable_rows()->set_dataset("fashion");
  Qualify(reach_, &step);
  EXPECT_EQ(step.model(), "acme/digits");
  EXPECT_EQ(step.rows().dataset(), "acme/fashion");

  v1::SessionRequest session;
  session.add_commands()->mutable_wait_all();
  session.add_commands()->mutable_open_model()->set_model("digits");
  session.add_commands()->mutable_save_session()->set_name("run-7");
  Qualify(reach_, &session);
  EXPECT_EQ(session.commands(1).open_model().model(), "acme/digits");
  EXPECT_EQ(session.commands(2).save_session().name(), "acme/run-7");
}

TEST_F(OfAcme, AnothersNamesAreNobodys) {
  for (const std::string said : {"globex/digits", "/digits", "acme/digits", "../digits", "acme//digits"}) {
    v1::GetModelRequest request;
    request.set_model(said);
    Qualify(reach_, &request);
    EXPECT_FALSE(CheckStoredName("model", request.model()).ok()) << request.model();
    EXPECT_EQ(reach_.Outside(request.model()), said);
  }
}

TEST_F(OfAcme, NamesOfAReplyAreTheCallersOwn) {
  v1::ListModelsResponse models;
  models.add_models()->set_name("acme/a");
  models.add_models()->set_name("acme/b");
  Unqualify(reach_, &models);
  EXPECT_EQ(models.models(0).name(), "a");
  EXPECT_EQ(models.models(1).name(), "b");
  Unqualify(reach_, &models);
  EXPECT_EQ(models.models(0).name(), "a") << "a reply that is kept, and sent again, changes no more";

  inference::ModelStreamInferResponse answer;
  answer.set_error_message("no model is served as 'acme/x'; did you mean 'acme/y'?");
  answer.mutable_infer_response()->set_model_name("acme/x");
  Unqualify(reach_, &answer);
  EXPECT_EQ(answer.error_message(), "no model is served as 'x'; did you mean 'y'?");
  EXPECT_EQ(answer.infer_response().model_name(), "x");
}

TEST_F(OfAcme, ErrorsAreTheCallersOwn) {
  const absl::Status status = WithInfo(absl::NotFoundError("there is no model 'acme/x'; acme/x"), reason::kNotFound,
                                       {{"kind", "model"}, {"name", "acme/x"}});
  const absl::Status outside = Unqualify(reach_, status);
  EXPECT_EQ(outside.message(), "there is no model 'x'; acme/x") << "names are quoted; a tenant may be called `and`";
  EXPECT_EQ(InfoOf(outside)->metadata[1].second, "x");

  v1::Reply reply;
  google::rpc::Status& failure = *reply.add_failures()->mutable_status();
  failure.set_message("there is no model 'acme/x'");
  google::rpc::ErrorInfo info;
  (*info.mutable_metadata())["name"] = "acme/x";
  failure.add_details()->PackFrom(info);
  Unqualify(reach_, &reply);
  EXPECT_EQ(failure.message(), "there is no model 'x'");
  ASSERT_TRUE(failure.details(0).UnpackTo(&info));
  EXPECT_EQ(info.metadata().at("name"), "x");
}

TEST(ReachTest, WhoIsOfNoTenantSaysNoTenantsNames) {
  const Reach reach = Reach::OfNoTenant();
  EXPECT_EQ(reach.Inside("digits"), "digits");
  EXPECT_FALSE(CheckStoredName("model", reach.Inside("acme/digits")).ok());
  EXPECT_EQ(reach.Outside(reach.Inside("acme/digits")), "acme/digits");
  EXPECT_TRUE(reach.Has("digits"));
  EXPECT_FALSE(reach.Has("acme/digits"));
}

TEST(ReachTest, AnAdminOfTheServerSaysAll) {
  const Reach reach;
  EXPECT_TRUE(reach.is_everything());
  EXPECT_EQ(reach.Inside("acme/digits"), "acme/digits");
  EXPECT_TRUE(reach.Has("digits") && reach.Has("acme/digits"));
}

TEST(TenantTest, RequestsPerSecond) {
  Tenant tenant("acme");
  Tenant::Clock::time_point now = Tenant::Clock::now();
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(tenant.TakeRequest(now).ok()) << "there is no quota";
  tenant.Set({.requests_per_second = 4});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(tenant.TakeRequest(now).ok()) << i;
  const absl::Status refused = tenant.TakeRequest(now);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.message(), testing::HasSubstr("requests_per_second"));
  EXPECT_THAT(refused.message(), testing::HasSubstr("0.250 s"));
  now += std::chrono::milliseconds(250);
  EXPECT_TRUE(tenant.TakeRequest(now).ok());
  EXPECT_FALSE(tenant.TakeRequest(now).ok());
  now += std::chrono::seconds(60);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(tenant.TakeRequest(now).ok()) << "a quiet minute saves up no more than a second";
  EXPECT_FALSE(tenant.TakeRequest(now).ok());
}

}  // namespace
}  // namespace gluond::server
