// CheckAttribute compares a member of an options struct of gluond/op.h with the registry's attribute: its default, and that the
// registry reads another value as the library writes it. CheckAllAttributes, which generate_op_cases.py writes, does so for each.

#ifndef TESTS_CLIENT_CPP_CHECK_ATTRIBUTE_H_
#define TESTS_CLIENT_CPP_CHECK_ATTRIBUTE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cpp/attribute_texts.h"
#include "engine/core/op.h"
#include "gluond/op.h"
#include "gtest/gtest.h"

namespace gluond::testing {

namespace op = client::op;

// How many attributes there are.
int CheckAllAttributes();

// The names of "{'max', 'avg'} or None".
inline std::vector<std::string> NamesOf(const ArgumentDoc& doc) {
  std::vector<std::string> names = absl::StrSplit(doc.type.substr(1, doc.type.find('}') - 1), ", ");
  for (std::string& name : names) name = name.substr(1, name.size() - 2);
  return names;
}

// The text of a value of the library's, by the registry's names.
template <class T>
std::string TextOf(const T& value, const ArgumentDoc& doc) {
  if constexpr (std::is_enum_v<T> && !std::is_same_v<T, client::DType>) {
    return NamesOf(doc)[static_cast<size_t>(value)];
  } else {
    op::AttributeTexts texts;
    texts.Add("key", op::Required<T>(value));
    return std::get<std::string>(texts.Take()[0].second.is);
  }
}
template <class T>
std::string TextOf(const std::optional<T>& value, const ArgumentDoc& doc) {
  return value.has_value() ? TextOf(*value, doc) : "None";
}
// A tuple that is absent has no default of its own.
template <class T>
std::string TextOf(const op::Tuple<T>& value, const ArgumentDoc& doc) {
  if (!value.has_value()) return absl::StrContains(doc.default_text, "None") ? "None" : "()";
  op::AttributeTexts texts;
  texts.Add("key", value);
  return std::get<std::string>(texts.Take()[0].second.is);
}

// Another value, which the attribute may have.
inline bool Other(bool value, const ArgumentDoc&) { return !value; }
inline int64_t Other(int64_t value, const ArgumentDoc&) { return value > 1 ? value - 1 : value + 1; }
inline double Other(double value, const ArgumentDoc&) { return value == 0 ? 0.0625 : value / 2; }
inline std::string Other(const std::string& value, const ArgumentDoc&) { return value + "text"; }
inline client::DType Other(client::DType value, const ArgumentDoc&) {
  return value == client::DType::kFloat64 ? client::DType::kFloat32 : client::DType::kFloat64;
}
inline op::Ints Other(const op::Ints&, const ArgumentDoc&) { return {1, 2}; }
inline op::Floats Other(const op::Floats& value, const ArgumentDoc&) {
  if (value.values().size() == 2) return {0.5, 1e-7};
  return {0.5, 1e-7, 2, 1};
}
inline op::Bounds Other(const op::Bounds&, const ArgumentDoc&) { return {1, std::nullopt}; }
template <class Enum, std::enable_if_t<std::is_enum_v<Enum>, int> = 0>
Enum Other(Enum value, const ArgumentDoc& doc) {
  return static_cast<Enum>((static_cast<size_t>(value) + 1) % NamesOf(doc).size());
}
template <class T>
std::optional<T> Other(const std::optional<T>& value, const ArgumentDoc& doc) {
  return Other(value.value_or(T{}), doc);
}
template <class T>
op::Required<T> Other(const op::Required<T>&, const ArgumentDoc& doc) {
  return Other(T{}, doc);
}

// Attributes that take fewer values than others of their types: the other value is refused.
inline bool IsNarrow(absl::string_view attribute) {
  static const auto& narrow = *new absl::flat_hash_set<std::string>{"RNN projection_size",
                                                                    "RNN lstm_state_clip_min",
                                                                    "RNN lstm_state_clip_max",
                                                                    "SequenceReverse axis",
                                                                    "_random_randint dtype",
                                                                    "_linalg_gemm2 axis",
                                                                    "_contrib_MultiBoxDetection background_id"};
  return narrow.contains(attribute);
}

// Texts for attributes beside one, without which an operator refuses it.
inline AttrDict TextsBeside(absl::string_view name, absl::string_view key) {
  if (key == "num_weights") return {};
  if (name == "Pooling") return {{"kernel", "(2, 3)"}};
  if (name == "_random_randint") return {{"low", key == "high" ? "0" : "1"}, {"high", "3"}};
  if (key == "num_group") return {{"num_filter", "2"}};
  if (key == "adj") return {{"stride", "(2, 3)"}};
  if (key == "sample_type") return {{"num_args", "2"}, {"num_filter", "1"}};
  if (name == "_contrib_BilinearResize2D") return {{"scale_height", "2"}, {"scale_width", "2"}};
  if (absl::StartsWith(name, "multi_") && absl::StrContains(name, "sgd_"))
    return {{"num_weights", "4"}, {"lrs", "(1, 1, 1, 1)"}, {"wds", "(1, 1, 1, 1)"}};
  return {};
}

// And for those that are required.
inline void AddRequired(const Op& registered, AttrDict* dict) {
  for (const ArgumentDoc& doc : registered.arguments()) {
    if (!doc.required || absl::StartsWith(doc.type, "NDArray") || dict->contains(doc.name)) continue;
    (*dict)[doc.name] = absl::StartsWith(doc.type, "{")       ? NamesOf(doc)[0]
                        : absl::StartsWith(doc.type, "dtype") ? "float32"
                        : absl::StartsWith(doc.type, "tuple") ? "(1, 2)"
                                                              : "1";
  }
}

template <class T>
inline constexpr bool kIsRequired = false;
template <class T>
inline constexpr bool kIsRequired<op::Required<T>> = true;

template <class Options, class T>
void CheckAttribute(const char* name, const char* key, T Options::*member) {
  SCOPED_TRACE(absl::StrCat(name, " ", key));
  const Op* registered = Op::Find(name);
  ASSERT_NE(registered, nullptr);
  const auto& docs = registered->arguments();
  const auto doc = std::find_if(docs.begin(), docs.end(), [key](const ArgumentDoc& each) { return each.name == key; });
  ASSERT_NE(doc, docs.end());

  Options options;
  EXPECT_TRUE(ToAttributes(options).empty());
  if constexpr (kIsRequired<T>) {
    EXPECT_TRUE(doc->required);
  } else if (!doc->required) {
    EXPECT_EQ(TextOf(options.*member, *doc), doc->default_text);
  }

  options.*member = Other(options.*member, *doc);
  const client::Attributes given = ToAttributes(options);
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].first, key);
  NodeAttrs attrs;
  attrs.op = registered;
  attrs.dict = TextsBeside(name, key);
  attrs.dict[key] = std::get<std::string>(given[0].second.is);
  AddRequired(*registered, &attrs.dict);
  const absl::Status status = registered->ParseAttrs(&attrs, 2);
  EXPECT_EQ(status.ok(), !IsNarrow(absl::StrCat(name, " ", key))) << status << " for " << attrs.dict[key];
}

}  // namespace gluond::testing

#endif  // TESTS_CLIENT_CPP_CHECK_ATTRIBUTE_H_
