// SharedDatasets: the leader's datasets on whose rows models of its group are trained. Members copy them over Join, while steps go
// on. A step names its rows to a member that has a copy, and brings them along to one that has none.
//
//   leader --Dataset--> member                        The columns, with their checksums.
//   member --Fetch--> leader --DatasetPart--> member  One part after the other, so that a step waits for one at most.
//   member --Copied--> leader
//
// All functions are for the loop, which ends before the datasets.

#ifndef SERVER_GROUP_SHARED_DATASETS_H_
#define SERVER_GROUP_SHARED_DATASETS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "engine/train/dataset.h"
#include "gluond/v1/group.pb.h"
#include "server/group/loop.h"
#include "server/rpc/dispatch.h"
#include "server/wire/attachments.h"

namespace gluond::server {

class SharedDatasets {
 public:
  using Member = int64_t;
  using Send = std::function<void(Member member, const v1::JoinResponse& message, const Attachments& attachments)>;

  static constexpr size_t kPartBytes = 1 << 20;

  // `dispatch` outlives the datasets.
  SharedDatasets(Dispatch& dispatch, std::shared_ptr<GroupLoop> loop, Send send)
      : dispatch_(dispatch), loop_(std::move(loop)), send_(std::move(send)) {}

  // Steps draw rows of the dataset, which is committed.
  void Use(const std::shared_ptr<const Dataset>& dataset);
  void Joined(Member member);
  void Lost(Member member) { copies_.erase(member); }
  // Words of members, who may not know yet that a dataset is gone.
  void Heard(Member member, const v1::JoinRequest::Fetch& fetch);
  void Heard(Member member, const v1::JoinRequest::Copied& copied);
  // The number by which the member knows its copy. Nothing: it has none, or there is no dataset.
  std::optional<uint64_t> NumberOf(Member member, const std::shared_ptr<const Dataset>& dataset) const;
  // The bytes of the datasets of which the member has copies.
  int64_t BytesOf(Member member) const;
  // Tells members which datasets the leader has no more.
  void Tick();

 private:
  struct Shared {
    std::weak_ptr<const Dataset> dataset;
    bool is_summed = false;                 // The checksums are known, or being computed.
    std::optional<v1::JoinResponse> offer;  // The word to members, once the checksums are known.
  };
  // A member's copy, as far as the leader has sent it.
  struct Copy {
    size_t column = 0;
    size_t offset = 0;
    bool is_there = false;
  };

  // Computes the checksums of the dataset, and offers it to members.
  void Sum(uint64_t number, Shared& shared);
  void Offer(Member member, const Shared& shared) const;
  std::optional<uint64_t> Find(const std::shared_ptr<const Dataset>& dataset) const;

  Dispatch& dispatch_;
  const std::shared_ptr<GroupLoop> loop_;
  const Send send_;
  std::map<uint64_t, Shared> datasets_;  // By number.
  uint64_t last_ = 0;
  std::map<Member, std::map<uint64_t, Copy>> copies_;  // By members that have joined.
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_SHARED_DATASETS_H_
