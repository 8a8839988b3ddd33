#include "engine/core/param.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/core/text.h"

namespace gluond {
namespace param_internal {
namespace {

constexpr size_t kMaxTuple = 4096;

absl::Status Expect(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("want ", what)); }

template <class T>
std::string Shortest(T v) {
  char text[64];
  const auto result = std::to_chars(text, text + sizeof(text), v);
  return std::string(text, result.ptr);
}

}  // namespace

absl::StatusOr<std::vector<absl::string_view>> Items(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (!text.empty() && (text.front() == '(' || text.front() == '[')) {
    const char close = text.front() == '(' ? ')' : ']';
    if (text.back() != close || text.size() < 2) return Expect("a closing bracket");
    text = absl::StripAsciiWhitespace(text.substr(1, text.size() - 2));
    if (!text.empty() && text.back() == ',') text.remove_suffix(1);
  }
  std::vector<absl::string_view> items;
  if (text.empty()) return items;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    if (items.size() == kMaxTuple) return Expect(absl::StrCat("at most ", kMaxTuple, " elements"));
    items.push_back(absl::StripAsciiWhitespace(item));
  }
  return items;
}

absl::Status ParseText(absl::string_view text, bool* out) {
  if (text == "True" || text == "true" || text == "1") return *out = true, absl::OkStatus();
  if (text == "False" || text == "false" || text == "0") return *out = false, absl::OkStatus();
  return Expect("True or False");
}
absl::Status ParseText(absl::string_view text, int64_t* out) {
  if (absl::SimpleAtoi(text, out)) return absl::OkStatus();
  double number;  // A JSON client has one kind of number: 3 may arrive as "3.0".
  if (!absl::SimpleAtod(text, &number) || std::nearbyint(number) != number) return Expect("a whole number");
  if (std::abs(number) >= 0x1p53) return Expect("a whole number, from 2^53 on as a string of up to 64 bits' digits");
  *out = static_cast<int64_t>(number);
  return absl::OkStatus();
}
absl::Status ParseText(absl::string_view text, int* out) {
  int64_t wide;
  RETURN_IF_ERROR(ParseText(text, &wide));
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    return Expect("a whole number of 32 bits");
  }
  *out = static_cast<int>(wide);
  return absl::OkStatus();
}
absl::Status ParseText(absl::string_view text, double* out) {
  return absl::SimpleAtod(text, out) ? absl::OkStatus() : Expect("a number");
}
absl::Status ParseText(absl::string_view text, float* out) {
  return absl::SimpleAtof(text, out) ? absl::OkStatus() : Expect("a number");
}
absl::Status ParseText(absl::string_view text, std::string* out) {
  out->assign(text.data(), text.size());
  return absl::OkStatus();
}
absl::Status ParseText(absl::string_view text, DType* out) {
  ASSIGN_OR_RETURN(*out, ParseDType(text));
  return absl::OkStatus();
}

std::string FormatValue(float v) { return Shortest(v); }
std::string FormatValue(double v) { return Shortest(v); }

}  // namespace param_internal

bool IsHidden(absl::string_view key) { return key.size() > 4 && key.substr(0, 2) == "__" && key.substr(key.size() - 2) == "__"; }

const FieldSpec* SchemaBase::Find(absl::string_view name) const {
  for (const FieldSpec& field : fields_) {
    if (field.doc.name == name) return &field;
  }
  return nullptr;
}

std::vector<ArgumentDoc> SchemaBase::Docs() const {
  std::vector<ArgumentDoc> docs;
  for (const FieldSpec& field : fields_) docs.push_back(field.doc);
  return docs;
}

absl::Status SchemaBase::Parse(void* param, const AttrDict& dict) const {
  for (const auto& [key, value] : dict) {
    if (IsHidden(key) || Find(key) != nullptr) continue;
    std::vector<std::string> names;
    for (const FieldSpec& field : fields_) names.push_back(field.doc.name);
    return absl::InvalidArgumentError(absl::StrCat("unknown attribute '", Excerpt(key), "'", DidYouMean(key, names),
                                                   " (possible attributes: ", names.empty() ? "none" : absl::StrJoin(names, ", "),
                                                   ")"));
  }
  for (const FieldSpec& field : fields_) {
    const auto it = dict.find(field.doc.name);
    if (it == dict.end() && field.doc.required) {
      return absl::InvalidArgumentError(
          absl::StrCat("required attribute '", field.doc.name, "' (", field.doc.type, ") is missing"));
    }
    const std::string& text = it == dict.end() ? field.doc.default_text : it->second;
    if (absl::Status status = field.parse(param, text); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", field.doc.name, "' (", field.doc.type, ") is '", Excerpt(text), "'; ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace gluond
