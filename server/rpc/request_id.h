// Identity of a call for people who look for it in logs: the metadata `x-request-id` and `traceparent` (W3C Trace
// Context).

#ifndef SERVER_RPC_REQUEST_ID_H_
#define SERVER_RPC_REQUEST_ID_H_

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

}  // namespace gluond::server

#endif  // SERVER_RPC_REQUEST_ID_H_
