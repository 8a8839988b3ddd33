#include "server/rpc/method.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "gluond/v1/call.pb.h"
#include "gluond/v1/options.pb.h"
#include "gluond/v1/tensor.pb.h"
#include "gluond/v1/training.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"

namespace gluond::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;

struct Row {
  const char* name;  // Full.
  const char* rule;  // As the .proto would say it.
};

// Health, reflection and the open protocol have .protos that others have written.
constexpr Row kMethods[] = {
    {"grpc.health.v1.Health.Check", "role: OPEN weight: ALWAYS"},
    {"grpc.health.v1.Health.Watch", "role: OPEN"},
    {"grpc.health.v1.Health.List", "role: ANY weight: HEAVY"},  // It tells names, which Check asks for.
    {"grpc.reflection.v1.ServerReflection.ServerReflectionInfo", "role: ANY"},
    {"grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo", "role: ANY"},
    {"inference.GRPCInferenceService.ServerLive", "role: OPEN"},
    {"inference.GRPCInferenceService.ServerReady", "role: OPEN"},
    {"inference.GRPCInferenceService.ModelReady", "role: ANY target: 'name'"},
    {"inference.GRPCInferenceService.ServerMetadata", "role: ANY"},
    {"inference.GRPCInferenceService.ModelMetadata", "role: ANY target: 'name'"},
    {"inference.GRPCInferenceService.ModelConfig", "role: ANY target: 'name'"},
    {"inference.GRPCInferenceService.ModelStatistics", "role: ANY weight: HEAVY target: 'name'"},
    {"inference.GRPCInferenceService.ModelInfer", "role: INFER target: 'model_name'"},
    {"inference.GRPCInferenceService.ModelStreamInfer", "role: INFER"},
    {"inference.GRPCInferenceService.RepositoryIndex", "role: ANY weight: HEAVY"},
    {"inference.GRPCInferenceService.RepositoryModelLoad", "role: PUBLISH audited: EACH target: 'model_name'"},
    {"inference.GRPCInferenceService.RepositoryModelUnload", "role: PUBLISH audited: EACH target: 'model_name'"},
    {"inference.GRPCInferenceService.SystemSharedMemoryStatus", "role: INFER target: 'name'"},
    {"inference.GRPCInferenceService.SystemSharedMemoryRegister", "role: ADMIN audited: EACH target: 'name'"},
    {"inference.GRPCInferenceService.SystemSharedMemoryUnregister", "role: ADMIN audited: EACH target: 'name'"},
    {"inference.GRPCInferenceService.CudaSharedMemoryStatus", "role: INFER target: 'name'"},
    {"inference.GRPCInferenceService.CudaSharedMemoryRegister", "role: ADMIN audited: EACH target: 'name'"},
    {"inference.GRPCInferenceService.CudaSharedMemoryUnregister", "role: ADMIN audited: EACH target: 'name'"},
    {"inference.GRPCInferenceService.TraceSetting", "role: ADMIN audited: EACH target: 'model_name'"},
    {"inference.GRPCInferenceService.LogSettings", "role: ADMIN audited: EACH weight: ALWAYS"},
};
constexpr Row kFields[] = {
    {"inference.ModelReadyRequest.name", "thing: VERSIONS"},
    {"inference.ModelMetadataRequest.name", "thing: VERSIONS"},
    {"inference.ModelMetadataResponse.name", ""},
    {"inference.ModelInferRequest.model_name", "thing: VERSIONS"},
    {"inference.ModelInferResponse.model_name", ""},
    {"inference.ModelConfigRequest.name", "thing: VERSIONS"},
    {"inference.ModelConfig.name", ""},
    {"inference.ModelStatisticsRequest.name", "thing: VERSIONS"},
    {"inference.ModelStatistics.name", ""},
    {"inference.RepositoryIndexResponse.ModelIndex.name", ""},
    {"inference.RepositoryIndexResponse.ModelIndex.reason", "is_text: true"},
    {"inference.RepositoryModelLoadRequest.model_name", "thing: VERSIONS deed: CHANGE"},
    {"inference.RepositoryModelUnloadRequest.model_name", "thing: VERSIONS deed: CHANGE"},
    {"inference.TraceSettingRequest.model_name", "thing: VERSIONS"},
    {"inference.ModelStreamInferResponse.error_message", "is_text: true"},
};

