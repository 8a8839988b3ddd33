// The facts of the server's errors, for programs; messages are for people, and their words may change.
//
//   if (ReasonOf(status) == "ALREADY_EXISTS") ...

#ifndef GLUOND_CLIENT_CPP_ERROR_H_
#define GLUOND_CLIENT_CPP_ERROR_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace gluond::client {

// The reason and its metadata; docs/wire.md lists them. None: OK, or an error of the client or of the network.
std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const absl::Status& status);

// `status` with this reason, as an error of the server's would have it.
absl::Status WithReason(absl::Status status, const std::string& reason, const std::map<std::string, std::string>& metadata);

// The error that the server tells of in an answer, or in the details of a call's end.
absl::Status StatusOf(const google::rpc::Status& told);

// Whether the call is worth another attempt: the server cannot be reached, or has stopped, or asks for one.
// (Where it is there, it tells by UNAVAILABLE that a client which computes an operator is not.)
bool MayBeBack(const absl::Status& status);

// The traceback of the client whose operator failed; empty where none did.
std::string TracebackOf(const absl::Status& status);

// The reason; empty where there is none.
std::string ReasonOf(const absl::Status& status);

// The time after which the server asks for another attempt; zero: it asks for none.
absl::Duration RetryDelayOf(const absl::Status& status);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_ERROR_H_
