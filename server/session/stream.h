// SessionStream is gRPC's side of one stream of SessionService: reads and parses one message after the other, opens or
// resumes the session that the first one names, hands it the rest, writes what the session says, and logs how it ends.
// The session decides when to read, write and finish. Shared by Sessions, until gRPC is done with it, and its session.

#ifndef SERVER_SESSION_STREAM_H_
#define SERVER_SESSION_STREAM_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/unary.h"
#include "server/session/session.h"
#include "server/wire/attachments.h"

namespace gluond::server {

class Sessions;

class SessionStream final : public Stream, public std::enable_shared_from_this<SessionStream> {
 public:
  // Begins to read. gRPC's threads and those of `runner` use all of these until the stream is finished.
  static SessionStream* Start(Sessions& sessions, Runner& runner, const Method& method, Opening opening);
  SessionStream(Sessions& sessions, Runner& runner, const Method& method, Opening opening);

  // For the session. Nothing happens after Finish.

  // Wants the next message. One at a time.
  void Read();
  // Sends a message; the session's Written follows. One at a time.
  void Write(const Slices& message);
  // Ends the stream. What is still being written comes before the status.
  void Finish(const absl::Status& status);

  // Ends a stream that does not say which session it wants, and drops one whose client does not take its end.
  void Sweep(Clock::time_point now);
  // The server stops. A stream with a session ends when the session says so.
  void Drain();

 private:
  void OnRead(Slices* message) override;
  void OnWritten(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Parse(const Slices& slices, int64_t bytes);
  void Open(SessionMessagePtr first);
  void EndOfMessages();
  // Ends the stream and leaves the session to another one.
  void Fail(const absl::Status& status);
  void Break();
  std::shared_ptr<Session> session();
  bool finished();
  void Log(const absl::Status& status) const;

  Sessions& sessions_;
  Runner& runner_;
  const Method& method_;
  const Clock::time_point start_ = Clock::now();

  std::mutex mu_;  // Guards all that follows. Taken after a session's.
  std::shared_ptr<Session> session_;
  std::string client_;
  int64_t received_bytes_ = 0;
  bool finished_ = false;
  bool done_ = false;
  Clock::time_point finish_time_;
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_STREAM_H_
