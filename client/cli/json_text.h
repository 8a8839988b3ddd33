// JsonText: an answer of the server in JSON, as protobuf would write its message. 64-bit integers are texts, since JSON's numbers are
// doubles; what is absent is left out.

#ifndef GLUOND_CLIENT_CLI_JSON_TEXT_H_
#define GLUOND_CLIENT_CLI_JSON_TEXT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gluond/fields.h"

namespace gluond::cli {

std::string JsonText(absl::string_view text);
std::string JsonText(double number);
std::string JsonText(absl::Time time);
std::string JsonText(absl::Duration time);
std::string JsonText(const client::Value& value);
std::string JsonText(const client::Attributes& attributes);

inline std::string JsonText(const std::string& text) { return JsonText(absl::string_view(text)); }
inline std::string JsonText(bool value) { return value ? "true" : "false"; }

template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
std::string JsonText(T number) {
  return sizeof(T) < sizeof(int64_t) ? absl::StrCat(number) : absl::StrCat("\"", number, "\"");
}

template <class T, std::enable_if_t<std::is_enum_v<T>, int> = 0>
std::string JsonText(T value) {
  return JsonText(absl::string_view(client::ToString(value)));
}

template <class T>
std::string JsonText(const std::vector<T>& values);
template <class Key, class T>
std::string JsonText(const std::map<Key, T>& values);

// A struct of the client's.
template <class T>
requires requires(const T& x, void (*visit)(const char*, ...)) { client::ForEachField(x, visit); }
std::string JsonText(const T& answer) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    absl::StrAppend(&text, text.empty() ? "{" : ",", JsonText(absl::string_view(name)), ":", value);
  };
  client::ForEachField(answer, [&add](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, absl::Status>) {
      add(name, JsonText(value.ToString()));
    } else if constexpr (requires { value.has_value(); }) {
      if (value.has_value()) add(name, JsonText(*value));
    } else {
      add(name, JsonText(value));
    }
  });
  return text.empty() ? "{}" : text + "}";
}

template <class T>
std::string JsonText(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) absl::StrAppend(&text, text.empty() ? "[" : ",", JsonText(value));
  return text.empty() ? "[]" : text + "]";
}

template <class Key, class T>
std::string JsonText(const std::map<Key, T>& values) {
  std::string text;
  for (const auto& [key, value] : values) {
    absl::StrAppend(&text, text.empty() ? "{" : ",", JsonText(absl::StrCat(key)), ":", JsonText(value));
  }
  return text.empty() ? "{}" : text + "}";
}

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_JSON_TEXT_H_
