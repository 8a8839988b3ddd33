#include "server/identity/access.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

constexpr std::pair<absl::string_view, Role> kRoles[] = {
    {"infer", Role::kInfer}, {"train", Role::kTrain},   {"publish", Role::kPublish}, {"admin", Role::kAdmin},
    {"proxy", Role::kProxy}, {"follow", Role::kFollow}, {"member", Role::kMember}};

}  // namespace

absl::StatusOr<Roles> Roles::Parse(absl::string_view text) {
  Roles roles;
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    const auto* const known = absl::c_find_if(kRoles, [&](const auto& each) { return each.first == name; });
    if (known == std::end(kRoles)) {
      return Invalid("'", name,
                     "' is no role; want infer, train, publish, admin, follow or member, or several with commas, or proxy");
    }
    roles.bits_ |= static_cast<uint8_t>(known->second);
  }
  const bool has_proxy = (roles.bits_ & static_cast<uint8_t>(Role::kProxy)) != 0;
  if (!has_proxy || roles.is_proxy()) return roles;
  return Invalid("proxy goes with no other role: a proxy passes on others' calls, and may make none of its own");
}

std::string Roles::ToString() const {
  std::vector<absl::string_view> names;
  for (const auto& [name, role] : kRoles) {
    if ((bits_ & static_cast<uint8_t>(role)) != 0) names.push_back(name);
  }
  return absl::StrJoin(names, ",");
}

absl::string_view NameOf(Access access) {
  static constexpr absl::string_view kNames[] = {"nobody",  "nobody", "any role", "infer", "train",
                                                 "publish", "admin",  "follow",   "member"};
  return kNames[static_cast<size_t>(access)];
}

bool Allows(Access access, Roles roles) {
  switch (access) {
    case Access::kNobody: return false;
    case Access::kOpen: return true;
    case Access::kAnyRole: return roles.any_of_person();
    case Access::kInfer: return roles.Has(Role::kInfer);
    case Access::kTrain: return roles.Has(Role::kTrain);
    case Access::kPublish: return roles.Has(Role::kPublish);
    case Access::kAdmin: return roles.Has(Role::kAdmin);
    case Access::kFollow: return roles.Has(Role::kFollow);
    case Access::kMember: return roles.Has(Role::kMember);
  }
  return false;
}

}  // namespace gluond::server
