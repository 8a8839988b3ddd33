// GroupService: the group of servers that this one leads (proto/gluond/v1/group.proto).

#include "server/services/services.h"

#include <utility>

#include "engine/core/status_macros.h"
#include "gluond/v1/group.pb.h"
#include "server/group/group.h"
#include "server/group/join_stream.h"

namespace gluond::server {
namespace {

class GroupService final : public RawService {
 public:
  // `group` may be null: the server leads none.
  GroupService(Runner& runner, Group* group, SharedStreams<JoinStream>& streams)
      : RawService(runner, "gluond.v1.GroupService"), group_(group), streams_(streams) {
    AddStream<v1::JoinRequest>("Join", this, &GroupService::Join);
    Add("GetGroup", this, &GroupService::GetGroup);
    Add("DrainMember", this, &GroupService::DrainMember);
  }

  void Sweep() override {
    const auto now = Stream::Clock::now();
    for (const auto& stream : streams_.List()) stream->Sweep(now);
  }

 private:
  std::shared_ptr<Stream> Join(Stream::Opening opening) { return streams_.Start(streams_, group_, runner(), opening); }

  void GetGroup(Call<v1::GetGroupRequest, v1::GetGroupResponse> call) {
    FINISH_IF_ERROR(call, CheckLeads());
    group_->Describe([call](v1::GetGroupResponse group) {
      call.response() = std::move(group);
      if (!call.reach().is_everything()) {
        for (v1::GroupMember& member : *call.response().mutable_members()) member.clear_name();
      }
      call.Finish();
    });
  }

  void DrainMember(Call<v1::DrainMemberRequest, v1::DrainMemberResponse> call) {
    FINISH_IF_ERROR(call, CheckLeads());
    group_->DrainMember(call.request().member(), [call](const absl::Status& status) { call.Finish(status); });
  }

  absl::Status CheckLeads() const {
    if (group_ != nullptr) return absl::OkStatus();
    return FailedPrecondition("this server leads no group; start it with --group=HOST:PORT, an address of its own");
  }

  Group* const group_;
  SharedStreams<JoinStream>& streams_;
};

}  // namespace

std::unique_ptr<RawService> NewGroupService(Runner& runner, Group* group, SharedStreams<JoinStream>& streams) {
  return std::make_unique<GroupService>(runner, group, streams);
}

}  // namespace gluond::server
