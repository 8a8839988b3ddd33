#include "server/config/flag_file.h"

#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/config/operator_file.h"
#include "server/config/yaml.h"

namespace gluond::server {
namespace {

constexpr absl::string_view kName = "config";

// The value as a command line would say it.
absl::StatusOr<std::string> TextOf(const Yaml& value) {
  std::vector<std::string> words;
  if (value.kind() != Yaml::Kind::kList) RETURN_IF_ERROR(value.Get(&words.emplace_back()));
  for (const Yaml& element : value.elements()) RETURN_IF_ERROR(element.Get(&words.emplace_back()));
  return absl::StrJoin(words, ",");
}

}  // namespace

std::string FindConfig(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (argument == "--") break;
    if (!absl::ConsumePrefix(&argument, "--") && !absl::ConsumePrefix(&argument, "-")) continue;
    if (!absl::ConsumePrefix(&argument, kName)) continue;
    if (absl::ConsumePrefix(&argument, "=")) return std::string(argument);
    if (argument.empty() && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return "";
}

absl::Status SetFlags(const std::string& path, const std::vector<std::string>& flags) {
  ASSIGN_OR_RETURN(const std::string text, ReadOperatorFile(path, Yaml::kMostBytes));
  ASSIGN_OR_RETURN(const Yaml file, Yaml::Parse(text, path));
  if (file.kind() == Yaml::Kind::kNull) return absl::OkStatus();
  RETURN_IF_ERROR(file.Want(Yaml::Kind::kMap));
  for (const auto& [key, value] : file.members()) {
    if (key.text() == kName) return key.Error("a file of flags names no other one");
    if (!absl::c_linear_search(flags, key.text())) {
      const std::string closest = DidYouMean(key.text(), flags);
      return key.Error("there is no flag '", key.text(), "'", closest.empty() ? "; --help lists them" : closest);
    }
    ASSIGN_OR_RETURN(const std::string said, TextOf(value));
    std::string why;
    if (!absl::FindCommandLineFlag(key.text())->ParseFrom(said, &why)) {
      return value.Error("'", said, "' is no value of --", key.text(), "; ", why);
    }
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
