#include "client/cli/group_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/cli/table.h"

namespace gluond::cli {
namespace {

std::string TimeText(absl::Duration time, absl::Duration unit) { return absl::FormatDuration(absl::Trunc(time, unit)); }

std::string WaitText(absl::Duration time) { return TimeText(time, absl::Microseconds(10)); }

bool WaitsLess(const client::GroupMember* a, const client::GroupMember* b) { return a->waited < b->waited; }

// The rank for which the others wait; null: none is slower than all others.
const client::GroupMember* Slowest(const client::GetGroupResponse& group) {
  std::vector<const client::GroupMember*> ranks;
  for (const client::GroupMember& member : group.members) {
    if (member.place == client::GroupMember::Place::kRank && member.waited.has_value()) ranks.push_back(&member);
  }
  std::sort(ranks.begin(), ranks.end(), WaitsLess);
  return ranks.size() > 1 && WaitsLess(ranks[0], ranks[1]) ? ranks[0] : nullptr;
}

}  // namespace

std::string GroupTable(const client::GetGroupResponse& group) {
  std::string text = group.generation == 0 ? "no generation has begun" : absl::StrCat("generation ", group.generation);
  absl::StrAppend(&text, ": ", group.members.size(), " processes are there, steps run with ", group.min, " to ", group.max, "\n");
  absl::StrAppendFormat(&text, "%d steps, %.1f steps/s, %.1f rows/s; the last change is %d\n", group.steps, group.steps_per_second,
                        group.rows_per_second, group.applied);
  if (group.generation > 0 && group.pause.has_value()) {
    absl::StrAppend(&text, "pause before this generation: ", TimeText(*group.pause, absl::Milliseconds(1)), "\n");
  }
  if (!group.why_not.empty()) absl::StrAppend(&text, "no step runs: ", group.why_not, "\n");
  const client::GroupMember* const slowest = Slowest(group);
  Table rows = {{"member", "name", "place", "lag", "silent", "waited"}};
  for (const client::GroupMember& member : group.members) {
    rows.push_back(
        {absl::StrCat(member.member), member.name,
         absl::StrCat(client::ToString(member.place), member.is_leaving ? ", leaves" : ""),
         absl::StrCat(static_cast<int64_t>(group.applied - member.applied)),
         TimeText(member.silent.value_or(absl::ZeroDuration()), absl::Milliseconds(10)),
         absl::StrCat(member.waited.has_value() ? WaitText(*member.waited) : "-", &member == slowest ? ", slowest" : "")});
  }
  return absl::StrCat(text, "\n", Aligned(rows));
}

}  // namespace gluond::cli
