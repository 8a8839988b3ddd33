// A Conversation is a Stream of many messages either way, which lasts as long as its client wants: a session's, or that
// of a client that computes operators. It checks the sizes of messages, leaves gRPC's thread for those that take long
// to parse, ends once, logs how, and drops a client that does not take the end.
//
//   class Echo final : public Conversation {
//     using Conversation::Conversation;
//     void Receive(const Slices& message, int64_t) override { Write(message); }
//     void Written() override { Read(); }
//     void NoMoreMessages() override { End(absl::OkStatus()); }
//     void Over() override { ... }  // Its owner lets go of it.
//   };
//
// Thread-safe. Its GrpcCall keeps it until Over, and whoever else has a pointer.

#ifndef SERVER_RPC_CONVERSATION_H_
#define SERVER_RPC_CONVERSATION_H_

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "server/rpc/runner.h"
#include "server/rpc/stream.h"

namespace gluond::server {

class Conversation : public Stream {
 public:
  // These four may be called with a lock held: they call nobody back. After Finish they do nothing.

  // Asks for the next message. One at a time.
  void Read();
  // Sends a message; Written follows. One at a time.
  void Write(const Slices& message);
  // Sends the last word, after the message that is still being written. False: it was said before.
  bool Finish(const absl::Status& status);
  bool finished() const;

  // Calls Finish, and Ended where this was the last word.
  void End(const absl::Status& status);

  void Revoke(const absl::Status& why) override { End(why); }

 protected:
  Conversation(Runner& runner, const Opening& opening) : Stream(runner, opening) {}

  const Limits& limits() const { return runner().limits; }
  std::chrono::seconds lease() const { return std::chrono::seconds(limits().session_lease_seconds); }
  // Whether no message has come for as long as the lease.
  bool IsSilent(Clock::time_point now) const;
  // Memory for messages.
  Reservation NewReservation() const { return Reservation(Budget::PartOf(runner().memory)); }
  // Makes such for what may outlive the conversation.
  std::function<Reservation()> NewReservations() const {
    return [part = Budget::PartOf(runner().memory)] { return Reservation(part); };
  }
  // The client's name for itself, for the log. INVALID_ARGUMENT: it is too long; `message` has the field.
  absl::Status SetClient(absl::string_view message, const std::string& client_id);
  // Ends a call that has broken.
  void Break();
  // A line of the audit log on a part of the conversation, in the name of its caller. `command`: a constant.
  void TellAudit(absl::string_view command, const std::string& target, const absl::Status& status);

 private:
  // Events of the conversation; none of these is called with a lock held.

  // A message of `bytes` has come. Runs where the message may be parsed (dispatch.h).
  virtual void Receive(const Slices& message, int64_t bytes) = 0;
  // The last Write is done.
  virtual void Written() = 0;
  // The client says no more, or the call has broken.
  virtual void NoMoreMessages() = 0;
  // End has been called, or the call has broken. Ended may come before the stream is attached to something that it is
  // to detach it from: code that attaches it checks afterwards whether the stream has finished.
  virtual void Ended() = 0;
  // gRPC is done with the stream.
  virtual void Over() = 0;

  void ReceiveCompressed(const Slices& slices);
  void OnRead(Slices* message) final;
  void OnWritten(bool ok) final { ok ? Written() : Break(); }
  void OnCancelled() final { Break(); }
  void OnOver() final;

  const Clock::time_point start_ = Clock::now();

  mutable Mutex mu_;  // Taken last.
  std::string client_ ABSL_GUARDED_BY(mu_);
  int64_t received_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  Clock::time_point last_message_ ABSL_GUARDED_BY(mu_) = start_;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_CONVERSATION_H_
