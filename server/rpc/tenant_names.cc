#include "server/rpc/tenant_names.h"

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/core/error_info.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/rpc/find_in.h"
#include "server/rpc/method.h"

namespace gluond::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Texts quote names.
std::string Outside(const Reach& reach, absl::string_view text) {
  return absl::StrReplaceAll(text, {{absl::StrCat("'", reach.prefix()), "'"}});
}

// A field of a message that has names, or messages with names.
struct NameStep {
  const FieldDescriptor* field;
  enum { kName, kText, kMessage, kStatus } kind;
  NamedField named = {};  // Set where `kind` is kName or kText.
};
using NameSteps = std::vector<NameStep>;
using StepsOfTypes = absl::flat_hash_map<const google::protobuf::Descriptor*, std::unique_ptr<const NameSteps>>;

const NameSteps& FindSteps(const google::protobuf::Descriptor* type, StepsOfTypes* known) {
  if (const auto* const found = FindIn(*known, type)) return **found;
  // Types that hold themselves, as blocks of blocks, have no names below: they are looked at once.
  auto owned = std::make_unique<NameSteps>();
  NameSteps& steps = *owned;
  (*known)[type] = std::move(owned);
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    if (std::optional<NamedField> named = NamedFieldOf(*field).value(); named.has_value()) {
      steps.push_back({field, named->is_text ? NameStep::kText : NameStep::kName, *std::move(named)});
    } else if (field->message_type() == google::rpc::Status::descriptor()) {
      steps.push_back({field, NameStep::kStatus});
    } else if (field->message_type() != nullptr && !field->is_map() && !FindSteps(field->message_type(), known).empty()) {
      steps.push_back({field, NameStep::kMessage});
    }
  }
  return steps;
}

// The steps of a type, which stay where they are. Thread-safe.
const NameSteps& StepsOf(const google::protobuf::Descriptor* type) {
  static Mutex& mu = *new Mutex;
  static StepsOfTypes& known ABSL_GUARDED_BY(mu) = *new StepsOfTypes;
  MutexLock lock(mu);
  return FindSteps(type, &known);
}

// Calls `take` for each step of the message, and of those below it, with the message that the step is about: a Status, or the one
// that has the field.
template <class M, class Take>
void ForEachStep(M* message, const Take& take) {
  const Reflection& reflection = *message->GetReflection();
  for (const NameStep& step : StepsOf(message->GetDescriptor())) {
    const auto take_below = [&](M* each) { step.kind == NameStep::kStatus ? take(step, each) : ForEachStep(each, take); };
    if (step.kind == NameStep::kName || step.kind == NameStep::kText) {
      take(step, message);
    } else if (step.field->is_repeated()) {
      const int size = reflection.FieldSize(*message, step.field);
      for (int i = 0; i < size; ++i) {
        if constexpr (std::is_const_v<M>) {
          take_below(&reflection.GetRepeatedMessage(*message, step.field, i));
        } else {
          take_below(reflection.MutableRepeatedMessage(message, step.field, i));
        }
      }
    } else if (reflection.HasField(*message, step.field)) {
      if constexpr (std::is_const_v<M>) {
        take_below(&reflection.GetMessage(*message, step.field));
      } else {
        take_below(reflection.MutableMessage(message, step.field));
      }
    }
  }
}

void UnqualifyStatus(const Reach& reach, google::rpc::Status* status) {
  status->set_message(Outside(reach, status->message()));
  for (google::protobuf::Any& detail : *status->mutable_details()) {
    if (google::rpc::ErrorInfo info; detail.UnpackTo(&info)) {
      for (auto& [key, value] : *info.mutable_metadata()) value = std::string(reach.Outside(value));
      detail.PackFrom(info);
    } else if (google::rpc::BadRequest request; detail.UnpackTo(&request)) {
      for (auto& violation : *request.mutable_field_violations()) {
        violation.set_description(Outside(reach, violation.description()));
      }
      detail.PackFrom(request);
    }
  }
}

}  // namespace

void AddTouched(const Message& request, std::vector<Touched>* touched) {
  ForEachStep(&request, [touched](const NameStep& step, const Message* message) {
    if (step.kind != NameStep::kName || step.named.thing == Thing::kNone) return;
    const Reflection& reflection = *message->GetReflection();
    std::string name = reflection.GetString(*message, step.field);
    for (const FieldDescriptor* const other : step.named.if_empty) {
      if (name.empty()) name = reflection.GetString(*message, other);
    }
    touched->push_back({step.named.thing, step.named.deed, std::move(name)});
  });
}

void Qualify(const Reach& reach, Message* request) {
  std::string scratch;
  ForEachStep(request, [&](const NameStep& step, Message* message) {
    if (step.kind != NameStep::kName) return;
    const std::string& said = message->GetReflection()->GetStringReference(*message, step.field, &scratch);
    if (!said.empty()) message->GetReflection()->SetString(message, step.field, reach.Inside(said));
  });
}

void Unqualify(const Reach& reach, Message* reply) {
  std::string scratch;
  ForEachStep(reply, [&](const NameStep& step, Message* message) {
    if (step.kind == NameStep::kStatus) return UnqualifyStatus(reach, static_cast<google::rpc::Status*>(message));
    const std::string& inside = message->GetReflection()->GetStringReference(*message, step.field, &scratch);
    if (inside.empty()) return;
    message->GetReflection()->SetString(message, step.field,
                                        step.kind == NameStep::kText ? Outside(reach, inside) : std::string(reach.Outside(inside)));
  });
}

absl::Status Unqualify(const Reach& reach, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status outside = WithMessage(status, Outside(reach, status.message()));
  std::optional<ErrorInfo> info = InfoOf(status);
  if (!info.has_value()) return outside;
  for (auto& [key, value] : info->metadata) value = std::string(reach.Outside(value));
  return WithInfo(std::move(outside), info->reason, std::move(info->metadata));
}

}  // namespace gluond::server
