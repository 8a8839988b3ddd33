// The pieces of a log's lines of JSON.

#ifndef SERVER_RPC_JSON_LINE_H_
#define SERVER_RPC_JSON_LINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gluond::server {

// The text in quotes, escaped as JSON wants it.
std::string JsonQuoted(absl::string_view text);

// The same of at most 2000 bytes: some messages hold texts that clients send.
std::string JsonExcerpt(absl::string_view text);

// {"time":"2026-11-21T03:04:05.678Z","event":"request_failed"
std::string BeginJsonLine(absl::string_view event);

}  // namespace gluond::server

#endif  // SERVER_RPC_JSON_LINE_H_
