// Ending says why a connection has ended that its clients have not ended.

#ifndef SERVER_NET_ENDING_H_
#define SERVER_NET_ENDING_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace gluond::server {

enum class Ending {
  kResets,          // Calls were reset faster than they may be.
  kUnreadAnswers,   // Answers were not read.
  kUnreadMessages,  // Messages were begun and not sent to their end.
  kHeaders,         // A call's headers were far too long.
  kTransport,       // gRPC has ended it.
};
inline constexpr size_t kEndings = 5;

// A word, as metrics have it.
constexpr absl::string_view NameOf(Ending ending) {
  constexpr absl::string_view kNames[kEndings] = {"resets", "answers", "messages", "headers", "transport"};
  return kNames[static_cast<size_t>(ending)];
}

// A reason in words, for logs.
constexpr absl::string_view ReasonOf(Ending ending) {
  constexpr absl::string_view kReasons[kEndings] = {
      "it has ended more calls before their answers, or opened more that were refused, than it may have under way",
      "it has more answers to read than a connection may have",
      "of all messages that have not come whole, its hold the most memory for the longest time",
      "a call of it has headers beyond all limits", "an error of protocol, a client that answers no ping, or its age"};
  return kReasons[static_cast<size_t>(ending)];
}

}  // namespace gluond::server

#endif  // SERVER_NET_ENDING_H_
