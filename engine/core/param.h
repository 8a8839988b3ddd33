// Param: typed operator parameters, declared once. From the declaration come the parser, the error messages,
// the operator's documentation and the clients' docstrings (as with dmlc::Parameter in MXNet).
//
//   struct PoolingParam : Param<PoolingParam> {
//     int pool_type;
//     std::vector<int64_t> kernel;
//     static void Fields(Schema<PoolingParam>& s) {
//       s.Field("pool_type", &PoolingParam::pool_type).Enum({{"max", kMax}, {"avg", kAvg}}).Default("max")
//           .Describe("What to take of each window.");
//       s.Field("kernel", &PoolingParam::kernel).Describe("Height and width of the window.");
//     }
//   };
//   ... .add_arguments(PoolingParam::__FIELDS__()).set_attr_parser(ParamParser<PoolingParam>)
//
// A field without a default is required. Values arrive as text in Python's or MXNet's spelling: "(3, 3)",
// "True", "None", "float32".
// Field types: bool, int, int64_t, float, double, std::string, DType, std::vector<int64_t>, std::vector<double>,
// std::vector<std::optional<int64_t>> ("(None, 3)") and std::optional of any of these ("None").

#ifndef ENGINE_CORE_PARAM_H_
#define ENGINE_CORE_PARAM_H_

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/core/dtype.h"
#include "engine/core/node_attrs.h"
#include "engine/core/status_macros.h"

namespace gluond {

// One documented argument of an operator: a tensor ("NDArray", "NDArray[]") or a parameter.
struct ArgumentDoc {
  std::string name;
  std::string type;  // "int", "float", "boolean", "string", "{'max', 'avg'}", "tuple of int", "int or None".
  bool required = true;
  std::string default_text;  // "" when required.
  std::string description;
  bool decides = false;  // A parameter: which inputs or outputs the call has, or how the outputs follow from the inputs.
};

// One field of a parameter struct, with the struct's type erased.
struct FieldSpec {
  ArgumentDoc doc;
  std::function<absl::Status(void* param, absl::string_view text)> parse;
};

class SchemaBase {
 public:
  const std::vector<FieldSpec>& fields() const { return fields_; }
  const FieldSpec* Find(absl::string_view name) const;
  std::vector<ArgumentDoc> Docs() const;

  // Sets every field from `dict`, or from its default. Keys like "__init__" are left alone. INVALID_ARGUMENT:
  // an unknown key (with the closest names), a missing required field, a value of the wrong form or range.
  absl::Status Parse(void* param, const AttrDict& dict) const;

