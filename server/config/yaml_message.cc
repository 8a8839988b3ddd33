#include "server/config/yaml_message.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "google/protobuf/descriptor.h"

namespace gluond::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A number in the range of the field's type.
template <class T, class Wide>
absl::StatusOr<T> Number(const Yaml& yaml) {
  ASSIGN_OR_RETURN(const Wide value, yaml.As<Wide>());
  if (value < static_cast<Wide>(std::numeric_limits<T>::lowest()) || value > static_cast<Wide>(std::numeric_limits<T>::max())) {
    return yaml.Error(value, " is out of range; want ", std::numeric_limits<T>::lowest(), " to ", std::numeric_limits<T>::max());
  }
  return static_cast<T>(value);
}

absl::StatusOr<int> EnumNumber(const Yaml& yaml, const FieldDescriptor& field) {
  ASSIGN_OR_RETURN(const std::string name, yaml.As<std::string>());
  if (const auto* const value = field.enum_type()->FindValueByName(name); value != nullptr) return value->number();
  std::vector<std::string> names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) names.push_back(field.enum_type()->value(i)->name());
  return yaml.Error("there is no '", Excerpt(name), "' here; want ", absl::StrJoin(names, ", "));
}

// One value: of the field, or, where it is a list, the next of it.
absl::Status Put(const Yaml& yaml, const FieldDescriptor* field, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const auto put = [&](auto set, auto add, const auto& value) -> absl::Status {
    RETURN_IF_ERROR(value.status());
    (reflection.*(field->is_repeated() ? add : set))(message, field, *value);
    return absl::OkStatus();
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return put(&Reflection::SetInt32, &Reflection::AddInt32, Number<int32_t, int64_t>(yaml));
    case FieldDescriptor::CPPTYPE_INT64: return put(&Reflection::SetInt64, &Reflection::AddInt64, yaml.As<int64_t>());
    case FieldDescriptor::CPPTYPE_UINT32:
      return put(&Reflection::SetUInt32, &Reflection::AddUInt32, Number<uint32_t, uint64_t>(yaml));
    case FieldDescriptor::CPPTYPE_UINT64: return put(&Reflection::SetUInt64, &Reflection::AddUInt64, yaml.As<uint64_t>());
    case FieldDescriptor::CPPTYPE_FLOAT: return put(&Reflection::SetFloat, &Reflection::AddFloat, Number<float, double>(yaml));
    case FieldDescriptor::CPPTYPE_DOUBLE: return put(&Reflection::SetDouble, &Reflection::AddDouble, yaml.As<double>());
    case FieldDescriptor::CPPTYPE_BOOL: return put(&Reflection::SetBool, &Reflection::AddBool, yaml.As<bool>());
    case FieldDescriptor::CPPTYPE_ENUM: return put(&Reflection::SetEnumValue, &Reflection::AddEnumValue, EnumNumber(yaml, *field));
    case FieldDescriptor::CPPTYPE_STRING: return put(&Reflection::SetString, &Reflection::AddString, yaml.As<std::string>());
    case FieldDescriptor::CPPTYPE_MESSAGE: break;
  }
  return FillMessage(yaml,
                     field->is_repeated() ? reflection.AddMessage(message, field) : reflection.MutableMessage(message, field));
}

}  // namespace

absl::Status FillMessage(const Yaml& map, Message* message) {
  const google::protobuf::Descriptor& type = *message->GetDescriptor();
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  RETURN_IF_ERROR(map.CheckKeys(names));
  for (const auto& [key, value] : map.members()) {
    const FieldDescriptor* const field = type.FindFieldByName(key.text());
    if (field->is_map()) return key.Error("'", key.text(), "' cannot be set by a file");
    if (!field->is_repeated()) {
      RETURN_IF_ERROR(Put(value, field, message));
      continue;
    }
    RETURN_IF_ERROR(value.Want(Yaml::Kind::kList));
    message->GetReflection()->ClearField(message, field);
    for (const Yaml& element : value.elements()) RETURN_IF_ERROR(Put(element, field, message));
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
