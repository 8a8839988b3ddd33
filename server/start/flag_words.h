// A flag whose value is one word of a few, and the meanings of these words.
//
//   ASSIGN_OR_RETURN(options.names, WordOf<Names>("--names", absl::GetFlag(FLAGS_names), {{"open", kOpen}, {"closed", kClosed}}));

#ifndef SERVER_START_FLAG_WORDS_H_
#define SERVER_START_FLAG_WORDS_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

// INVALID_ARGUMENT, which lists the words: `said` is none of them. "": nothing was said.
template <typename T>
absl::StatusOr<T> WordOf(absl::string_view flag, const std::string& said,
                         std::initializer_list<std::pair<absl::string_view, T>> words) {
  std::string known;
  size_t left = words.size();
  for (const auto& [word, value] : words) {
    if (word == said) return value;
    absl::StrAppend(&known, word.empty() ? "nothing" : word, --left == 0 ? "" : left == 1 ? " or " : ", ");
  }
  return absl::InvalidArgumentError(absl::StrCat(flag, " is '", said, "'; want ", known));
}

}  // namespace gluond::server

#endif  // SERVER_START_FLAG_WORDS_H_
