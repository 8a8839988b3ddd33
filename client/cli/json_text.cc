#include "client/cli/json_text.h"

#include <cmath>
#include <cstdlib>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"

namespace gluond::cli {
namespace {

// Nanoseconds as decimals of a second: none, or 3, 6 or 9 of them.
std::string Decimals(int64_t nanoseconds) {
  if (nanoseconds == 0) return "";
  std::string digits = absl::StrFormat(".%09d", nanoseconds);
  while (absl::EndsWith(digits, "000")) digits.resize(digits.size() - 3);
  return digits;
}

// The text of what a Value is.
struct TextOf {
  std::string operator()(std::monostate) const { return "null"; }
  template <class T>
  std::string operator()(const T& value) const {
    return JsonText(value);
  }
};

}  // namespace

std::string JsonText(absl::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': json += "\\\""; break;
      case '\\': json += "\\\\"; break;
      case '\n': json += "\\n"; break;
      case '\r': json += "\\r"; break;
      case '\t': json += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          absl::StrAppendFormat(&json, "\\u%04x", c);
        } else {
          json += c;
        }
    }
  }
  return json + "\"";
}

std::string JsonText(double number) {
  if (std::isnan(number)) return "\"NaN\"";
  if (std::isinf(number)) return number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  const std::string brief = absl::StrFormat("%.15g", number);
  return std::strtod(brief.c_str(), nullptr) == number ? brief : absl::StrFormat("%.17g", number);
}

std::string JsonText(absl::Time time) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  const std::string text = absl::FormatTime("%Y-%m-%dT%H:%M:%S", absl::FromUnixSeconds(seconds), absl::UTCTimeZone());
  return absl::StrCat("\"", text, Decimals((time - absl::FromUnixSeconds(seconds)) / absl::Nanoseconds(1)), "Z\"");
}

std::string JsonText(absl::Duration time) {
  absl::Duration rest;
  const int64_t seconds = absl::IDivDuration(absl::AbsDuration(time), absl::Seconds(1), &rest);
  return absl::StrCat(time < absl::ZeroDuration() ? "\"-" : "\"", seconds, Decimals(rest / absl::Nanoseconds(1)), "s\"");
}

std::string JsonText(const client::Value& value) { return std::visit(TextOf(), value.is); }

std::string JsonText(const client::Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) {
    absl::StrAppend(&text, text.empty() ? "{" : ",", JsonText(absl::string_view(name)), ":", JsonText(value));
  }
  return text.empty() ? "{}" : text + "}";
}

}  // namespace gluond::cli