 protected:
  std::vector<FieldSpec> fields_;
};

// Whether an attribute's key is one of the graph's, like "__init__", and no parameter of an operator.
bool IsHidden(absl::string_view key);

namespace param_internal {

absl::Status ParseText(absl::string_view text, bool* out);
absl::Status ParseText(absl::string_view text, int* out);
absl::Status ParseText(absl::string_view text, int64_t* out);
absl::Status ParseText(absl::string_view text, float* out);
absl::Status ParseText(absl::string_view text, double* out);
absl::Status ParseText(absl::string_view text, std::string* out);
absl::Status ParseText(absl::string_view text, DType* out);
template <class T>
absl::Status ParseText(absl::string_view text, std::vector<T>* out);
template <class T>
absl::Status ParseText(absl::string_view text, std::optional<T>* out) {
  if (text == "None" || text.empty()) {
    out->reset();
    return absl::OkStatus();
  }
  return ParseText(text, &out->emplace());
}
// The items of "(1, 2)", "[1,2]", "(1,)", "()" or "1".
absl::StatusOr<std::vector<absl::string_view>> Items(absl::string_view text);
template <class T>
absl::Status ParseText(absl::string_view text, std::vector<T>* out) {
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> items, Items(text));
  out->clear();
  for (absl::string_view item : items) RETURN_IF_ERROR(ParseText(item, &out->emplace_back()));
  return absl::OkStatus();
}

// The shortest text that reads back as `v`.
std::string FormatValue(float v);
std::string FormatValue(double v);
inline std::string FormatValue(bool v) { return v ? "True" : "False"; }
inline std::string FormatValue(int v) { return absl::StrCat(v); }
inline std::string FormatValue(int64_t v) { return absl::StrCat(v); }
inline std::string FormatValue(const std::string& v) { return v; }
inline std::string FormatValue(DType v) { return std::string(Name(v)); }
template <class T>
std::string FormatValue(const std::vector<T>& v);
template <class T>
std::string FormatValue(const std::optional<T>& v) {
  return v.has_value() ? FormatValue(*v) : "None";
}
template <class T>
std::string FormatValue(const std::vector<T>& v) {
  return absl::StrCat("(", absl::StrJoin(v, ", ", [](std::string* out, const T& e) { out->append(FormatValue(e)); }),
                      v.size() == 1 ? ",)" : ")");
}

template <class T>
inline constexpr const char* kTypeText = "string";
template <>
inline constexpr const char* kTypeText<bool> = "boolean";
template <>
inline constexpr const char* kTypeText<int> = "int";
template <>
inline constexpr const char* kTypeText<int64_t> = "long";
template <>
inline constexpr const char* kTypeText<float> = "float";
template <>
inline constexpr const char* kTypeText<double> = "float";
template <>
inline constexpr const char* kTypeText<DType> = "dtype";
template <>
inline constexpr const char* kTypeText<std::vector<int64_t>> = "tuple of int";
template <>
inline constexpr const char* kTypeText<std::vector<double>> = "tuple of float";
template <>
inline constexpr const char* kTypeText<std::vector<std::optional<int64_t>>> = "tuple of int or None";

template <class T>
struct Optional : std::false_type {
  using Value = T;
};
template <class T>
struct Optional<std::optional<T>> : std::true_type {
  using Value = T;
};

}  // namespace param_internal

using EnumNames = std::vector<std::pair<std::string, int>>;

// Builds one field; returned by Schema::Field.
template <class T>
class FieldBuilder {
  using Value = typename param_internal::Optional<T>::Value;

 public:
  struct Rules {
    EnumNames names;
    std::function<absl::Status(const Value&)> check;
  };

  FieldBuilder(FieldSpec* spec, std::shared_ptr<Rules> rules) : spec_(spec), rules_(std::move(rules)) {}

  // The field's value when the key is absent: of the field's type, or an enumerator's name.
  FieldBuilder& Default(const T& value) {
    if constexpr (param_internal::Optional<T>::value) {
      return Default(value.has_value() ? TextOf(*value).c_str() : "None");
    } else {
      return Default(TextOf(value).c_str());
    }
  }
  FieldBuilder& Default(const char* text) {
    spec_->doc.required = false;
    spec_->doc.default_text = text;
    return *this;
  }
  FieldBuilder& Describe(std::string text) { return spec_->doc.description = std::move(text), *this; }
  // See ArgumentDoc::decides. A dtype always does.
  FieldBuilder& Decides() { return spec_->doc.decides = true, *this; }
  // For int fields: the values by name. Numbers are not accepted.
  FieldBuilder& Enum(EnumNames names) {
    spec_->doc.type = "{";
    for (const auto& [name, value] : names) {
      absl::StrAppend(&spec_->doc.type, spec_->doc.type.size() > 1 ? ", " : "", "'", name, "'");
    }
    absl::StrAppend(&spec_->doc.type, "}", param_internal::Optional<T>::value ? " or None" : "");
    rules_->names = std::move(names);
    return *this;
  }
  FieldBuilder& Range(Value low, Value high) {  // Inclusive.
    return Check([=](const Value& v) { return v >= low && v <= high; },
                 absl::StrCat("want ", param_internal::FormatValue(low), " to ", param_internal::FormatValue(high)));
  }
  FieldBuilder& AtLeast(Value low) {
    return Check([=](const Value& v) { return v >= low; }, absl::StrCat("want ", param_internal::FormatValue(low), " or more"));
  }
  FieldBuilder& Above(Value low) {
    return Check([=](const Value& v) { return v > low; }, absl::StrCat("want more than ", param_internal::FormatValue(low)));
  }
  // For tuples: every element in [low, high].
  template <class E>
  FieldBuilder& Elements(E low, E high) {
    return Check(
        [=](const Value& v) {
          for (auto e : v)
            if (!(e >= low && e <= high)) return false;
          return true;
        },
        absl::StrCat("want each element ", low, " to ", high));
  }
  // `ok` says whether a value is allowed; `want` is the error message. All checks of a field count.
  FieldBuilder& Check(std::function<bool(const Value&)> ok, std::string want) {
    rules_->check = [before = std::move(rules_->check), ok = std::move(ok), want = std::move(want)](const Value& v) {
      absl::Status status = before ? before(v) : absl::OkStatus();
      return !status.ok() || ok(v) ? status : absl::InvalidArgumentError(want);
    };
    return *this;
  }

