#include "server/rpc/tenant_names.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/core/error_info.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
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

// The fields of one type of message that have names, or messages with names.
struct Steps {
  struct Step {
    const FieldDescriptor* field;
    enum { kName, kText, kMessage, kStatus } kind;
    NamedField named = {};  // Set where `kind` is kName or kText.
  };
  std::vector<Step> steps;
};

// The steps of all types that were asked for. Thread-safe.
class StepsOfTypes {
 public:
  // Stays where it is.
  const Steps& Find(const google::protobuf::Descriptor* type) {
    MutexLock lock(mu_);
    return FindLocked(type);
  }

 private:
  const Steps& FindLocked(const google::protobuf::Descriptor* type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (const auto found = known_.find(type); found != known_.end()) return *found->second;
    // Types that hold themselves, as blocks of blocks, have no names below: they are looked at once.
    Steps& steps = *(known_[type] = std::make_unique<Steps>());
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* const field = type->field(i);
      if (std::optional<NamedField> named = NamedFieldOf(*field); named.has_value()) {
        steps.steps.push_back({field, named->is_text ? Steps::Step::kText : Steps::Step::kName, *std::move(named)});
      } else if (field->message_type() == google::rpc::Status::descriptor()) {
        steps.steps.push_back({field, Steps::Step::kStatus});
      } else if (field->message_type() != nullptr && !field->is_map() && !FindLocked(field->message_type()).steps.empty()) {
        steps.steps.push_back({field, Steps::Step::kMessage});
      }
    }
    return steps;
  }

  Mutex mu_;
  absl::flat_hash_map<const google::protobuf::Descriptor*, std::unique_ptr<Steps>> known_ ABSL_GUARDED_BY(mu_);
};

const Steps& StepsOf(const google::protobuf::Descriptor* type) {
  static auto& all = *new StepsOfTypes;
  return all.Find(type);
}

void SetName(const FieldDescriptor* field, Message* message, const std::string& name) {
  message->GetReflection()->SetString(message, field, name);
}

// Calls `look` for each message that is set in the field.
template <class Look>
void ForEachMessage(const Message& message, const FieldDescriptor* field, Look look) {
  const Reflection& reflection = *message.GetReflection();
  if (!field->is_repeated()) {
    if (reflection.HasField(message, field)) look(reflection.GetMessage(message, field));
    return;
  }
  const int size = reflection.FieldSize(message, field);
  for (int i = 0; i < size; ++i) look(reflection.GetRepeatedMessage(message, field, i));
}

// Calls `change` for each message that is set in the field.
template <class Change>
void ForEachMessage(Message* message, const FieldDescriptor* field, Change change) {
  const Reflection* const reflection = message->GetReflection();
  if (!field->is_repeated()) {
    if (reflection->HasField(*message, field)) change(reflection->MutableMessage(message, field));
    return;
  }
  const int size = reflection->FieldSize(*message, field);
  for (int i = 0; i < size; ++i) change(reflection->MutableRepeatedMessage(message, field, i));
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
  const Reflection& reflection = *request.GetReflection();
  for (const auto& [field, kind, named] : StepsOf(request.GetDescriptor()).steps) {
    if (kind == Steps::Step::kMessage) {
      ForEachMessage(request, field, [touched](const Message& each) { AddTouched(each, touched); });
    } else if (kind == Steps::Step::kName && named.thing != Thing::kNone) {
      std::string name = reflection.GetString(request, field);
      for (const FieldDescriptor* const other : named.if_empty) {
        if (!name.empty()) break;
        name = reflection.GetString(request, other);
      }
      touched->push_back({named.thing, named.deed, std::move(name)});
    }
  }
}

void Qualify(const Reach& reach, Message* request) {
  std::string scratch;
  for (const auto& [field, kind, named] : StepsOf(request->GetDescriptor()).steps) {
    if (kind == Steps::Step::kMessage) {
      ForEachMessage(request, field, [&reach](Message* each) { Qualify(reach, each); });
    } else if (kind == Steps::Step::kName) {
      const std::string& said = request->GetReflection()->GetStringReference(*request, field, &scratch);
      if (!said.empty()) SetName(field, request, reach.Inside(said));
    }
  }
}

void Unqualify(const Reach& reach, Message* reply) {
  std::string scratch;
  for (const auto& [field, kind, named] : StepsOf(reply->GetDescriptor()).steps) {
    switch (kind) {
      case Steps::Step::kMessage: ForEachMessage(reply, field, [&reach](Message* each) { Unqualify(reach, each); }); break;
      case Steps::Step::kStatus:
        ForEachMessage(reply, field, [&reach](Message* each) { UnqualifyStatus(reach, static_cast<google::rpc::Status*>(each)); });
        break;
      case Steps::Step::kName:
      case Steps::Step::kText: {
        const std::string& inside = reply->GetReflection()->GetStringReference(*reply, field, &scratch);
        if (inside.empty()) break;
        SetName(field, reply, kind == Steps::Step::kText ? Outside(reach, inside) : std::string(reach.Outside(inside)));
      }
    }
  }
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
