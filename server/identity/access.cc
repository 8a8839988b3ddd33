#include "server/identity/access.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace gluond::server {
namespace {

constexpr std::pair<absl::string_view, Role> kRoles[] = {
    {"infer", Role::kInfer}, {"train", Role::kTrain}, {"publish", Role::kPublish}, {"admin", Role::kAdmin}, {"proxy", Role::kProxy}};

using enum Audit;

// A caller who computes with operators of his own choice, or reads parameters, is to have the role `train`.
const absl::flat_hash_map<absl::string_view, MethodAccess>& Table() {
  static const auto& table = *new absl::flat_hash_map<absl::string_view, MethodAccess>({
      {"/grpc.health.v1.Health/Check", {Access::kOpen}},
      {"/grpc.health.v1.Health/Watch", {Access::kOpen}},
      {"/grpc.health.v1.Health/List", {Access::kAnyRole}},  // It tells names, which Check asks for.
      {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", {Access::kAnyRole}},
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {Access::kAnyRole}},

      {"/gluond.v1.ServerService/GetServerInfo", {Access::kAnyRole}},

      {"/gluond.v1.OperatorService/ListOperators", {Access::kAnyRole}},
      {"/gluond.v1.OperatorService/DescribeOperator", {Access::kAnyRole}},
      {"/gluond.v1.OperatorService/ListComponents", {Access::kAnyRole}},
      {"/gluond.v1.OperatorService/Invoke", {Access::kTrain}},
      {"/gluond.v1.OperatorService/CheckGradient", {Access::kTrain}},
      {"/gluond.v1.OperatorService/HostOperators", {Access::kTrain, kMany}},

      {"/gluond.v1.SessionService/Run", {Access::kTrain, kMany}},
      {"/gluond.v1.SessionService/ListSavedSessions", {Access::kTrain}},
      {"/gluond.v1.SessionService/DeleteSavedSession", {Access::kTrain, kEach}},

      {"/gluond.v1.ModelService/DefineModel", {Access::kTrain, kEach}},
      {"/gluond.v1.ModelService/GetModel", {Access::kAnyRole}},
      {"/gluond.v1.ModelService/ListModels", {Access::kAnyRole}},
      {"/gluond.v1.ModelService/DeleteModel", {Access::kTrain, kEach}},
      {"/gluond.v1.ModelService/InitializeParameters", {Access::kTrain, kEach}},
      {"/gluond.v1.ModelService/SetParameters", {Access::kTrain, kEach}},
      {"/gluond.v1.ModelService/GetParameters", {Access::kTrain, kMany}},
      {"/gluond.v1.ModelService/UploadParameter", {Access::kTrain, kMany}},
      {"/gluond.v1.ModelService/DownloadParameter", {Access::kTrain, kMany}},
      {"/gluond.v1.ModelService/Predict", {Access::kInfer}},
      {"/gluond.v1.ModelService/SaveCheckpoint", {Access::kTrain, kEach}},
      {"/gluond.v1.ModelService/LoadCheckpoint", {Access::kTrain, kEach}},
      {"/gluond.v1.ModelService/ListCheckpoints", {Access::kTrain}},
      {"/gluond.v1.ModelService/DeleteCheckpoint", {Access::kTrain, kEach}},

      {"/gluond.v1.TrainingService/Forward", {Access::kTrain}},
      {"/gluond.v1.TrainingService/Backward", {Access::kTrain}},
      {"/gluond.v1.TrainingService/CreateTrainer", {Access::kTrain, kEach}},
      {"/gluond.v1.TrainingService/GetTrainer", {Access::kTrain}},
      {"/gluond.v1.TrainingService/Step", {Access::kTrain}},
      {"/gluond.v1.TrainingService/TrainStep", {Access::kTrain}},
      {"/gluond.v1.TrainingService/Train", {Access::kTrain, kEach}},
      {"/gluond.v1.TrainingService/CancelTraining", {Access::kTrain, kEach}},
      {"/gluond.v1.TrainingService/ZeroGradients", {Access::kTrain}},
      {"/gluond.v1.TrainingService/GetGradients", {Access::kTrain, kMany}},
      {"/gluond.v1.TrainingService/SetLearningRate", {Access::kTrain, kEach}},
      {"/gluond.v1.TrainingService/GetOptimizerState", {Access::kTrain, kMany}},
      {"/gluond.v1.TrainingService/SetOptimizerState", {Access::kTrain, kEach}},
      {"/gluond.v1.TrainingService/Evaluate", {Access::kTrain}},
      {"/gluond.v1.TrainingService/UploadDataset", {Access::kTrain, kEach}},
      {"/gluond.v1.TrainingService/ListDatasets", {Access::kTrain}},
      {"/gluond.v1.TrainingService/DeleteDataset", {Access::kTrain, kEach}},
      {"/gluond.v1.TrainingService/GetSequence", {Access::kTrain}},

      {"/gluond.v1.ServingService/PublishModel", {Access::kPublish, kEach}},
      {"/gluond.v1.ServingService/ListVersions", {Access::kAnyRole}},
      {"/gluond.v1.ServingService/RouteVersions", {Access::kPublish, kEach}},
      {"/gluond.v1.ServingService/RetireVersion", {Access::kPublish, kEach}},
      {"/gluond.v1.ServingService/ReloadServing", {Access::kAdmin, kEach}},

      {"/inference.GRPCInferenceService/ServerLive", {Access::kOpen}},
      {"/inference.GRPCInferenceService/ServerReady", {Access::kOpen}},
      {"/inference.GRPCInferenceService/ModelReady", {Access::kAnyRole}},
      {"/inference.GRPCInferenceService/ServerMetadata", {Access::kAnyRole}},
      {"/inference.GRPCInferenceService/ModelMetadata", {Access::kAnyRole}},
      {"/inference.GRPCInferenceService/ModelConfig", {Access::kAnyRole}},
      {"/inference.GRPCInferenceService/ModelStatistics", {Access::kAnyRole}},
      {"/inference.GRPCInferenceService/ModelInfer", {Access::kInfer}},
      {"/inference.GRPCInferenceService/ModelStreamInfer", {Access::kInfer}},
      {"/inference.GRPCInferenceService/RepositoryIndex", {Access::kAnyRole}},
      {"/inference.GRPCInferenceService/RepositoryModelLoad", {Access::kPublish, kEach}},
      {"/inference.GRPCInferenceService/RepositoryModelUnload", {Access::kPublish, kEach}},
      {"/inference.GRPCInferenceService/SystemSharedMemoryStatus", {Access::kInfer}},
      {"/inference.GRPCInferenceService/SystemSharedMemoryRegister", {Access::kAdmin, kEach}},
      {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister", {Access::kAdmin, kEach}},
      {"/inference.GRPCInferenceService/CudaSharedMemoryStatus", {Access::kInfer}},
      {"/inference.GRPCInferenceService/CudaSharedMemoryRegister", {Access::kAdmin, kEach}},
      {"/inference.GRPCInferenceService/CudaSharedMemoryUnregister", {Access::kAdmin, kEach}},
      {"/inference.GRPCInferenceService/TraceSetting", {Access::kAdmin, kEach}},
      {"/inference.GRPCInferenceService/LogSettings", {Access::kAdmin, kEach}},
  });
  return table;
}

}  // namespace

absl::StatusOr<Roles> Roles::Parse(absl::string_view text) {
  Roles roles;
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    bool known = false;
    for (const auto& [role_name, role] : kRoles) {
      if (name != role_name) continue;
      roles.bits_ |= static_cast<uint8_t>(role);
      known = true;
    }
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no role; want infer, train, publish or admin, or several with commas, or proxy"));
    }
  }
  const bool has_proxy = (roles.bits_ & static_cast<uint8_t>(Role::kProxy)) != 0;
  if (!has_proxy || roles.is_proxy()) return roles;
  return absl::InvalidArgumentError("proxy goes with no other role: a proxy passes on others' calls, and may make none of its "
                                    "own");
}

std::string Roles::ToString() const {
  std::vector<absl::string_view> names;
  for (const auto& [name, role] : kRoles) {
    if ((bits_ & static_cast<uint8_t>(role)) != 0) names.push_back(name);
  }
  return absl::StrJoin(names, ",");
}

std::optional<MethodAccess> AccessOf(absl::string_view path) {
  const auto found = Table().find(path);
  if (found == Table().end()) return std::nullopt;
  return found->second;
}

absl::string_view NameOf(Access access) {
  static constexpr absl::string_view kNames[] = {"nobody", "any role", "infer", "train", "publish", "admin"};
  return kNames[static_cast<size_t>(access)];
}

bool Allows(Access access, Roles roles) {
  switch (access) {
    case Access::kOpen: return true;
    case Access::kAnyRole: return !roles.is_proxy();
    case Access::kInfer: return roles.Has(Role::kInfer);
    case Access::kTrain: return roles.Has(Role::kTrain);
    case Access::kPublish: return roles.Has(Role::kPublish);
    case Access::kAdmin: return roles.Has(Role::kAdmin);
  }
  return false;
}

}  // namespace gluond::server
