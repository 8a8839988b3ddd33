#include "engine/core/custom_spec.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond {
namespace {

absl::Status CheckNames(const char* what, const std::vector<std::string>& names) {
  if (names.size() > kMostCustomArrays) {
    return absl::InvalidArgumentError(
        absl::StrCat("the custom operator has ", names.size(), " ", what, ", expected at most ", kMostCustomArrays));
  }
  for (const std::string& name : names) {
    if (!name.empty() && name.find_first_of(",;") == std::string::npos) continue;
    return absl::InvalidArgumentError(absl::StrCat("one of the custom operator's ", what, " is named '", Excerpt(name),
                                                   "', expected a name without ',' and ';'"));
  }
  return absl::OkStatus();
}

// Reads one `key=value` of a text.
absl::Status Read(absl::string_view key, absl::string_view value, CustomSpec* spec) {
  const auto names = [value] { return std::vector<std::string>(absl::StrSplit(value, ',', absl::SkipEmpty())); };
  const auto numbers = [&](auto* out) {
    for (const absl::string_view text : absl::StrSplit(value, ',', absl::SkipEmpty())) {
      if (!absl::SimpleAtoi(text, &out->emplace_back())) return false;
    }
    return true;
  };
  bool known = true;
  if (key == "arguments") {
    spec->arguments = names();
  } else if (key == "outputs") {
    spec->outputs = names();
  } else if (key == "auxiliary") {
    spec->auxiliary = names();
  } else if (key == "reads") {
    known = numbers(&spec->dependencies.emplace());
  } else if (key == "version") {
    known = absl::SimpleAtoi(value, &spec->version);
  } else if (key == "function") {
    std::vector<uint64_t> found;
    known = numbers(&found) && found.size() == 3 && found[1] <= UINT32_MAX && found[2] <= UINT32_MAX;
    if (known) spec->function = {found[0], static_cast<uint32_t>(found[1]), static_cast<uint32_t>(found[2])};
  } else if (key == "same_shape" || key == "same_dtype" || key == "shared") {
    (key == "shared" ? spec->shared : key == "same_shape" ? spec->same_shape : spec->same_dtype) = true;
  } else {
    known = false;
  }
  return known ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat("'", kCustomAttribute, "' has '", Excerpt(key), "=", Excerpt(value),
                                                         "', which is no word about an operator"));
}

}  // namespace

absl::Status CustomSpec::Check() const {
  if (function.has_value()) {
    if (function->inputs <= kMostCustomArrays && function->outputs <= kMostCustomArrays && function->outputs > 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("the function has ", function->inputs, " inputs and ", function->outputs,
                                                   " outputs, expected an output, and at most ", kMostCustomArrays, " of each"));
  }
  RETURN_IF_ERROR(CheckNames("arguments", arguments));
  RETURN_IF_ERROR(CheckNames("outputs", outputs));
  RETURN_IF_ERROR(CheckNames("auxiliary states", auxiliary));
  if (outputs.empty()) return absl::InvalidArgumentError("the custom operator has no outputs, expected one at least");
  const size_t most = 2 * outputs.size() + arguments.size();
  if (!dependencies.has_value()) return absl::OkStatus();
  for (const uint32_t number : *dependencies) {
    if (number < most) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the custom operator's dependencies have ", number, ", expected numbers below ", most));
  }
  return absl::OkStatus();
}

std::string CustomSpec::ToText() const {
  if (function.has_value()) {
    return absl::StrCat("function=", function->number, ",", function->inputs, ",", function->outputs);
  }
  std::string text = absl::StrCat("arguments=", absl::StrJoin(arguments, ","), ";outputs=", absl::StrJoin(outputs, ","));
  if (!auxiliary.empty()) absl::StrAppend(&text, ";auxiliary=", absl::StrJoin(auxiliary, ","));
  if (dependencies.has_value()) absl::StrAppend(&text, ";reads=", absl::StrJoin(*dependencies, ","));
  if (same_shape) absl::StrAppend(&text, ";same_shape");
  if (same_dtype) absl::StrAppend(&text, ";same_dtype");
  if (shared) absl::StrAppend(&text, ";shared");
  if (version != 0) absl::StrAppend(&text, ";version=", version);
  return text;
}

absl::StatusOr<CustomSpec> CustomSpec::Parse(absl::string_view text) {
  CustomSpec spec;
  for (const absl::string_view word : absl::StrSplit(text, ';')) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    RETURN_IF_ERROR(Read(pair.first, pair.second, &spec));
  }
  RETURN_IF_ERROR(spec.Check());
  return spec;
}

absl::StatusOr<CustomSpec> CustomSpec::Of(const AttrDict& attrs) {
  const auto found = attrs.find(kCustomAttribute);
  if (found != attrs.end()) return Parse(found->second);
  CustomSpec spec;
  spec.arguments = {"data"};
  spec.shared = true;
  return spec;
}

}  // namespace gluond
