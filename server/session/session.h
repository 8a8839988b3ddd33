// Session: the part of a session that lives on while streams come and go. It has the program with its arrays, the commands
// that are not executed yet, and the replies that are not acknowledged yet. One stream serves a session at a time. A
// command is taken in once, by its number, and executed once, in order. That happens on the session's lane, some commands
// at a time, so that clients take turns. A command that takes long and computes no operator is executed beside the lane,
// which does nothing else meanwhile. Thread-safe; no thread ever waits. session.cc: streams, limits and ends; turns.cc: the
// lane.
//
//   stream --Attach, Receive--> commands --lane: Turn--> SessionProgram --Answer--> SessionReplies --Write--> stream
//
// Back-pressure: while commands and unsent replies hold more than --max_session_queue_bytes, no message is read. (One
// message may always come, to acknowledge replies or to keep the session alive.) While unsent replies alone hold so much,
// or too many commands have not come to an end, no command is executed.
//
// A session ends when the client has half-closed its stream and has everything, when the client is silent for longer than
// the lease, or when the server stops. Its program is destroyed beside the lane. A session that has saved or opened
// something (SaveSession, OpenSaved) is named: its client may be silent for --session_grace_seconds. While the client is
// away, a named session is the first to make room for others (Sessions::Sweep, Sessions::Create).

#ifndef SERVER_SESSION_SESSION_H_
#define SERVER_SESSION_SESSION_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/lane.h"
#include "gluond/v1/session.pb.h"
#include "google/protobuf/arena.h"
#include "server/hosted/devices.h"
#include "server/session/program.h"
#include "server/session/replies.h"
#include "server/start/limits.h"

namespace gluond::server {

class SessionStream;

// NOT_FOUND, for the client of a session that is no more.
absl::Status SessionIsGone();

// Makes a session's program, on its lane. Tests bring their own.
using SessionProgramFactory = std::function<std::shared_ptr<SessionProgram>(const SessionProgram::Shared&, Place&, Lane&,
                                                                            const Limits&, SessionProgram::Answer)>;

// A request as it came in.
struct SessionMessage {
  google::protobuf::Arena arena;
  v1::SessionRequest* const request = v1::SessionRequest::default_instance().New(&arena);
  Attachments attachments;
  int64_t bytes = 0;  // The memory that it takes.
  Reservation memory;
};
using SessionMessagePtr = std::shared_ptr<const SessionMessage>;

class Session final : public std::enable_shared_from_this<Session> {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::string id;
    std::function<std::shared_ptr<SessionProgram>(Lane&, SessionProgram::Answer)> create_program;
    // Cancelled when the session ends: graphs that its commands make are then nobody's.
    std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
    std::function<void()> on_end;   // Called once, with the session's mutex held.
    std::function<void()> on_away;  // Called likewise when Sweep finds that the client is away (see `away`).
  };
  // `memory` pays for replies that the client has not taken. `limits`, and the home of the lane, outlive the session.
  Session(Options options, std::shared_ptr<Lane> lane, std::shared_ptr<Budget> memory, const Limits& limits);

  const std::string& id() const { return options_.id; }

  // From here on `stream` serves the session. A stream that did before ends with ABORTED. `opened` is sent first. An
  // error (see session.proto) leaves the session as it is. NOT_FOUND: it has ended.
  absl::Status Attach(std::shared_ptr<SessionStream> stream, const v1::SessionOpened& opened, SessionMessagePtr first);

  // The rest of a stream's life. Does nothing where it does not serve the session any more.

  // Takes a message after the first. A mistake in it ends the stream, and leaves the session as it is.
  void Receive(SessionStream& stream, SessionMessagePtr message);
  // The client has half-closed the stream.
  void HalfClose(SessionStream& stream);
  // The last Write is done.
  void Written(SessionStream& stream);
  // The stream has ended.
  void Detach(SessionStream& stream);

