#include "server/rpc/request_id.h"

#include <algorithm>
#include <cstdint>
#include <random>

namespace gluond::server {
namespace {

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(absl::string_view text) { return text.find_first_not_of('0') == absl::string_view::npos; }

}  // namespace

bool IsRequestId(absl::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
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

}  // namespace gluond::server
