#include "server/codec/attrs_codec.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/core/custom_spec.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond::server {
namespace {

using google::protobuf::Value;

constexpr int kMaxDepth = 4;

// Whole numbers from here on may be another double than they look.
constexpr int64_t kFirstInexact = int64_t{1} << 53;

std::string NumberText(double number) {
  if (number == std::floor(number) && std::fabs(number) < 0x1p53 && !(number == 0 && std::signbit(number))) {
    return absl::StrCat(static_cast<int64_t>(number));
  }
  // The shortest text that reads back as the same number.
  for (int digits = 6; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, number);
    if (std::strtod(text.c_str(), nullptr) == number) return text;
  }
  return absl::StrFormat("%.17g", number);
}

absl::StatusOr<std::string> Text(const Value& value, int depth);

absl::StatusOr<std::string> TupleText(const google::protobuf::ListValue& list, int depth) {
  std::vector<std::string> elements;
  for (const Value& element : list.values()) {
    ASSIGN_OR_RETURN(elements.emplace_back(), Text(element, depth + 1));
  }
  return absl::StrCat("(", absl::StrJoin(elements, ", "), elements.size() == 1 ? ",)" : ")");
}

// A component's text has its name and attributes between punctuation, which these must not contain.
absl::Status CheckPlain(absl::string_view what, absl::string_view text) {
  if (text.find_first_of("(){}[]=:,\"") == absl::string_view::npos) return absl::OkStatus();
  return Invalid("an object's ", what, " is '", Excerpt(text), "', expected a number, a bool, or text without any of (){}[]=:,\"");
}

absl::StatusOr<std::string> ComponentText(const google::protobuf::Struct& component, int depth) {
  const auto name = component.fields().find("name");
  const auto attributes = component.fields().find("attributes");
  const size_t known = (name != component.fields().end()) + (attributes != component.fields().end());
  if (name == component.fields().end() || known != component.fields().size()) {
    return Invalid("an object must be {\"name\": ..., \"attributes\": {...}}");
  }
  RETURN_IF_ERROR(CheckPlain("name", name->second.string_value()));
  std::vector<std::string> pairs;
  if (attributes != component.fields().end()) {
    for (const auto& [key, value] : attributes->second.struct_value().fields()) {
      ASSIGN_OR_RETURN(const std::string text, Text(value, depth + 1));
      RETURN_IF_ERROR(CheckPlain("attribute name", key));
      RETURN_IF_ERROR(CheckPlain(absl::StrCat("attribute '", Excerpt(key), "'"), text));
      pairs.push_back(absl::StrCat(key, "=", text));
    }
  }
  return absl::StrCat(name->second.string_value(), "(", absl::StrJoin(pairs, ", "), ")");
}

absl::StatusOr<std::string> Text(const Value& value, int depth) {
  if (depth > kMaxDepth) return Invalid("lists are nested too deeply");
  switch (value.kind_case()) {
    case Value::kNumberValue: return NumberText(value.number_value());
    case Value::kBoolValue: return std::string(value.bool_value() ? "True" : "False");
    case Value::kStringValue: return value.string_value();
    case Value::kListValue: return TupleText(value.list_value(), depth);
    case Value::kStructValue: return ComponentText(value.struct_value(), depth);
    case Value::kNullValue:
    case Value::KIND_NOT_SET: break;
  }
  return std::string("None");
}

// The value of a parameter of this type (ArgumentDoc::type).
void TextToProto(const std::string& text, absl::string_view type, Value* value) {
  int64_t whole = 0;
  double number = 0;
  bool flag = false;
  if (absl::StartsWith(type, "boolean") && absl::SimpleAtob(text, &flag)) {
    value->set_bool_value(flag);
  } else if ((absl::StartsWith(type, "int") || absl::StartsWith(type, "long")) && absl::SimpleAtoi(text, &whole) &&
             whole > -kFirstInexact && whole < kFirstInexact) {
    value->set_number_value(static_cast<double>(whole));
  } else if (absl::StartsWith(type, "float") && absl::SimpleAtod(text, &number) && std::isfinite(number)) {
    value->set_number_value(number);
  } else {
    value->set_string_value(text);
  }
}

using Places = google::protobuf::RepeatedField<uint32_t>;
using Names = google::protobuf::RepeatedPtrField<std::string>;

std::vector<std::string> ToVector(const Names& names) { return {names.begin(), names.end()}; }

// Adds the places of one kind to a spec's numbers, which begin at `first` for this kind.
absl::Status AddPlaces(const char* kind, const Places& places, size_t count, size_t first, std::vector<uint32_t>* numbers) {
  for (const uint32_t place : places) {
    if (place >= count) return Invalid("custom.dependencies.", kind, " has ", place, ", expected places below ", count);
    numbers->push_back(static_cast<uint32_t>(first) + place);
  }
  return absl::OkStatus();
}

