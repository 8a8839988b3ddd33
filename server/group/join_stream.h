// JoinStream is gRPC's side of one GroupService.Join: a member's, with the leader. JoinStreams keeps those of a server.

#ifndef SERVER_GROUP_JOIN_STREAM_H_
#define SERVER_GROUP_JOIN_STREAM_H_

#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "server/group/group.h"
#include "server/rpc/conversation.h"
#include "server/rpc/streams.h"

namespace gluond::server {

class JoinStream final : public Conversation, public Group::Link {
 public:
  // `group` may be null: the server leads none.
  JoinStream(SharedStreams<JoinStream>& streams, Group* group, Runner& runner, const Opening& opening)
      : Conversation(runner, opening), streams_(streams), group_(group) {}

  void Send(Slices message, bool is_heartbeat) override;
  void Finish(const absl::Status& status) override { End(status); }
  bool is_local() const override;
  // Ends a stream that says nothing.
  void Sweep(Clock::time_point now);

 private:
  void Receive(const Slices& message, int64_t bytes) override;
  void Written() override { WriteNext(); }
  void NoMoreMessages() override { End(absl::OkStatus()); }
  void Ended() override;
  void Over() override { streams_.Remove(this); }
  // A message of so many bytes.
  void Ask(v1::JoinRequest::Ask ask, Attachments attachments, int64_t bytes);
  // Requires: writing_, and no write under way.
  void WriteNext();
  std::shared_ptr<JoinStream> Self() { return std::static_pointer_cast<JoinStream>(shared_from_this()); }

  SharedStreams<JoinStream>& streams_;
  Group* const group_;

  Mutex queue_mu_;  // Taken before the mutex of the conversation.
  std::deque<Slices> queue_ ABSL_GUARDED_BY(queue_mu_);
  bool writing_ ABSL_GUARDED_BY(queue_mu_) = false;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_JOIN_STREAM_H_
