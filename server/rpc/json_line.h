// The pieces of a log's lines of JSON.

#ifndef SERVER_RPC_JSON_LINE_H_
#define SERVER_RPC_JSON_LINE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "server/rpc/log_limit.h"

namespace gluond::server {

// Whether a character stands for itself between quotes.
inline bool IsPlainInJson(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\' && c != '\x7f'; }

// The text in quotes, escaped as JSON wants it.
std::string JsonQuoted(absl::string_view text);

// At most so many bytes of a text. Characters stay whole.
absl::string_view Cut(absl::string_view text, size_t most);

// JsonQuoted of at most 2000 bytes: some messages hold texts that clients send.
std::string JsonExcerpt(absl::string_view text);

// A further member of a line's object: `,"name":"value"`; nothing where the value is empty.
std::string JsonIfThere(absl::string_view name, absl::string_view value);

// {"time":"2026-11-21T03:04:05.678Z","event":"request_failed","level":"warning"
std::string BeginJsonLine(absl::string_view event, LogLevel level);
// The beginning of that, {"time":"2026-11-21T03:04:05.678Z", until the calling thread's next call. Cheap: a thread formats
// each second once.
absl::string_view JsonTime();

}  // namespace gluond::server

#endif  // SERVER_RPC_JSON_LINE_H_
