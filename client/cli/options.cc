#include "client/cli/options.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/nearest.h"

namespace gluond::cli {
namespace {

constexpr size_t kHelpWidth = 92;
constexpr char kWrongCommandLine[] = "gluond.cli/wrong_command_line";

// `text` in lines of the page's width, each after `indent` spaces.
std::string Wrapped(const std::string& text, size_t indent) {
  std::string page;
  for (absl::string_view paragraph : absl::StrSplit(text, '\n')) {
    std::string line(indent, ' ');
    for (absl::string_view word : absl::StrSplit(paragraph, ' ')) {
      if (line.size() > indent && line.size() + 1 + word.size() > kHelpWidth) {
        absl::StrAppend(&page, line, "\n");
        line.assign(indent, ' ');
      }
      absl::StrAppend(&line, line.size() > indent ? " " : "", word);
    }
    absl::StrAppend(&page, line, "\n");
  }
  return page;
}

}  // namespace

Options::Options(std::string command, std::string description)
    : command_(std::move(command)), description_(std::move(description)) {}

void Options::Add(const std::string& name, std::string* value, const std::string& help) {
  options_.push_back({name, help, *value, "TEXT", "a text", false, [value](const std::string& text) {
                        *value = text;
                        return true;
                      }});
}

void Options::Add(const std::string& name, int64_t* value, const std::string& help) {
  options_.push_back({name, help, absl::StrCat(*value), "NUMBER", "a whole number", false,
                      [value](const std::string& text) { return absl::SimpleAtoi(text, value); }});
}

void Options::Add(const std::string& name, double* value, const std::string& help) {
  options_.push_back({name, help, absl::StrCat(*value), "NUMBER", "a number", false,
                      [value](const std::string& text) { return absl::SimpleAtod(text, value); }});
}

void Options::Add(const std::string& name, bool* value, const std::string& help) {
  options_.push_back({name, help, *value ? "true" : "", "", "true or false", true,
                      [value](const std::string& text) { return absl::SimpleAtob(text, value); }});
}

void Options::Add(const std::string& name, absl::Duration* value, const std::string& help) {
  options_.push_back({name, help, absl::FormatDuration(*value), "TIME", "a duration like 500ms or 10s", false,
                      [value](const std::string& text) { return absl::ParseDuration(text, value); }});
}

void Options::AddPositional(const std::string& name, std::string* value, const std::string& help) {
  positional_.push_back({name, help, "", "", "a text", false, [value](const std::string& text) {
                           *value = text;
                           return true;
                         }});
}

absl::Status Options::Fail(const std::string& what) const {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(what, "; `", command_, " --help` explains."));
  status.SetPayload(kWrongCommandLine, absl::Cord());
  return status;
}

bool IsWrongCommandLine(const absl::Status& status) { return status.GetPayload(kWrongCommandLine).has_value(); }

const Options::Option* Options::Find(const std::string& name) const {
  const auto it = std::find_if(options_.begin(), options_.end(), [&](const Option& option) { return option.name == name; });
  return it == options_.end() ? nullptr : &*it;
}

absl::Status Options::ParseOption(const std::vector<std::string>& arguments, size_t* at) const {
  const std::string& argument = arguments[*at];
  const size_t equals = argument.find('=');
  const bool has_value = equals != std::string::npos;
  const std::string name = argument.substr(2, has_value ? equals - 2 : equals);
  std::string value = has_value ? argument.substr(equals + 1) : "";

  const Option* option = Find(name);
  if (option == nullptr && !has_value && name.rfind("no", 0) == 0) {
    option = Find(name.substr(2));
    if (option != nullptr && option->is_bool)
      value = "false";
    else
      option = nullptr;
  } else if (option != nullptr && !has_value && option->is_bool) {
    value = "true";
  } else if (option != nullptr && !has_value) {
    if (*at + 1 == arguments.size()) return Fail(absl::StrCat("--", name, " wants ", option->expected));
    value = arguments[++*at];
  }
  if (option == nullptr) {
    std::vector<std::string> names;
    for (const Option& each : options_) names.push_back(absl::StrCat("--", each.name));
    return Fail(absl::StrCat("there is no option --", name, DidYouMean(absl::StrCat("--", name), names)));
  }
  if (!option->set(value)) {
    return Fail(absl::StrCat("--", name, " wants ", option->expected, ", got '", value, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Options::Parse(const std::vector<std::string>& arguments) const {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  if (std::any_of(arguments.begin(), end, [](const std::string& a) { return a == "--help" || a == "-h"; })) {
    std::cout << Help();
    return false;
  }
  size_t positional = 0;
  bool only_positional = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!only_positional && argument == "--") {
      only_positional = true;
    } else if (!only_positional && argument.rfind("--", 0) == 0) {
      absl::Status status = ParseOption(arguments, &i);
      if (!status.ok()) return status;
    } else if (positional == positional_.size()) {
      return Fail(absl::StrCat("unexpected argument '", argument, "'"));
    } else {
      positional_[positional++].set(argument);
    }
  }
  return true;
}

void Options::AddExample(const std::string& command_line) { examples_.push_back(command_line); }

std::string Options::Help() const {
  std::string page = absl::StrCat("Usage: ", command_);
  for (const Option& option : positional_) absl::StrAppend(&page, " [", option.name, "]");
  absl::StrAppend(&page, options_.empty() ? "" : " [OPTION]...", "\n\n", Wrapped(description_, 0));
  if (!examples_.empty()) page += "\nFor example:\n";
  for (const std::string& example : examples_) absl::StrAppend(&page, "  ", example, "\n");
  if (!positional_.empty()) page += "\nArguments:\n";
  for (const Option& option : positional_) {
    absl::StrAppend(&page, "  ", option.name, "\n", Wrapped(option.help, 6));
  }
  if (!options_.empty()) page += "\nOptions:\n";
  for (const Option& option : options_) {
    absl::StrAppend(&page, "  --", option.name, option.is_bool ? "" : "=", option.placeholder);
    if (!option.shown_default.empty()) absl::StrAppend(&page, "  (default: ", option.shown_default, ")");
    absl::StrAppend(&page, "\n", Wrapped(option.help, 6));
  }
  return page;
}

}  // namespace gluond::cli
