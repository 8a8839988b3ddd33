// Stopwatch: how long a call waited for its model and lane, how long it computed, and how much of that was spent on
// operators that clients compute.

#ifndef SERVER_SERVICES_STOPWATCH_H_
#define SERVER_SERVICES_STOPWATCH_H_

#include <chrono>
#include <memory>

#include "engine/nn/model.h"
#include "gluond/v1/training.pb.h"
#include "server/codec/duration.h"

namespace gluond::server {

class Stopwatch {
 public:
  explicit Stopwatch(Model& model) : model_(model) {}
  // To be made just before the call of `model` that it measures. The callback that stops it keeps the model alive.
  static std::shared_ptr<Stopwatch> Start(Model& model) { return std::make_shared<Stopwatch>(model); }

  // Adds that call's times to `timing`. To be called in its callback.
  void Stop(v1::Timing* timing) const {
    Add(model_.strand().begun() - arrived_, timing->mutable_queue());
    Add(Clock::now() - model_.strand().begun(), timing->mutable_compute());
    const ClientTime* const clients = model_.runs().client_time().get();
    if (clients == nullptr || clients->calls == 0) return;
    Add(std::chrono::nanoseconds(clients->wait_ns), timing->mutable_callback_wait());
    Add(std::chrono::nanoseconds(clients->callback_ns), timing->mutable_callback());
    timing->set_callbacks(timing->callbacks() + clients->calls);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static void Add(Clock::duration duration, google::protobuf::Duration* proto) {
    ToProto(std::chrono::seconds(proto->seconds()) + std::chrono::nanoseconds(proto->nanos()) + duration, proto);
  }

  Model& model_;
  const Clock::time_point arrived_ = Clock::now();
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_STOPWATCH_H_
