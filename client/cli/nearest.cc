#include "client/cli/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gluond::cli {
namespace {

// Letters to insert, remove, replace, or swap with their neighbour, until `a` is `b`.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = std::exchange(row, next);
  }
  return row[b.size()];
}

}  // namespace

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& names) {
  const std::string* nearest = nullptr;
  size_t least = word.size() / 3 + 2;  // A name at this distance is another word.
  for (const std::string& name : names) {
    const size_t distance = word.size() > 2 && absl::StartsWith(name, word) ? 1 : Distance(word, name);
    if (distance >= least) continue;
    least = distance;
    nearest = &name;
  }
  return nearest == nullptr ? "" : absl::StrCat(" (did you mean '", *nearest, "'?)");
}

}  // namespace gluond::cli
