#include "engine/core/text.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gluond {
namespace {

// Clients may have named a million things: the first of them are suggestions enough.
constexpr size_t kMostCompared = 4096;
constexpr size_t kMostNamed = 3;

// Levenshtein distance, letters compared without case.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  a = a.substr(0, 64);
  b = b.substr(0, 64);
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = absl::ascii_tolower(a[i - 1]) == absl::ascii_tolower(b[j - 1]);
      const size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates) {
  const size_t most = std::max<size_t>(2, name.size() / 2);
  std::vector<std::pair<size_t, std::string>> ranked;
  for (size_t i = 0; i < std::min(candidates.size(), kMostCompared); ++i) {
    // The distance is no less than the difference of the lengths.
    const size_t a = std::min<size_t>(name.size(), 64), b = std::min<size_t>(candidates[i].size(), 64);
    if (std::max(a, b) - std::min(a, b) > most) continue;
    const size_t distance = EditDistance(name, candidates[i]);
    if (distance <= most) ranked.emplace_back(distance, candidates[i]);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kMostNamed, ranked.size()); ++i) names.push_back(ranked[i].second);
  if (names.empty()) return "";
  return absl::StrCat("; did you mean '", absl::StrJoin(names, "' or '"), "'?");
}

std::string Excerpt(absl::string_view text, size_t limit) {
  std::string escaped = absl::CHexEscape(text.substr(0, limit));
  if (text.size() > limit) escaped += "...";
  return escaped;
}

bool IsUtf8(absl::string_view text) {
  constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at++]);
    if (first < 0x80) continue;
    const size_t more = first >= 0xf8 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    if (more == 0 || more > text.size() - at) return false;
    uint32_t code = first & (0x3fu >> more);
    for (size_t i = 0; i < more; ++i) {
      const auto next = static_cast<unsigned char>(text[at++]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3fu);
    }
    if (code < kLeast[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}

}  // namespace gluond
