// Text helpers, for error messages above all.

#ifndef ENGINE_CORE_TEXT_H_
#define ENGINE_CORE_TEXT_H_

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace gluond {

// "; did you mean 'a' or 'b'?": at most three of `candidates`, the ones with the smallest edit distance to `name`
// first. The first 64 bytes of each name are compared. "" when no candidate is close.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates);

// At most `limit` bytes of text that came from outside, with control characters escaped.
std::string Excerpt(absl::string_view text, size_t limit = 80);

// Whether all is UTF-8, as protobuf wants it of a string: each character in its shortest form, no surrogates, nothing above
// U+10FFFF.
bool IsUtf8(absl::string_view text);

// `prefix`, and as many '_' behind it as it takes for none of `names`, strings, to begin with the result.
template <class Names>
std::string UnusedPrefix(std::string prefix, const Names& names) {
  const auto is_used = [&](const std::string& name) { return absl::StartsWith(name, prefix); };
  while (absl::c_any_of(names, is_used)) prefix += '_';
  return prefix;
}

}  // namespace gluond

#endif  // ENGINE_CORE_TEXT_H_
