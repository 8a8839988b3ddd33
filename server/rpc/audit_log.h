// AuditLog has a line of JSON for each change that somebody made, or could not make, and for each call that was refused for
// whoever made it:
//
//   {"time":"...","event":"audit","caller":"alice","method":"/gluond.v1.ModelService/DeleteModel","target":"digits",
//    "code":"OK","peer":"ipv4:10.0.0.7:51234","request_id":"4f5c..."}
//
// Changes are all there, and lines of failures leave room for those that were made (log_writer.h). Refusals come from
// anybody, as fast as he likes: of one method and code some have a line, and the others are counted, in `left_out` of the
// next such line or in one of the event "audit_left_out". A target is cut off behind 200 bytes. Thread-safe.

#ifndef SERVER_RPC_AUDIT_LOG_H_
#define SERVER_RPC_AUDIT_LOG_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/rpc/log.h"
#include "server/rpc/log_limit.h"

namespace gluond::server {

struct Audited {
  absl::string_view method;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string caller;  // The identity's name; empty: nobody asks for it, or nobody knows it.
  std::string target;
  std::string peer;
  std::string request_id;
  absl::string_view command = {};  // The session's, where the method is a session's stream: "SaveAsModel".
};

// Whether a call that ends so was refused for whoever made it.
inline bool IsRefusal(absl::StatusCode code) {
  return code == absl::StatusCode::kUnauthenticated || code == absl::StatusCode::kPermissionDenied;
}

class AuditLog {
 public:
  // From here on lines go to `sink`. Before the first call.
  void Open(LogSink sink) { sink_ = std::move(sink); }
  bool is_open() const { return sink_ != nullptr; }

  void Changed(const Audited& audited);
  void Refused(const Audited& audited);
  // Log the numbers of lines left out; to be called now and then, and in the end for all.
  void Sweep() { Tell(limit_.TakeLeftOut()); }
  void Flush() { Tell(limit_.TakeAllLeftOut()); }

 private:
  void Tell(const LogLimit::Counts& counts);

  LogSink sink_;  // Null: nobody wants lines.
  LogLimit limit_;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_AUDIT_LOG_H_
