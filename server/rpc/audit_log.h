// AuditLog has a line of JSON for each change that somebody made, or could not make. Calls that read what models have learned
// have lines, and so have calls that were refused for whoever made them:
//
//   {"time":"...","event":"audit","level":"info","caller":"alice","method":"/gluond.v1.ModelService/DeleteModel",
//    "target":"digits","code":"OK","peer":"ipv4:10.0.0.7:51234","request_id":"4f5c..."}
//
// Changes are all there, and lines of failures leave room for those that were made (log_writer.h). Reads and refusals come as
// fast as a caller likes. Some have a line of those with one caller, method and code, and of reads that went well, with one
// target, too. The others are counted, in `left_out` of the next such line or in a line of the event "audit_left_out". Whom
// nobody knows is told from others by his address. So no caller can hide another one's lines. A target is cut off behind 200
// bytes. Thread-safe.

#ifndef SERVER_RPC_AUDIT_LOG_H_
#define SERVER_RPC_AUDIT_LOG_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/identity/access.h"
#include "server/rpc/log.h"
#include "server/rpc/log_limit.h"

namespace gluond::server {

struct Audited {
  absl::string_view method = {};  // Or what else has happened: "reload".
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string caller = {};  // The identity's name; empty: nobody asks for it, or nobody knows it.
  std::string target = {};
  std::string peer = {};  // Empty: no call has done it.
  std::string request_id = {};
  Audit audit = Audit::kEach;
  absl::string_view command = {};  // The session's, where the method is a session's stream: "SaveAsModel".
};

// Whether a call that ends so was refused for whoever made it.
inline bool IsRefusal(absl::StatusCode code) {
  return code == absl::StatusCode::kUnauthenticated || code == absl::StatusCode::kPermissionDenied;
}

class AuditLog {
 public:
  // Whether the log's lines are written.
  using Health = std::function<bool()>;

  // From here on lines go to `sink`. Before the first call. With a `health` the log is required: see Check.
  void Open(LogSink sink, Health health = nullptr) {
    sink_ = std::move(sink);
    health_ = std::move(health);
  }
  bool is_open() const { return sink_ != nullptr; }
  // Whether what the log has lines of may be done. UNAVAILABLE: the log is required, and cannot be written.
  absl::Status Check() const;

  // Requires: `audit` is not kNone.
  void Tell(const Audited& audited);
  // Logs the numbers of lines left out; to be called now and then, and in the end for all.
  void Sweep(LogLimit::Which which = LogLimit::kDue);

 private:
  static constexpr size_t kMostCallers = 4096, kMostStrangers = 4096;

  LogSink sink_;   // Null: nobody wants lines.
  Health health_;  // Null: the log is not required.
  LogLimit callers_{kMostCallers}, strangers_{kMostStrangers};
};

}  // namespace gluond::server

#endif  // SERVER_RPC_AUDIT_LOG_H_
