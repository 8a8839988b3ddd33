// RetiredNames: the names of one tenant whose versions are all retired, each with the first number that none of them has
// had: numbers are never used again. Only some names are kept; no other name begins below the numbers of those that went.

#ifndef SERVER_SERVING_RETIRED_NAMES_H_
#define SERVER_SERVING_RETIRED_NAMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/algorithm/container.h"

namespace gluond::server {

struct RetiredNames {
  static constexpr size_t kMost = 1000;

  int64_t first = 1;                    // The first number of all other names.
  std::map<std::string, int64_t> next;  // The first number of each name.

  int64_t NextOf(const std::string& name) const {
    const auto found = next.find(name);
    return found == next.end() ? first : std::max(first, found->second);
  }

  // Where there are too many names, one with the lowest numbers goes: new names begin as low as can be.
  void Add(const std::string& name, int64_t number) {
    next[name] = std::max(number, NextOf(name));
    if (next.size() <= kMost) return;
    const auto lowest = absl::c_min_element(next, [](const auto& a, const auto& b) { return a.second < b.second; });
    first = std::max(first, lowest->second);
    next.erase(lowest);
  }
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_RETIRED_NAMES_H_