absl::Status AddDependencies(const v1::CustomOperatorSpec::Dependencies& proto, CustomSpec* spec) {
  const size_t outputs = spec->outputs.size(), arguments = spec->arguments.size();
  std::vector<uint32_t>* const numbers = &spec->dependencies.emplace();
  RETURN_IF_ERROR(AddPlaces("out_grads", proto.out_grads(), outputs, 0, numbers));
  RETURN_IF_ERROR(AddPlaces("arguments", proto.arguments(), arguments, outputs, numbers));
  return AddPlaces("outputs", proto.outputs(), outputs, outputs + arguments, numbers);
}

absl::Status Read(const v1::CustomOperatorSpec& proto, CustomSpec* spec) {
  if (proto.has_function()) {
    spec->function = {proto.function().number(), proto.function().inputs(), proto.function().outputs()};
    return spec->Check();
  }
  spec->arguments = ToVector(proto.arguments());
  if (!proto.outputs().empty()) spec->outputs = ToVector(proto.outputs());
  spec->auxiliary = ToVector(proto.auxiliary());
  if (proto.has_dependencies()) RETURN_IF_ERROR(AddDependencies(proto.dependencies(), spec));
  spec->same_shape = proto.same_shape();
  spec->same_dtype = proto.same_dtype();
  spec->shared = proto.shared();
  spec->version = proto.version();
  return spec->Check();
}

}  // namespace

absl::StatusOr<AttrDict> AttrsFromProto(const ProtoAttributes& attributes) {
  AttrDict dict;
  for (const auto& [key, value] : attributes) {
    if (IsHidden(key)) continue;
    absl::StatusOr<std::string> text = Text(value, 0);
    if (!text.ok()) {
      const std::string shown = Excerpt(key);
      return InField(absl::StrCat("attributes[\"", shown, "\"]"), Annotate(text.status(), absl::StrCat("attribute '", shown, "'")));
    }
    dict[key] = *std::move(text);
  }
  return dict;
}

void AttrsToProto(const AttrDict& attrs, absl::Span<const ArgumentDoc> declared, ProtoAttributes* attributes) {
  for (const auto& [key, text] : attrs) {
    const auto is_its = [&key = key](const ArgumentDoc& doc) { return doc.name == key; };
    const auto doc = std::find_if(declared.begin(), declared.end(), is_its);
    TextToProto(text, doc == declared.end() ? "string" : doc->type, &(*attributes)[key]);
  }
}

absl::Status CustomFromProto(const v1::CustomOperatorSpec& proto, AttrDict* attrs) {
  CustomSpec spec;
  RETURN_IF_ERROR(Read(proto, &spec));
  if (!proto.op_type().empty() && !attrs->try_emplace("op_type", proto.op_type()).second) {
    return Invalid("`custom` has the op_type, and so have the attributes; leave it out of these");
  }
  (*attrs)[kCustomAttribute] = spec.ToText();
  return absl::OkStatus();
}

void CustomToProto(AttrDict* attrs, v1::Node* node) {
  if (!attrs->contains(kCustomAttribute)) return;
  const absl::StatusOr<CustomSpec> spec = CustomSpec::Of(*attrs);
  attrs->erase(kCustomAttribute);
  if (!spec.ok()) return;  // The node's operator has read it: this does not happen.
  v1::CustomOperatorSpec& proto = *node->mutable_custom();
  if (auto op_type = attrs->extract("op_type"); !op_type.empty()) proto.set_op_type(std::move(op_type.mapped()));
  if (spec->function.has_value()) {
    proto.mutable_function()->set_number(spec->function->number);
    proto.mutable_function()->set_inputs(spec->function->inputs);
    proto.mutable_function()->set_outputs(spec->function->outputs);
    return;
  }
  proto.mutable_arguments()->Add(spec->arguments.begin(), spec->arguments.end());
  proto.mutable_outputs()->Add(spec->outputs.begin(), spec->outputs.end());
  proto.mutable_auxiliary()->Add(spec->auxiliary.begin(), spec->auxiliary.end());
  if (spec->dependencies.has_value()) {
    const size_t outputs = spec->outputs.size(), arguments = spec->arguments.size();
    v1::CustomOperatorSpec::Dependencies& reads = *proto.mutable_dependencies();
    for (const uint32_t number : *spec->dependencies) {
      if (number < outputs) {
        reads.add_out_grads(number);
      } else if (number < outputs + arguments) {
        reads.add_arguments(number - static_cast<uint32_t>(outputs));
      } else {
        reads.add_outputs(number - static_cast<uint32_t>(outputs + arguments));
      }
    }
  }
  proto.set_same_shape(spec->same_shape);
  proto.set_same_dtype(spec->same_dtype);
  proto.set_shared(spec->shared);
  proto.set_version(spec->version);
}

}  // namespace gluond::server
