#include "server/codec/attrs_codec.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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

}  // namespace gluond::server
