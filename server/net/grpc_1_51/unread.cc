#include "server/net/grpc_1_51/unread.h"

#include <algorithm>
#include <cmath>

namespace gluond::server {
namespace {

// Bytes that come beside messages: once, for each byte sent (the client opens windows), and in each second.
constexpr int64_t kGreeting = 4096;
constexpr int64_t kSentPerByte = 512;
constexpr double kPerSecond = 64 << 10;
// A connection is not ended for less than this part of the limit, even where others use the memory up.
constexpr int64_t kLittle = 8;
// An estimate that is too high gives a connection credit for no more bytes than these.
constexpr int64_t kCredit = 1 << 20;

// The record of bytes kept unread fades to 1/e within so many seconds.
constexpr double kMemory = 10;

// The bytes that are unread, `passed` seconds after the last look.
int64_t Correct(int64_t bytes, double passed, int64_t* correction) {
  bytes += *correction;
  const int64_t change =
      bytes > 0 ? -std::min(bytes, static_cast<int64_t>(kPerSecond * passed)) : std::max<int64_t>(0, -kCredit - bytes);
  *correction += change;
  return std::max<int64_t>(0, bytes + change);
}

}  // namespace

std::vector<std::string> Unread::Look(const std::vector<Connection>& connections, Clock::time_point now) {
  struct Waiting {
    double kept;
    int64_t bytes;
    const std::string* name;
  };
  std::vector<Waiting> waiting;
  absl::flat_hash_map<std::string, Seen> seen;
  const double passed = last_look_ == Clock::time_point() ? 0 : std::chrono::duration<double>(now - last_look_).count();
  bytes_ = 0;
  for (const Connection& connection : connections) {
    const auto found = seen_.find(connection.name);
    Seen& one = seen[connection.name] = found == seen_.end() ? Seen() : found->second;
    if (connection.given < one.given) {
      one.correction -= one.given - connection.given;
      one.renewed += one.given - connection.given;
    }
    one.given = connection.given;
    const int64_t unread = connection.received - kGreeting - connection.given - connection.sent / kSentPerByte;
    const bool is_quiet = connection.received == std::exchange(one.received, connection.received);
    if (connection.is_renewed && (connection.has_calls || is_quiet)) {
      one.correction = std::min(one.correction, -one.renewed);
      one.renewed = unread;
    }
    const int64_t bytes = Correct(unread, passed, &one.correction);
    one.kept = one.kept * std::exp(-passed / kMemory) + static_cast<double>(bytes) * passed;
    bytes_ += bytes;
    if (bytes > 0) waiting.push_back({one.kept, bytes, &connection.name});
  }
  seen_ = std::move(seen);
  last_look_ = now;

  std::vector<std::string> ended;
  const int64_t most = memory_.Cover(std::min(bytes_, most_)).ok() ? most_ : std::max(memory_.bytes(), most_ / kLittle);
  std::sort(waiting.begin(), waiting.end(), [](const Waiting& a, const Waiting& b) { return a.kept > b.kept; });
  for (const Waiting& one : waiting) {
    if (bytes_ <= most) break;
    bytes_ -= one.bytes;
    ended.push_back(*one.name);
  }
  return ended;
}

}  // namespace gluond::server
