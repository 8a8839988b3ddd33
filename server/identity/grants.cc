#include "server/identity/grants.h"

#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

constexpr std::pair<absl::string_view, Deed> kFields[] = {
    {"reads", Deed::kRead}, {"changes", Deed::kChange}, {"owns", Deed::kDelete}};

bool Matches(absl::string_view pattern, absl::string_view name) {
  return absl::ConsumeSuffix(&pattern, "*") ? absl::StartsWith(name, pattern) : name == pattern;
}

absl::Status NoGrant(absl::string_view field) {
  return Invalid("'", field, "' is no grant; want reads=, changes= or owns=, and names behind it");
}

}  // namespace

absl::StatusOr<Grants> Grants::Parse(absl::Span<const std::string> fields) {
  Grants grants;
  for (const std::string& field : fields) {
    const size_t equals = field.find('=');
    if (equals == std::string::npos) return NoGrant(field);
    RETURN_IF_ERROR(grants.Add(field.substr(0, equals), field.substr(equals + 1)));
  }
  return grants;
}

absl::Status Grants::Add(absl::string_view key, absl::string_view patterns) {
  const auto field = absl::c_find_if(kFields, [&](const auto& each) { return each.first == key; });
  if (field == std::end(kFields)) return NoGrant(absl::StrCat(key, "=", patterns));
  for (const absl::string_view pattern : absl::StrSplit(patterns, ',')) {
    if (pattern.empty() || absl::StrContains(pattern.substr(0, pattern.size() - 1), '*')) {
      return Invalid("'", key, "' has the pattern '", pattern, "', want a name, or the beginning of names and one '*' at its end");
    }
    grants_.push_back({field->second, std::string(pattern)});
  }
  return absl::OkStatus();
}

bool Grants::Allow(Deed deed, absl::string_view name) const {
  const Deed needed = deed == Deed::kMake ? Deed::kChange : deed;
  return absl::c_any_of(grants_, [&](const Grant& grant) { return grant.deed >= needed && Matches(grant.pattern, name); });
}

}  // namespace gluond::server
