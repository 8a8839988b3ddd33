// SessionStream is gRPC's side of one stream of SessionService: parses one message after the other, opens or resumes the
// session that the first one names, and hands it the rest. The session decides when to read, write and finish. Owned by
// Sessions, until gRPC is done with it, and by its session.

#ifndef SERVER_SESSION_STREAM_H_
#define SERVER_SESSION_STREAM_H_

#include <memory>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "server/rpc/conversation.h"
#include "server/session/session.h"
#include "server/wire/attachments.h"

namespace gluond::server {

class Sessions;

class SessionStream final : public Conversation {
 public:
  SessionStream(Sessions& sessions, Runner& runner, const Opening& opening) : Conversation(runner, opening), sessions_(sessions) {}

  // Ends a stream that does not say which session it wants.
  void Sweep(Clock::time_point now);
  // The server stops. A stream with a session ends when the session says so.
  void Drain();

 private:
  void Receive(const Slices& message, int64_t bytes) override;
  void Written() override;
  void NoMoreMessages() override;
  void Ended() override;  // Leaves the session to another stream.
  void Over() override;

  absl::Status Parse(const Slices& slices, int64_t bytes, SessionMessage* message) const;
  absl::Status Open(SessionMessagePtr first);
  std::shared_ptr<Session> session();

  Sessions& sessions_;
  Mutex session_mu_;  // Held alone.
  std::shared_ptr<Session> session_ ABSL_GUARDED_BY(session_mu_);
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_STREAM_H_
