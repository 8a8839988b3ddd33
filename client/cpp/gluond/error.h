// The facts of the server's errors, for programs; messages are for people, and their words may change.
//
//   if (ReasonOf(status) == "ALREADY_EXISTS") ...

#ifndef GLUOND_ERROR_H_
#define GLUOND_ERROR_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gluond/export.h"

namespace gluond::client {

// `status` with this reason, as an error of the server's would have it.
GLUOND_EXPORT absl::Status WithReason(absl::Status status, const std::string& reason,
                                      const std::map<std::string, std::string>& facts);

// Whether the call is worth another attempt: the server cannot be reached, or has stopped, or asks for one.
// (Where it is there, it tells by UNAVAILABLE that a client which computes an operator is not.)
GLUOND_EXPORT bool MayBeBack(const absl::Status& status);

// The traceback of the client whose operator failed; empty where none did.
GLUOND_EXPORT std::string TracebackOf(const absl::Status& status);

// The reason; docs/wire.md lists them. Empty: OK, or an error of the client or of the network.
GLUOND_EXPORT std::string ReasonOf(const absl::Status& status);

// The reason's metadata; docs/wire.md lists their names with it.
GLUOND_EXPORT std::map<std::string, std::string> FactsOf(const absl::Status& status);

// The time after which the server asks for another attempt; zero: it asks for none.
GLUOND_EXPORT absl::Duration RetryDelayOf(const absl::Status& status);

}  // namespace gluond::client

#endif  // GLUOND_ERROR_H_
