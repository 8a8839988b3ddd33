// HostStream is gRPC's side of one stream of OperatorService.HostOperators; HostStreams keeps those of a server.

#ifndef SERVER_CUSTOM_HOST_STREAM_H_
#define SERVER_CUSTOM_HOST_STREAM_H_

#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "server/custom/hosts.h"
#include "server/rpc/conversation.h"
#include "server/rpc/streams.h"

namespace gluond::server {

class HostStream;

// Thread-safe. Outlives the gRPC server.
class HostStreams : public SharedStreams<HostStream> {
 public:
  explicit HostStreams(const Limits& limits)
      : SharedStreams("clients that host operators", limits.max_sessions, "--max_sessions", &Quotas::sessions) {}

  // Ends silent streams, and calls whose time is over.
  void Sweep();
  // Ends all with UNAVAILABLE.
  void Drain();
  // The clients at the streams' other ends.
  const std::shared_ptr<CustomHosts>& hosts() const { return hosts_; }

 private:
  const std::shared_ptr<CustomHosts> hosts_ = std::make_shared<CustomHosts>();
};

class HostStream final : public Conversation, public HostChannel {
 public:
  HostStream(HostStreams& streams, Runner& runner, const Opening& opening)
      : Conversation(runner, opening), streams_(streams), hosts_(*streams.hosts()) {}

  void Send(const v1::HostResponse& response) override;
  void SendCall(uint64_t call) override;
  void Replaced() override;

  // Ends a silent stream.
  void Sweep(Clock::time_point now);

 private:
  void Receive(const Slices& message, int64_t bytes) override;
  void Written() override { WriteNext(); }
  void NoMoreMessages() override { End(absl::OkStatus()); }  // The client needs no answer.
  void Ended() override;
  void Over() override { streams_.Remove(this); }

  // Something to send: a call, or a message.
  struct Item {
    uint64_t call = 0;
    Slices message;
  };
  static int64_t BytesOf(const Item& item) { return static_cast<int64_t>(Bytes(item.message).size() + sizeof(Item)); }

  // Bounds the queue of a client that does not read.
  void Enqueue(Item item);
  // Requires: writing_, and no write under way.
  void WriteNext();
  // False: nobody waits for the call.
  bool Encode(uint64_t call, Slices* message);
  absl::Status Handle(v1::HostRequest& request, Attachments attachments);
  absl::Status Open(const v1::OpenHost& open);
  // Offers and releases of shared names go to the audit log. A name that another client owns is refused by a message.
  absl::Status Offer(const v1::OfferOperator& offer);
  absl::Status Release(const std::string& op_type);
  void Refuse(const std::string& op_type, const absl::Status& why);

  HostStreams& streams_;
  CustomHosts& hosts_;
  bool is_open_ = false;  // Used by the reader alone.

  Mutex queue_mu_;  // Taken before the mutex of the conversation.
  std::deque<Item> queue_ ABSL_GUARDED_BY(queue_mu_);
  int64_t queued_bytes_ ABSL_GUARDED_BY(queue_mu_) = 0;
  bool writing_ ABSL_GUARDED_BY(queue_mu_) = false;
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_HOST_STREAM_H_
