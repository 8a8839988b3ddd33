// The description of a group, as GetGroup tells it.

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "server/codec/duration.h"
#include "server/group/group.h"
#include "server/group/rank.h"
#include "server/group/shared_datasets.h"

namespace gluond::server {

std::string Group::WhyNoStep() const {
  if (!failed_.ok()) return std::string(failed_.message());
  if (leader_.present() < options_.leader.min) {
    return absl::StrCat(leader_.present(), " of the ", options_.leader.min, " processes are there that --group_size asks for");
  }
  if (leader_.phase() > GroupLeader::Phase::kForming) return "";
  const std::string& why = leader_.why_unformed();
  return why.empty() ? "the next generation begins" : absl::StrCat("the last ring has not formed: ", why);
}

v1::GetGroupResponse Group::DescribeNow() const {
  const Clock::time_point now = Clock::now();
  v1::GetGroupResponse group;
  group.set_generation(leader_.generation());
  group.set_min(options_.leader.min);
  group.set_max(options_.leader.max);
  group.set_applied(own_->member().standing().applied);
  group.set_steps(steps_);
  ToProto(pause_, group.mutable_pause());
  int64_t rows = 0;
  for (const auto& [time, count] : recent_) rows += count;
  const double seconds = recent_.empty() ? 1 : std::max(1.0, std::chrono::duration<double>(now - recent_.front().first).count());
  group.set_steps_per_second(static_cast<double>(recent_.size()) / seconds);
  group.set_rows_per_second(static_cast<double>(rows) / seconds);
  for (const auto& [id, seat] : leader_.seats()) {
    const auto named = members_.find(id);
    const auto place = places_.find(id);
    v1::GroupMember& member = *group.add_members();
    member.set_member(id);
    if (named != members_.end()) {
      member.set_name(named->second.name);
      const double waited = named->second.waited_seconds;
      if (waited > 0)
        ToProto(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(waited)), member.mutable_waited());
    }
    const bool is_spare = place != places_.end() && place->second.rank >= place->second.size;
    using Seat = GroupLeader::Seat::Place;
    member.set_place(seat.place == Seat::kPreparing ? v1::GroupMember::PREPARING
                     : seat.place == Seat::kWaiting ? v1::GroupMember::WAITING
                     : is_spare                     ? v1::GroupMember::SPARE
                                                    : v1::GroupMember::RANK);
    member.set_applied(seat.standing.applied);
    if (id != GroupLeader::kOwn) ToProto(now - seat.heard, member.mutable_silent());
    member.set_is_leaving(seat.is_leaving);
    member.set_copied_bytes(datasets_->BytesOf(id));
  }
  group.set_why_not(WhyNoStep());
  return group;
}

}  // namespace gluond::server
