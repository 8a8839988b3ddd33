// Initializers as text.

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/nn/initializer.h"

namespace gluond {
namespace {

// The parts between commas that are in no brackets and no quotes.
std::vector<absl::string_view> SplitAtCommas(absl::string_view text) {
  std::vector<absl::string_view> parts;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '(' || c == '[' || c == '{')) {
      ++depth;
    } else if (!quoted && (c == ')' || c == ']' || c == '}')) {
      --depth;
    }
    if (i < text.size() && (c != ',' || quoted || depth > 0)) continue;
    const absl::string_view part = text.substr(begin, i - begin);
    if (!absl::StripAsciiWhitespace(part).empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

// Without spaces around it, and without its quotes.
std::string Unquoted(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  std::string plain;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    plain += text[i];
  }
  return plain;
}

}  // namespace

absl::StatusOr<Spec> ParseInitializer(absl::string_view text) {
  // '["xavier", {"magnitude": 2}]' and 'Xavier(magnitude=2)' differ in punctuation only.
  text = absl::StripAsciiWhitespace(text);
  if (text.empty() || text == "None") return Spec{};
  const bool json = absl::ConsumePrefix(&text, "[");
  const size_t name_end = text.find_first_of(json ? "," : "(");
  const std::string name = Unquoted(absl::StripSuffix(text.substr(0, name_end), "]"));
  Spec spec;
  for (const auto& entry : Initializers().entries()) {
    if (absl::EqualsIgnoreCase(entry.name, name) || absl::EqualsIgnoreCase(absl::StrCat(entry.name, "s"), name) ||
        (absl::EqualsIgnoreCase(name, "zeros") && entry.name == "Zero")) {
      spec.type = entry.name;
    }
  }
  if (spec.type.empty()) return Initializers().Find(name).status();
  absl::string_view rest = name_end == absl::string_view::npos ? "" : text.substr(name_end + 1);
  const size_t attrs_end = rest.find_last_of(json ? "}" : ")");
  if (!rest.empty() && attrs_end == absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("initializer '", Excerpt(text), "' lacks its closing bracket"));
  }
  rest = absl::StripAsciiWhitespace(rest.substr(0, attrs_end));
  if (json) absl::ConsumePrefix(&rest, "{");
  for (absl::string_view pair : SplitAtCommas(rest)) {
    const std::vector<absl::string_view> sides = absl::StrSplit(pair, absl::MaxSplits(json ? ':' : '=', 1));
    if (sides.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("initializer '", Excerpt(text), "': want name=value, got '", Excerpt(pair), "'"));
    }
    spec.attrs[Unquoted(sides[0])] = Unquoted(sides[1]);
  }
  return spec;
}

}  // namespace gluond
