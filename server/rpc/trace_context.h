// Identity of a call for people who look for it in logs: the metadata `x-request-id`, and the metadata `traceparent` as a
// TraceContext. That is the call's place in a trace, by level 1 of the W3C's Trace Context. The call is a new span; where its
// client sent a `traceparent`, within the client's.
//
//   TraceContext trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
//   trace.trace();   // "4bf92f3577b34da6a3ce929d0e0e4736"
//   trace.span();    // A new one, of 16 hexadecimal digits.
//   trace.parent();  // "00f067aa0ba902b7"

#ifndef SERVER_RPC_TRACE_CONTEXT_H_
#define SERVER_RPC_TRACE_CONTEXT_H_

#include <array>
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace gluond::server {

inline constexpr char kRequestIdKey[] = "x-request-id";
inline constexpr char kTraceparentKey[] = "traceparent";

// Whether the text is 1 to 128 printable ASCII characters without a space.
bool IsRequestId(absl::string_view text);
// Whether the text is a valid `traceparent`: version-trace-parent-flags, in lower case hexadecimal.
bool IsTraceparent(absl::string_view text);
// A new one, of kRandomDigits hexadecimal digits.
std::string NewRequestId();
inline constexpr size_t kRandomDigits = 16;
// Writes so many digits of a random number that is not 0.
void WriteRandomDigits(char* to);

class TraceContext {
 public:
  // `traceparent`: as the client sent it. A malformed one, or none, begins a new trace, as the standard has it.
  explicit TraceContext(absl::string_view traceparent);

  absl::string_view trace() const { return {trace_.data(), trace_.size()}; }
  absl::string_view span() const { return {span_.data(), span_.size()}; }
  // Empty: the trace begins here.
  absl::string_view parent() const { return {parent_.data(), has_parent_ ? parent_.size() : 0}; }
  // The `traceparent` of whatever this call causes, which its reply gives back.
  std::string ToTraceparent() const;

 private:
  std::array<char, 32> trace_;
  std::array<char, 16> span_, parent_;
  bool has_parent_ = false;
  bool sampled_ = false;  // The client records this trace.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_TRACE_CONTEXT_H_
