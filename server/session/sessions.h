// Sessions: every session by its name, which is a secret of 128 random bits, and every stream. Thread-safe; its mutex
// is held for look-ups only.
//
// Outlives the gRPC server and the Runner; what sessions share outlives it. End first, while all lanes are there: programs
// are destroyed on their lanes.

#ifndef SERVER_SESSION_SESSIONS_H_
#define SERVER_SESSION_SESSIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "server/rpc/audit_log.h"
#include "server/rpc/shares.h"
#include "server/rpc/stream.h"
#include "server/rpc/streams.h"
#include "server/session/session.h"

namespace gluond::server {

class Sessions {
 public:
  // `audit` has a line for each change that a command makes or could not make, and for each refusal. `log` counts the
  // commands that a limit has refused. `owners` own the things that commands touch.
  Sessions(const SessionProgram::Shared& shared, const Limits& limits, SessionProgramFactory create_program, AuditLog& audit,
           FailureLog& log, Owners& owners);
  ~Sessions() { End(); }

  // The session that `open` names, or a new one, for the stream's caller. Fills `opened`. NOT_FOUND: the session has ended,
  // or another caller has opened it, or there is no such device. RESOURCE_EXHAUSTED names --max_sessions, or the tenant's
  // quota. UNAVAILABLE: the server is stopping.
  absl::StatusOr<std::shared_ptr<Session>> Open(const v1::OpenSession& open, const Stream& stream, v1::SessionOpened* opened);

  SharedStreams<SessionStream>& streams() { return streams_; }
  const SharedStreams<SessionStream>& streams() const { return streams_; }

  // Holds the sessions of those who could not open them any more. After their streams have been revoked.
  void HoldUnless(absl::FunctionRef<absl::Status(Access wanted, const Identity& owner, const Reach& reach)> may_go_on);
  // Ends sessions and streams whose clients are silent, and sessions away that hold too much.
  void Sweep();
  // Refuses new sessions and streams; the others end with UNAVAILABLE when they have done their received commands.
  void Drain();
  // Ends all sessions. Returns when their programs are destroyed.
  void End();

  int64_t size() const;

 private:
  absl::StatusOr<std::shared_ptr<Session>> Create(const v1::OpenSession& open, const Stream& stream);
  // Lines of the audit log for changes that the session's commands make, in the name of the stream's caller.
  SessionChanged ToAuditLog(const std::string& id, const Stream& stream);
  // Asks whether the session's commands may be done, in the name of its last stream's caller.
  SessionMay AsksOwners(const std::string& id, const Stream& stream);
  absl::StatusOr<std::shared_ptr<Session>> TakeUp(const std::string& id, const Stream& stream);
  struct Entry {
    std::shared_ptr<Session> session;
    Shares::Permit permit;  // None while it is away.
    IdentityPtr owner;      // The caller of its last stream. Null: nobody asks who callers are.
    Access wanted;          // The access that the method of that stream wants.
    Reach reach;            // The reach of the opener.
    std::string peer;       // The connection of its last stream, by name.
  };
  static bool IsOwner(const Entry& entry, const Stream& stream);
  // Calls `look` with the session's entry, if there is one.
  template <class Look>
  void LookAt(const std::string& id, Look look) {
    MutexLock lock(mu_);
    if (const auto found = sessions_.find(id); found != sessions_.end()) look(found->second);
  }
  absl::Status CheckQuota(const TenantPtr& tenant) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<std::shared_ptr<Session>> List() const;

  // The sessions that are away, the one longest so first.
  struct Away {
    std::shared_ptr<Session> session;
    TenantPtr tenant;
    Session::Away away;
  };
  std::vector<Away> ListAway(Session::Clock::time_point now) const;
  // Ends the longest away until the others keep within --max_named_session_bytes on each device, and each tenant's within
  // the tenant's quota.
  void EndThoseOverLimit(Session::Clock::time_point now);
  // The same for the sessions of one tenant, or of all where it is null. Those that it ends leave the list.
  void EndThoseOverLimit(Session::Clock::time_point now, const TenantPtr& tenant, std::vector<Away>* away);
  // Ends the longest away until all sessions and one more are at most --max_sessions.
  void MakeRoom();

  const SessionProgram::Shared shared_;
  const Limits limits_;
  const SessionProgramFactory create_program_;
  AuditLog& audit_;
  FailureLog& log_;
  Owners& owners_;

  Shares shares_;  // Counts sessions that are not away.
  SharedStreams<SessionStream> streams_;

  mutable Mutex mu_;  // Taken after the mutex of a session.
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  absl::flat_hash_map<std::string, Entry> sessions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_SESSIONS_H_
