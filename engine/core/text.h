// Text helpers for error messages.

#ifndef ENGINE_CORE_TEXT_H_
#define ENGINE_CORE_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gluond {

// At most `count` of `candidates`, the ones with the smallest edit distance to `name` first. Names that
// share nothing with it are left out. At most the first 64 bytes of each name are compared.
std::vector<std::string> ClosestNames(absl::string_view name,
                                      const std::vector<std::string>& candidates, size_t count = 3);

// "; did you mean 'a' or 'b'?", or "" when nothing is close.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates);

// At most `limit` bytes of text that came from outside, with control characters escaped.
std::string Excerpt(absl::string_view text, size_t limit = 80);

}  // namespace gluond

#endif  // ENGINE_CORE_TEXT_H_
