// Lengths of time as the wire has them.

#ifndef SERVER_CODEC_DURATION_H_
#define SERVER_CODEC_DURATION_H_

#include <chrono>
#include <cstdint>

#include "google/protobuf/duration.pb.h"

namespace gluond::server {

inline void ToProto(std::chrono::nanoseconds duration, google::protobuf::Duration* proto) {
  constexpr int64_t kSecond = 1'000'000'000;
  proto->set_seconds(duration.count() / kSecond);
  proto->set_nanos(static_cast<int32_t>(duration.count() % kSecond));
}

}  // namespace gluond::server

#endif  // SERVER_CODEC_DURATION_H_
