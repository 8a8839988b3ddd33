// Stopwatch: how long a call waited for its model and lane, how long it computed, and how much of that was spent on
// operators that clients compute.

#ifndef SERVER_SERVICES_STOPWATCH_H_
#define SERVER_SERVICES_STOPWATCH_H_

#include <chrono>
#include <memory>

#include "engine/nn/model.h"
#include "gluond/v1/training.pb.h"
#include "server/codec/duration.h"
#include "server/rpc/runner.h"

namespace gluond::server {

class Stopwatch {
 public:
  Stopwatch(Runner& runner, Model& model) : runner_(runner), model_(model) {}
  // To be made just before the call of `model` that it measures. The callback that stops it keeps the model alive.
  static std::shared_ptr<Stopwatch> Start(Runner& runner, Model& model) { return std::make_shared<Stopwatch>(runner, model); }

  // Adds the times of that call to `timing` and to those of the server. To be called in its callback.
  void Stop(v1::Timing* timing) const {
    const Clock::duration queued = model_.strand().begun() - arrived_, computed = Clock::now() - model_.strand().begun();
    Add(queued, timing->mutable_queue());
    Add(computed, timing->mutable_compute());
    runner_.queued.Add(queued);
    runner_.computed.Add(computed);
    const ClientTime* const clients = model_.runs().client_time().get();
    if (clients == nullptr || clients->calls == 0) return;
    Add(std::chrono::nanoseconds(clients->wait_ns), timing->mutable_callback_wait());
    Add(std::chrono::nanoseconds(clients->callback_ns), timing->mutable_callback());
    runner_.called_back.Add(std::chrono::nanoseconds(clients->wait_ns));
    timing->set_callbacks(timing->callbacks() + clients->calls);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static void Add(Clock::duration duration, google::protobuf::Duration* proto) {
    ToProto(std::chrono::seconds(proto->seconds()) + std::chrono::nanoseconds(proto->nanos()) + duration, proto);
  }

  Runner& runner_;
  Model& model_;
  const Clock::time_point arrived_ = Clock::now();
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_STOPWATCH_H_