 private:
  std::string TextOf(const Value& value) const {
    if constexpr (std::is_same_v<Value, int>) {
      for (const auto& [name, number] : rules_->names)
        if (number == value) return name;
    }
    return param_internal::FormatValue(value);
  }

  FieldSpec* spec_;
  std::shared_ptr<Rules> rules_;
};

template <class P>
class Schema : public SchemaBase {
 public:
  Schema() { fields_.reserve(kMaxFields); }  // So that a FieldBuilder's pointer stays valid.

  template <class T>
  FieldBuilder<T> Field(std::string name, T P::*member) {
    using Value = typename param_internal::Optional<T>::Value;
    auto rules = std::make_shared<typename FieldBuilder<T>::Rules>();
    FieldSpec& spec = fields_.emplace_back();
    spec.doc.name = std::move(name);
    spec.doc.type = absl::StrCat(param_internal::kTypeText<Value>, param_internal::Optional<T>::value ? " or None" : "");
    spec.doc.decides = std::is_same_v<Value, DType>;
    const auto check = [rules](const T& value) -> absl::Status {
      if (!rules->check) return absl::OkStatus();
      if constexpr (param_internal::Optional<T>::value) {
        return value.has_value() ? rules->check(*value) : absl::OkStatus();
      } else {
        return rules->check(value);
      }
    };
    spec.parse = [member, rules, check](void* param, absl::string_view text) -> absl::Status {
      T value{};
      bool named = false;
      if constexpr (std::is_same_v<Value, int>) {
        if (!rules->names.empty() && !(param_internal::Optional<T>::value && text == "None")) {
          for (const auto& [n, number] : rules->names) {
            if (text == n) value = number, named = true;
          }
          if (!named) return absl::InvalidArgumentError("want one of the names listed");
        }
      }
      if (!named) RETURN_IF_ERROR(param_internal::ParseText(text, &value));
      RETURN_IF_ERROR(check(value));
      static_cast<P*>(param)->*member = std::move(value);
      return absl::OkStatus();
    };
    return FieldBuilder<T>(&spec, std::move(rules));
  }

 private:
  static constexpr size_t kMaxFields = 32;
};

template <class P>
struct Param {
  // Built at first use; lives until exit.
  static const Schema<P>& GetSchema() {
    static const Schema<P>& schema = *[] {
      auto* s = new Schema<P>;
      P::Fields(*s);
      return s;
    }();
    return schema;
  }
  static std::vector<ArgumentDoc> __FIELDS__() { return GetSchema().Docs(); }
};

// The attribute parser of an operator whose parameters are a P: attrs->parsed becomes a P.
template <class P>
absl::Status ParamParser(NodeAttrs* attrs) {
  P param{};
  RETURN_IF_ERROR(P::GetSchema().Parse(&param, attrs->dict));
  attrs->Store(std::move(param));
  return absl::OkStatus();
}

}  // namespace gluond

#endif  // ENGINE_CORE_PARAM_H_
