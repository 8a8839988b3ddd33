// Stopwatch: how long a call waited for its model and lane, and how long it computed.

#ifndef SERVER_STOPWATCH_H_
#define SERVER_STOPWATCH_H_

#include <chrono>
#include <memory>

#include "engine/nn/model.h"
#include "proto/training.pb.h"

namespace gluond::server {

class Stopwatch {
 public:
  // To be made just before the call of `model` that it measures.
  static std::shared_ptr<Stopwatch> Start(Model& model) {
    auto watch = std::make_shared<Stopwatch>();
    model.Enqueue([watch](Model::Finished finished) {
      watch->begun_ = Clock::now();
      finished();
    });
    return watch;
  }

  // To be called on the model's strand, when the call is done.
  void Stop(v1::Timing* timing) const {
    Set(begun_ - arrived_, timing->mutable_queue());
    Set(Clock::now() - begun_, timing->mutable_compute());
  }

 private:
  using Clock = std::chrono::steady_clock;
  static void Set(Clock::duration duration, google::protobuf::Duration* proto) {
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
    proto->set_seconds(nanoseconds / 1'000'000'000);
    proto->set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  }

  const Clock::time_point arrived_ = Clock::now();
  Clock::time_point begun_ = arrived_;
};

}  // namespace gluond::server

#endif  // SERVER_STOPWATCH_H_
