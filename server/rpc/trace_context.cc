#include "server/rpc/trace_context.h"

#include <cstdint>
#include <random>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

// The places of a traceparent's parts: version-trace-parent-flags.
constexpr size_t kTrace = 3, kParent = 36, kFlags = 53;

// The last of the flags' bits is the one that level 1 knows.
bool IsOdd(char digit) { return ((digit >= 'a' ? digit - 'a' + 10 : digit - '0') & 1) != 0; }

bool IsHex(absl::string_view text) {
  return absl::c_all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(absl::string_view text) { return text.find_first_not_of('0') == absl::string_view::npos; }

}  // namespace

bool IsRequestId(absl::string_view text) {
  return !text.empty() && text.size() <= 128 && absl::c_all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

bool IsTraceparent(absl::string_view text) {
  constexpr size_t kSize = 55, kMost = 256;
  if (text.size() < kSize || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
  const absl::string_view version = text.substr(0, 2), trace = text.substr(3, 32), parent = text.substr(36, 16);
  if (!IsHex(version) || !IsHex(trace) || !IsHex(parent) || !IsHex(text.substr(53, 2))) return false;
  if (version == "ff" || IsZero(trace) || IsZero(parent)) return false;
  if (text.size() == kSize) return true;
  // Versions to come may append more.
  return version != "00" && text[kSize] == '-' && text.size() <= kMost && IsRequestId(text.substr(0, 128)) &&
         (text.size() <= 128 || IsRequestId(text.substr(128)));
}

void WriteRandomDigits(char* to) {
  // SplitMix64: ids want to differ, and cost each call that is logged four of these.
  thread_local uint64_t state = uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  uint64_t id = 0;
  while (id == 0) {  // The standard has no span of zeros.
    id = state += 0x9e3779b97f4a7c15;
    id = (id ^ (id >> 30)) * 0xbf58476d1ce4e5b9;
    id = (id ^ (id >> 27)) * 0x94d049bb133111eb;
    id ^= id >> 31;
  }
  for (size_t i = 0; i < kRandomDigits; ++i) to[i] = "0123456789abcdef"[id >> (60 - 4 * i) & 15];
}

std::string NewRequestId() {
  std::string id(kRandomDigits, '0');
  WriteRandomDigits(id.data());
  return id;
}

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
