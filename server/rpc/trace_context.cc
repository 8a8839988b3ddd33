#include "server/rpc/trace_context.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "server/rpc/request_id.h"

namespace gluond::server {
namespace {

// The places of a traceparent's parts: version-trace-parent-flags.
constexpr size_t kTrace = 3, kParent = 36, kFlags = 53;

// The last of the flags' bits is the one that level 1 knows.
bool IsOdd(char digit) { return ((digit >= 'a' ? digit - 'a' + 10 : digit - '0') & 1) != 0; }

}  // namespace

TraceContext::TraceContext(absl::string_view traceparent) {
  WriteRandomDigits(span_.data());
  if (!IsTraceparent(traceparent)) {
    WriteRandomDigits(trace_.data());
    WriteRandomDigits(trace_.data() + kRandomDigits);
    return;
  }
  traceparent.substr(kTrace).copy(trace_.data(), trace_.size());
  traceparent.substr(kParent).copy(parent_.data(), parent_.size());
  has_parent_ = true;
  sampled_ = IsOdd(traceparent[kFlags + 1]);
}

std::string TraceContext::ToTraceparent() const { return absl::StrCat("00-", trace(), "-", span(), sampled_ ? "-01" : "-00"); }

}  // namespace gluond::server
