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

std::string TimeText(const google::protobuf::Duration& time, absl::Duration unit) {
  return absl::FormatDuration(absl::Trunc(absl::Seconds(time.seconds()) + absl::Nanoseconds(time.nanos()), unit));
}

std::string WaitText(const google::protobuf::Duration& time) { return TimeText(time, absl::Microseconds(10)); }

bool WaitsLess(const v1::GroupMember* a, const v1::GroupMember* b) {
  return std::pair(a->waited().seconds(), a->waited().nanos()) < std::pair(b->waited().seconds(), b->waited().nanos());
}

// The rank for which the others wait; null: none is slower than all others.
const v1::GroupMember* Slowest(const v1::GetGroupResponse& group) {
  std::vector<const v1::GroupMember*> ranks;
  for (const v1::GroupMember& member : group.members()) {
    if (member.place() == v1::GroupMember::RANK && member.has_waited()) ranks.push_back(&member);
  }
  std::sort(ranks.begin(), ranks.end(), WaitsLess);
  return ranks.size() > 1 && WaitsLess(ranks[0], ranks[1]) ? ranks[0] : nullptr;
}

}  // namespace

std::string GroupTable(const v1::GetGroupResponse& group) {
  std::string text = group.generation() == 0 ? "no generation has begun" : absl::StrCat("generation ", group.generation());
  absl::StrAppend(&text, ": ", group.members_size(), " processes are there, steps run with ", group.min(), " to ", group.max(),
                  "\n");
  absl::StrAppendFormat(&text, "%d steps, %.1f steps/s, %.1f rows/s; the last change is %d\n", group.steps(),
                        group.steps_per_second(), group.rows_per_second(), group.applied());
  if (group.generation() > 0 && group.has_pause()) {
    absl::StrAppend(&text, "pause before this generation: ", TimeText(group.pause(), absl::Milliseconds(1)), "\n");
  }
  if (!group.why_not().empty()) absl::StrAppend(&text, "no step runs: ", group.why_not(), "\n");
  const v1::GroupMember* const slowest = Slowest(group);
  Table rows = {{"member", "name", "place", "lag", "silent", "waited"}};
  for (const v1::GroupMember& member : group.members()) {
    rows.push_back({absl::StrCat(member.member()), member.name(),
                    absl::StrCat(v1::GroupMember::Place_Name(member.place()), member.is_leaving() ? ", leaves" : ""),
                    absl::StrCat(static_cast<int64_t>(group.applied() - member.applied())),
                    TimeText(member.silent(), absl::Milliseconds(10)),
                    absl::StrCat(member.has_waited() ? WaitText(member.waited()) : "-", &member == slowest ? ", slowest" : "")});
  }
  return absl::StrCat(text, "\n", Aligned(rows));
}

}  // namespace gluond::cli
