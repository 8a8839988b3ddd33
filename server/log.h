// One line of JSON on stderr for each request that failed, for machines and people:
//
//   {"time":"2026-11-21T03:04:05.678Z","event":"request_failed","method":"/gluond.v1.ModelService/Predict",
//    "code":"NOT_FOUND","message":"...","peer":"ipv4:127.0.0.1:51234","bytes":31,"ms":0.2}

#ifndef SERVER_LOG_H_
#define SERVER_LOG_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

struct FailedRequest {
  absl::string_view method;
  absl::Status status;
  std::string peer;
  int64_t bytes = 0;
  double milliseconds = 0;
  std::string client = {};  // The name that it gave itself, where it gave one.
};

std::string ToJsonLine(const FailedRequest& request);

// "INVALID_ARGUMENT" and the like.
absl::string_view CodeName(absl::StatusCode code);

// Where lines go; tests listen in. Writes each line whole.
using LogSink = std::function<void(absl::string_view line)>;
void LogToStderr(absl::string_view line);

}  // namespace gluond::server

#endif  // SERVER_LOG_H_