  // The caller's credential is no longer good: unless a stream serves the session, of the commands received no other is
  // executed before it is attached again. They are not dropped: the client may know that they were received, and not have
  // them any more.
  void Hold();
  // Ends the session where its client has been silent for longer than the lease; one that is named, than the grace.
  void Sweep(Clock::time_point now);
  // A named session whose client has been silent for longer than the lease: since when, and the bytes that it holds.
  struct Away {
    Clock::time_point since;
    std::vector<std::pair<Device, int64_t>> bytes;
  };
  std::optional<Away> away(Clock::time_point now);
  // The client is back. False: the session has ended.
  bool Return();
  // Ends the session unless its client is back by now. Returns whether it did.
  bool EndIfAway(Clock::time_point now, const absl::Status& status);
  // Ends the stream with UNAVAILABLE, once the received commands have been executed and answered.
  void Drain();
  void End(const absl::Status& status);

 private:
  // Commands of one message, from `index` on.
  struct Batch {
    SessionMessagePtr message;
    int index = 0;
    const v1::Command& command() const { return message->request->commands(index); }
  };
  enum class Next { kNothing, kPosted, kTimed };  // Tells how the next turn comes.

  // On the lane.
  struct TurnWork final : Work {
    explicit TurnWork(Session* session) : session(session) {}
    void Do() override { session->Turn(); }
    Session* const session;
  };
  void Turn();
  bool TakesLong(const Batch& batch) const;
  void Execute(const Batch& batch);
  void ExecuteBeside(Batch batch);
  bool Advance(Batch* batch, bool more);
  void Settle();
  void Answer(v1::Reply reply, const Attachments& attachments, int64_t bytes);
  void Destroy();

  absl::Status Check(const v1::SessionRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Accept(SessionMessagePtr message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayExecute() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Ending() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stream_ != nullptr && (half_closed_ || draining_); }
  void PostTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Write(v1::SessionResponse response, const Slices& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndStreamIfDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the client has been silent for so long.
  bool IsSilent(int64_t seconds, Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsAway(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !ended_ && named_ && IsSilent(limits_.session_lease_seconds, now);
  }

  const Options options_;
  const std::shared_ptr<Lane> lane_;
  const Limits& limits_;
  TurnWork turn_work_;

  // Used on the lane's thread alone.
  std::shared_ptr<SessionProgram> program_;
  uint64_t answered_ = 0;

  Mutex mu_;                                                    // Taken before the mutex of a stream.
  std::shared_ptr<SessionStream> stream_ ABSL_GUARDED_BY(mu_);  // Null: none.
  bool reading_ ABSL_GUARDED_BY(mu_) = false;                   // The stream waits for a message.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  int64_t writing_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  bool farewell_ ABSL_GUARDED_BY(mu_) = false;  // A last message is to be written.
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool named_ ABSL_GUARDED_BY(mu_) = false;  // It has saved or opened something.
  bool away_ ABSL_GUARDED_BY(mu_) = false;   // As on_away was told.
  SessionProgram::Budgets budgets_ ABSL_GUARDED_BY(mu_);
  Clock::time_point last_sign_ ABSL_GUARDED_BY(mu_) = Clock::now();  // The client last showed that it lives.

  std::deque<Batch> inbox_ ABSL_GUARDED_BY(mu_);  // Commands that are not executed yet, up to received_.
  int64_t inbox_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t received_ ABSL_GUARDED_BY(mu_) = 0;  // Number of the last command,
  uint64_t told_ ABSL_GUARDED_BY(mu_) = 0;      // and the last one that the client knows to be received.
  int64_t untold_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool asked_ ABSL_GUARDED_BY(mu_) = false;   // An empty message asks for an answer.
  int64_t pending_ ABSL_GUARDED_BY(mu_) = 0;  // As the program said at its last turn.
  SessionReplies outbox_ ABSL_GUARDED_BY(mu_);
  Reservation outbox_memory_ ABSL_GUARDED_BY(mu_);
  bool outbox_is_paid_ ABSL_GUARDED_BY(mu_) = true;  // False: nothing is executed before replies have been taken.

  Next next_ ABSL_GUARDED_BY(mu_) = Next::kNothing;
  std::shared_ptr<Session> self_ ABSL_GUARDED_BY(mu_);  // While a turn is to come.
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_SESSION_H_