// The rule of a method or a field: the option of its .proto, or the row of its name. Nothing: it has neither.
template <class Rule, size_t N, class Element, class Option>
std::optional<Rule> RuleOf(const Element& element, const Option& option, const Row (&rows)[N]) {
  if (element.options().HasExtension(option)) return element.options().GetExtension(option);
  static const auto& by_name = *new auto([&rows] {
    absl::flat_hash_map<std::string, Rule> rules;
    for (const auto& [name, text] : rows) google::protobuf::TextFormat::ParseFromString(text, &rules[name]);
    return rules;
  }());
  const auto found = by_name.find(element.full_name());
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

// The server's own enums have the numbers of the .proto's.
constexpr bool Same(auto own, auto of_proto) { return static_cast<int>(own) == of_proto; }
static_assert(Same(Access::kOpen, v1::MethodRule::OPEN) && Same(Access::kAdmin, v1::MethodRule::ADMIN) &&
              Same(Access::kFollow, v1::MethodRule::FOLLOW) && Same(Access::kMember, v1::MethodRule::MEMBER));
static_assert(Same(Audit::kEach, v1::MethodRule::EACH) && Same(Audit::kMany, v1::MethodRule::MANY));
static_assert(Same(Weight::kHeavy, v1::MethodRule::HEAVY) && Same(Weight::kDisk, v1::MethodRule::DISK) &&
              Same(Weight::kAlways, v1::MethodRule::ALWAYS));
static_assert(Same(Thing::kModel, v1::NameRule::MODEL) && Same(Thing::kDataset, v1::NameRule::DATASET) &&
              Same(Thing::kCheckpoint, v1::NameRule::CHECKPOINT) && Same(Thing::kVersions, v1::NameRule::VERSIONS) &&
              Same(Thing::kSavedSession, v1::NameRule::SAVED_SESSION));
static_assert(Same(Deed::kRead, v1::NameRule::READ) && Same(Deed::kChange, v1::NameRule::CHANGE) &&
              Same(Deed::kDelete, v1::NameRule::DELETE) && Same(Deed::kMake, v1::NameRule::MAKE));

// Null: the message has no such field.
Method::Field FieldWith(const google::protobuf::Descriptor& message, v1::FieldUse use) {
  for (int i = 0; i < message.field_count(); ++i) {
    if (message.field(i)->options().GetExtension(v1::use) == use) return message.field(i);
  }
  return nullptr;
}

Method::Field FieldOf(const google::protobuf::Descriptor& message, const google::protobuf::Descriptor* type) {
  for (int i = 0; i < message.field_count(); ++i) {
    if (!message.field(i)->is_repeated() && message.field(i)->message_type() == type) return message.field(i);
  }
  return nullptr;
}

int CountTensorFields(const google::protobuf::Descriptor& message) {
  int count = 0;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const google::protobuf::Descriptor* const type =
        field.is_map() ? field.message_type()->map_value()->message_type() : field.message_type();
    count += field.is_repeated() && type == v1::Tensor::descriptor();
  }
  return count;
}

// INTERNAL: one of them is no string field of the message.
absl::StatusOr<std::vector<Method::Field>> StringFields(const google::protobuf::Descriptor& message,
                                                        const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::vector<Method::Field> fields;
  for (const std::string& name : names) {
    const FieldDescriptor* const field = message.FindFieldByName(name);
    if (field == nullptr || field->is_repeated() || field->type() != FieldDescriptor::TYPE_STRING) {
      return absl::InternalError(absl::StrCat(message.full_name(), " has no string field ", name));
    }
    fields.push_back(field);
  }
  return fields;
}

}  // namespace

absl::StatusOr<Method> Method::Of(const MethodDescriptor& method) {
  const std::optional<v1::MethodRule> rule = RuleOf<v1::MethodRule>(method, v1::method, kMethods);
  if (!rule.has_value() || rule->role() == v1::MethodRule::NOBODY) {
    return absl::InternalError(absl::StrCat("the .proto of ", method.full_name(), " does not say who may call it"));
  }
  const google::protobuf::Descriptor &request = *method.input_type(), &reply = *method.output_type();
  Method made;
  made.path = absl::StrCat("/", method.service()->full_name(), "/", method.name());
  made.name = method.name();
  made.access = static_cast<Access>(rule->role());
  made.audit = static_cast<Audit>(rule->audited());
  made.weight = static_cast<Weight>(rule->weight());
  made.is_short = made.access == Access::kOpen || made.weight == Weight::kAlways;
  made.numbered = rule->numbered();
  ASSIGN_OR_RETURN(made.targets, StringFields(request, rule->target()));
  for (int i = 0; i < request.field_count(); ++i) RETURN_IF_ERROR(NamedFieldOf(*request.field(i)).status());
  made.call = FieldOf(request, v1::CallOptions::descriptor());
  made.client_id = FieldWith(request, v1::CLIENT_ID);
  made.commit = FieldWith(request, v1::COMMIT);
  made.num_tensor_fields = CountTensorFields(request);
  made.replayed = FieldWith(reply, v1::REPLAYED);
  made.durable_sequence = FieldWith(reply, v1::DURABLE_SEQUENCE);
  made.timing = FieldOf(reply, v1::Timing::descriptor());
  const bool can_be_numbered = made.call != nullptr && made.replayed != nullptr && !made.targets.empty();
  if (made.numbered != (made.replayed != nullptr) || (made.numbered && !can_be_numbered)) {
    return absl::InternalError(absl::StrCat(
        method.full_name(),
        " is numbered exactly where its request has CallOptions and a model as target, and its reply a field for REPLAYED"));
  }
  return made;
}

absl::StatusOr<std::optional<NamedField>> NamedFieldOf(const FieldDescriptor& field) {
  const std::optional<v1::NameRule> rule = RuleOf<v1::NameRule>(field, v1::name, kFields);
  if (!rule.has_value()) return std::nullopt;
  ASSIGN_OR_RETURN(std::vector<Method::Field> if_empty, StringFields(*field.containing_type(), rule->if_empty()));
  return NamedField{rule->is_text(), static_cast<Thing>(rule->thing()), static_cast<Deed>(rule->deed()), std::move(if_empty)};
}

}  // namespace gluond::server
