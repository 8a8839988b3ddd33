// AttributeTexts collects those attributes of a call that differ from their defaults, as the registry reads them: "(3, 3)", "True".

#ifndef GLUOND_CLIENT_CPP_ATTRIBUTE_TEXTS_H_
#define GLUOND_CLIENT_CPP_ATTRIBUTE_TEXTS_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "gluond/dtype.h"
#include "gluond/op_types.h"
#include "gluond/value.h"

namespace gluond::client::op {

class AttributeTexts {
 public:
  // The value, unless it is the default. names: of an enumeration's values.
  template <class T, class... Names>
  void Add(const char* key, const T& value, const T& otherwise, const Names&... names) {
    if (!(value == otherwise)) texts_.emplace_back(key, TextOf(value, names...));
  }
  // A tuple that is not given is the default.
  template <class T>
  void Add(const char* key, const Tuple<T>& value, const Tuple<T>& otherwise) {
    if (value.has_value() && value != otherwise) Add(key, value);
  }
  // Required: a value that is not given is missed by the server.
  template <class T>
  void Add(const char* key, const Tuple<T>& value) {
    if (value.has_value()) texts_.emplace_back(key, TextOf(value.values()));
  }
  template <class T, class... Names>
  void Add(const char* key, const Required<T>& value, const Names&... names) {
    if (value.has_value()) texts_.emplace_back(key, TextOf(value.value(), names...));
  }
  void Add(const Attributes& others) { texts_.insert(texts_.end(), others.begin(), others.end()); }

  Attributes Take() { return std::move(texts_); }

 private:
  static std::string TextOf(bool value) { return value ? "True" : "False"; }
  static std::string TextOf(int64_t value) { return std::to_string(value); }
  // The shortest text that reads back as the value.
  static std::string TextOf(double value) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
  }
  static std::string TextOf(const std::string& value) { return value; }
  static std::string TextOf(DType value) { return absl::AsciiStrToLower(ToString(value)); }
  template <class Enum, size_t kCount, std::enable_if_t<std::is_enum_v<Enum>, int> = 0>
  static std::string TextOf(Enum value, const char* const (&names)[kCount]) {
    const auto place = static_cast<size_t>(value);
    return place < kCount ? names[place] : std::to_string(place);
  }
  template <class T, class... Names>
  static std::string TextOf(const std::optional<T>& value, const Names&... names) {
    return value.has_value() ? TextOf(*value, names...) : "None";
  }
  template <class T>
  static std::string TextOf(const std::vector<T>& values) {
    std::string text = "(";
    for (const T& value : values) text += (text.size() > 1 ? ", " : "") + TextOf(value);
    return text + (values.size() == 1 ? ",)" : ")");
  }

  Attributes texts_;
};

}  // namespace gluond::client::op

#endif  // GLUOND_CLIENT_CPP_ATTRIBUTE_TEXTS_H_
