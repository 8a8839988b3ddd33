#include "ops/library/library_facts.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "ops/library/library_call.h"

namespace gluond::ops {
namespace {

constexpr size_t kMostName = 64, kMostText = 16384, kMostBytes = 65536;
constexpr uint32_t kMostArguments = 64, kMostOutputs = 1024, kMostNames = 256;

// The least sizes, which version 1 began with.
constexpr size_t kFacts1 = offsetof(gluond_op_facts, compute_gpu) + sizeof(void*);
constexpr size_t kInput1 = offsetof(gluond_input, flags) + sizeof(uint32_t);
constexpr size_t kAttribute1 = offsetof(gluond_attribute, optional) + sizeof(int32_t);

// A structure of the library's, which has `bytes` there: what this server does not know of it has to be zeros.
template <class T>
absl::StatusOr<T> Known(const void* data, size_t bytes, const char* what) {
  T known{};
  std::memcpy(&known, data, std::min(bytes, sizeof(T)));
  const char* const begin = static_cast<const char*>(data);
  for (size_t i = sizeof(T); i < bytes; ++i) {
    if (begin[i] != 0) return Invalid(what, " has facts that this server does not know; use the library with a newer server");
  }
  return known;
}

// Element i of a list whose elements have `bytes` each.
template <class T>
absl::StatusOr<T> Element(const T* list, uint32_t i, size_t bytes, const char* what) {
  return Known<T>(reinterpret_cast<const char*>(list) + i * bytes, bytes, what);
}

absl::Status CheckSize(size_t bytes, size_t least, const char* what) {
  if (bytes >= least && bytes <= kMostBytes) return absl::OkStatus();
  return Invalid("`sizes` says that ", what, " has ", bytes, " bytes, expected ", least, " or more; set it to GLUOND_SIZES");
}

absl::Status CheckList(const void* list, uint32_t count, uint32_t most, const char* what) {
  if (count > most) return Invalid("it has ", count, " ", what, ", expected at most ", most);
  if (count > 0 && list == nullptr) return Invalid("it has ", count, " ", what, ", but their list is null");
  return absl::OkStatus();
}

// A text of the library's; "" for null.
absl::StatusOr<std::string> Text(const char* text, const char* what) {
  if (text == nullptr) return std::string();
  const size_t length = strnlen(text, kMostText + 1);
  if (length > kMostText) return Invalid(what, " is longer than ", kMostText, " bytes");
  if (!IsUtf8({text, length})) return Invalid(what, " '", Excerpt({text, length}), "' is not UTF-8");
  return std::string(text, length);
}

absl::StatusOr<std::string> NameText(const char* name, const char* what) {
  ASSIGN_OR_RETURN(std::string text, Text(name, what));
  const bool is_name = !text.empty() && text.size() <= kMostName && !absl::ascii_isdigit(text[0]) &&
                       absl::c_all_of(text, [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
  if (is_name) return text;
  return Invalid(what, " is '", Excerpt(text), "'; want a letter or _, and letters, digits and _ after it, ", kMostName,
                 " characters at most");
}

const char* KindText(int32_t kind) {
  switch (kind) {
    case GLUOND_ATTR_BOOL: return "boolean";
    case GLUOND_ATTR_INT: return "long";
    case GLUOND_ATTR_FLOAT: return "float";
    case GLUOND_ATTR_STRING: return "string";
    case GLUOND_ATTR_DTYPE: return "dtype";
    case GLUOND_ATTR_INTS: return "tuple of int";
    case GLUOND_ATTR_FLOATS: return "tuple of float";
    case GLUOND_ATTR_ENUM: return "enum";
    default: return nullptr;
  }
}

// The names of an ENUM.
absl::StatusOr<std::vector<std::string>> EnumNamesOf(const gluond_attribute& attribute) {
  std::vector<std::string> names;
  for (uint32_t i = 0; attribute.names != nullptr && attribute.names[i] != nullptr; ++i) {
    if (i == kMostNames) return Invalid("it has more than ", kMostNames, " names; end the list with a null");
    ASSIGN_OR_RETURN(names.emplace_back(), NameText(attribute.names[i], "a name of an ENUM"));
  }
  if (names.empty()) return Invalid("it is an ENUM without names");
  return names;
}

absl::Status ParseValue(int32_t kind, const std::vector<std::string>& names, absl::string_view text, size_t place,
                        LibraryCall* call) {
  using param_internal::ParseText;
  gluond_value& value = call->value(place);
  switch (kind) {
    case GLUOND_ATTR_BOOL: {
      bool is = false;
      RETURN_IF_ERROR(ParseText(text, &is));
      value.integer = is;
      return absl::OkStatus();
    }
    case GLUOND_ATTR_INT: return ParseText(text, &value.integer);
    case GLUOND_ATTR_FLOAT: return ParseText(text, &value.number);
    case GLUOND_ATTR_DTYPE: {
      DType type = DType::kUnknown;
      RETURN_IF_ERROR(ParseText(text, &type));
      value.integer = static_cast<int64_t>(type);
      return absl::OkStatus();
    }
    case GLUOND_ATTR_INTS: {
      std::vector<int64_t> integers;
      RETURN_IF_ERROR(ParseText(text, &integers));
      return call->SetIntegers(place, std::move(integers)), absl::OkStatus();
    }
    case GLUOND_ATTR_FLOATS: {
      std::vector<double> numbers;
      RETURN_IF_ERROR(ParseText(text, &numbers));
      return call->SetNumbers(place, std::move(numbers)), absl::OkStatus();
    }
    case GLUOND_ATTR_ENUM: {
      const auto it = absl::c_find(names, text);
      if (it == names.end()) return Invalid("want one of the names listed");
      value.integer = it - names.begin();
      return absl::OkStatus();
    }
    default: return absl::OkStatus();  // A string's text is its value.
  }
}

}  // namespace

absl::StatusOr<LibraryFacts> LibraryFacts::Read(const gluond_op_facts* facts) {
  if (facts == nullptr) return Invalid("register_op was given no facts");
  gluond_sizes sizes;
  std::memcpy(&sizes, &facts->sizes, sizeof(sizes));
  RETURN_IF_ERROR(CheckSize(sizes.facts, kFacts1, "gluond_op_facts"));
  RETURN_IF_ERROR(CheckSize(sizes.input, kInput1, "gluond_input"));
  RETURN_IF_ERROR(CheckSize(sizes.attribute, kAttribute1, "gluond_attribute"));
  LibraryFacts result;
  ASSIGN_OR_RETURN(const gluond_op_facts known, Known<gluond_op_facts>(facts, sizes.facts, "gluond_op_facts"));
  ASSIGN_OR_RETURN(result.name, NameText(known.name, "an operator's name"));
  const auto read = [&]() -> absl::Status {
    if (const Op* op = Op::Find(result.name)) {
      return Invalid("the server has an operator of this name already", op->name() == result.name ? "" : ", as an alias",
                     "; choose another name");
    }
    ASSIGN_OR_RETURN(result.description, Text(known.description, "its description"));
    RETURN_IF_ERROR(result.ReadInputs(known));
    RETURN_IF_ERROR(result.ReadAttributes(known));
    RETURN_IF_ERROR(result.ReadOutputs(known));
    RETURN_IF_ERROR(result.ReadInplace(known));
    if (known.compute_cpu == nullptr && known.compute_gpu == nullptr) return Invalid("it has no kernel; set compute_cpu");
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(Annotate(read(), absl::StrCat("operator '", result.name, "'")));
  result.functions = known;
  result.functions.name = result.functions.description = result.functions.variable_inputs = nullptr;
  result.functions.inputs = nullptr;
  result.functions.output_names = nullptr;
  result.functions.attributes = nullptr;
  result.functions.inplace = nullptr;
  return result;
}

// An argument's name is new, and none that clients give a meaning of their own.
absl::Status LibraryFacts::CheckName(const std::string& argument) const {
  if (IsHidden(argument)) return Invalid("the argument '", argument, "' has a name of the graph's own; choose another one");
  for (const char* reserved : {"name", "out", "ctx", "attr"}) {
    if (argument == reserved) return Invalid("the argument '", argument, "' has a name that clients use; choose another one");
  }
  const bool taken = absl::c_any_of(inputs, [&](const ArgumentDoc& doc) { return doc.name == argument; });
  if (taken || Find(argument) != nullptr) return Invalid("two arguments have the name '", argument, "'");
  return absl::OkStatus();
}

absl::Status LibraryFacts::ReadInputs(const gluond_op_facts& facts) {
  RETURN_IF_ERROR(CheckList(facts.inputs, facts.num_inputs, kMostArguments, "inputs"));
  const bool variable = facts.variable_inputs != nullptr;
  if (variable && facts.num_inputs != 1) return Invalid("it has variable_inputs, and so wants one input, got ", facts.num_inputs);
  if (variable && facts.count_inputs != nullptr) return Invalid("it has both variable_inputs and count_inputs; set one of them");
  for (uint32_t i = 0; i < facts.num_inputs; ++i) {
    ASSIGN_OR_RETURN(const gluond_input input, Element(facts.inputs, i, facts.sizes.input, "gluond_input"));
    ASSIGN_OR_RETURN(std::string argument, NameText(input.name, "an input's name"));
    RETURN_IF_ERROR(CheckName(argument));
    ASSIGN_OR_RETURN(std::string text, Text(input.description, "an input's description"));
    const uint32_t flags = input.flags;
    if ((flags & ~(GLUOND_INPUT_SHAPE_ONLY | GLUOND_INPUT_STATE)) != 0) {
      return Invalid("input '", argument, "' has the flags ", flags, ", which gluond_op.h does not have");
    }
    if (flags == (GLUOND_INPUT_SHAPE_ONLY | GLUOND_INPUT_STATE)) return Invalid("input '", argument, "' is both state and shape");
    if (flags != 0 && variable) return Invalid("input '", argument, "' has flags, but stands for any number of inputs");
    if (flags == GLUOND_INPUT_SHAPE_ONLY) shape_only.push_back(i);
    if (flags == GLUOND_INPUT_STATE) states.push_back(i);
    inputs.push_back({std::move(argument), variable ? "NDArray[]" : "NDArray", true, "", std::move(text)});
  }
  return absl::OkStatus();
}

absl::Status LibraryFacts::ReadAttribute(const gluond_attribute& attribute) {
  FieldSpec field;
  ASSIGN_OR_RETURN(field.doc.name, NameText(attribute.name, "an attribute's name"));
  RETURN_IF_ERROR(CheckName(field.doc.name));
  const std::string where = absl::StrCat("attribute '", field.doc.name, "'");
  ASSIGN_OR_RETURN(field.doc.description, Annotate(Text(attribute.description, "its description"), where));
  const char* const kind = KindText(attribute.kind);
  if (kind == nullptr) return Invalid(where, " is of kind ", attribute.kind, ", which gluond_op.h does not have");
  field.doc.type = kind;
  std::vector<std::string> names;
  if (attribute.kind == GLUOND_ATTR_ENUM) {
    ASSIGN_OR_RETURN(names, Annotate(EnumNamesOf(attribute), where));
    field.doc.type = absl::StrCat("{'", absl::StrJoin(names, "', '"), "'}");
  }
  const bool optional = attribute.optional != 0;
  if (optional) absl::StrAppend(&field.doc.type, " or None");
  field.parse = [kind = attribute.kind, optional, names = std::move(names), place = fields_.size()](
                    void* param, absl::string_view text) -> absl::Status {
    auto* const call = static_cast<LibraryCall*>(param);
    call->SetText(place, std::string(text));
    if (optional && (text == "None" || text.empty())) return call->value(place).is_none = 1, absl::OkStatus();
    return ParseValue(kind, names, text, place, call);
  };
  if (attribute.default_text != nullptr) {
    field.doc.required = false;
    ASSIGN_OR_RETURN(field.doc.default_text, Annotate(Text(attribute.default_text, "its default"), where));
    LibraryCall call(fields_.size() + 1, nullptr);
    const absl::Status parsed = field.parse(&call, field.doc.default_text);
    if (!parsed.ok()) {
      return Invalid(where, " (", field.doc.type, ") has the default '", Excerpt(field.doc.default_text), "'; ", parsed.message());
    }
  }
  fields_.push_back(std::move(field));
  return absl::OkStatus();
}

absl::Status LibraryFacts::ReadAttributes(const gluond_op_facts& facts) {
  RETURN_IF_ERROR(CheckList(facts.attributes, facts.num_attributes, kMostArguments, "attributes"));
  const bool decides = facts.infer_shape != nullptr || facts.infer_type != nullptr || facts.count_inputs != nullptr ||
                       facts.count_outputs != nullptr || facts.variable_inputs != nullptr;
  for (uint32_t i = 0; i < facts.num_attributes; ++i) {
    ASSIGN_OR_RETURN(const gluond_attribute attribute, Element(facts.attributes, i, facts.sizes.attribute, "gluond_attribute"));
    RETURN_IF_ERROR(ReadAttribute(attribute));
    fields_.back().doc.decides = decides;
    const bool holds_count = facts.variable_inputs != nullptr && fields_.back().doc.name == facts.variable_inputs;
    if (holds_count && attribute.kind == GLUOND_ATTR_INT && attribute.optional == 0) variable_inputs = i;
  }
  if (facts.variable_inputs == nullptr || variable_inputs) return absl::OkStatus();
  return Invalid("variable_inputs names '", Excerpt({facts.variable_inputs, strnlen(facts.variable_inputs, kMostName + 1)}),
                 "', expected an attribute of the kind INT");
}

absl::Status LibraryFacts::ReadOutputs(const gluond_op_facts& facts) {
  if (facts.num_outputs == 0 || facts.num_outputs > kMostOutputs) {
    return Invalid("it has ", facts.num_outputs, " outputs, expected 1 to ", kMostOutputs);
  }
  if (facts.num_visible_outputs > facts.num_outputs) {
    return Invalid("it has ", facts.num_visible_outputs, " visible outputs of ", facts.num_outputs);
  }
  for (uint32_t i = 0; facts.output_names != nullptr && i < facts.num_outputs; ++i) {
    ASSIGN_OR_RETURN(std::string output, NameText(facts.output_names[i], "an output's name"));
    if (absl::c_linear_search(output_names, output)) return Invalid("two outputs have the name '", output, "'");
    output_names.push_back(std::move(output));
  }
  return absl::OkStatus();
}

absl::Status LibraryFacts::ReadInplace(const gluond_op_facts& facts) {
  RETURN_IF_ERROR(CheckList(facts.inplace, facts.num_inplace, kMostArguments, "pairs of `inplace`"));
  for (uint32_t i = 0; i < facts.num_inplace; ++i) {
    const gluond_inplace pair = facts.inplace[i];
    if (pair.input >= facts.num_inputs || pair.output >= facts.num_outputs) {
      return Invalid("`inplace` has input ", pair.input, " and output ", pair.output, ", of ", facts.num_inputs, " inputs and ",
                     facts.num_outputs, " outputs");
    }
    inplace.emplace_back(static_cast<int>(pair.input), static_cast<int>(pair.output));
  }
  return absl::OkStatus();
}

absl::Status LibraryFacts::Parse(NodeAttrs* attrs) const {
  const auto made = std::make_shared<LibraryCall>(fields_.size(), functions.user);
  RETURN_IF_ERROR(SchemaBase::Parse(made.get(), attrs->dict));
  gluond_call& call = made->call();
  gluond_error error;
  if (functions.check != nullptr) {
    const int32_t code = functions.check(&call, &error);
    RETURN_IF_ERROR(ToStatus(code, error));
  }
  const auto count = [&call](auto* function, uint32_t most, const char* what) -> absl::StatusOr<uint32_t> {
    const uint32_t counted = function == nullptr ? most : function(&call);
    if (counted <= most) return counted;
    return absl::InternalError(absl::StrCat("the library counts ", counted, " ", what, ", expected at most ", most));
  };
  if (variable_inputs) {
    const int64_t number = made->value(*variable_inputs).integer;
    constexpr int64_t kMostInputs = 1 << 20;
    if (number < 0 || number > kMostInputs) return Invalid("the number of inputs is ", number, ", expected 0 to ", kMostInputs);
    call.num_inputs = static_cast<uint32_t>(number);
  } else {
    ASSIGN_OR_RETURN(call.num_inputs, count(functions.count_inputs, functions.num_inputs, "inputs"));
  }
  ASSIGN_OR_RETURN(call.num_outputs, count(functions.count_outputs, functions.num_outputs, "outputs"));
  if (call.num_outputs == 0) return absl::InternalError("the library counts no outputs, expected at least 1");
  attrs->Store(LibraryCallPtr(made));
  return absl::OkStatus();
}

}  // namespace gluond::ops
