// Lengths of time, and times, as the wire has them.

#ifndef SERVER_CODEC_DURATION_H_
#define SERVER_CODEC_DURATION_H_

#include <chrono>
#include <cstdint>

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace gluond::server {

// `proto`: a Duration, or a Timestamp, whose time is that since 1970.
template <class Proto>
void ToProto(std::chrono::nanoseconds duration, Proto* proto) {
  constexpr int64_t kSecond = 1'000'000'000;
  proto->set_seconds(duration.count() / kSecond);
  proto->set_nanos(static_cast<int32_t>(duration.count() % kSecond));
}

inline void SetTime(std::chrono::system_clock::time_point time, google::protobuf::Timestamp* proto) {
  ToProto(time.time_since_epoch(), proto);
}

// Requires: it is less than 200 years.
inline std::chrono::nanoseconds FromProto(const google::protobuf::Duration& proto) {
  return std::chrono::seconds(proto.seconds()) + std::chrono::nanoseconds(proto.nanos());
}

}  // namespace gluond::server

#endif  // SERVER_CODEC_DURATION_H_
