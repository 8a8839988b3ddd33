// InferRequest: one request to a version, from its arrival to its answer.

#ifndef SERVER_SERVING_INFER_REQUEST_H_
#define SERVER_SERVING_INFER_REQUEST_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/named_tensor.h"
#include "engine/runtime/account.h"
#include "engine/runtime/cancellation.h"
#include "server/net/peers.h"

namespace gluond::server {

// Where the time of a request went, as of Statistics, and the rows that were computed with its own.
struct InferTimes {
  std::chrono::nanoseconds queue{0}, input{0}, infer{0}, output{0};
  int64_t rows = 0;
};

struct InferRequest final : Cancellation::Listener {
  using Clock = std::chrono::steady_clock;

  NamedTensors inputs;               // On the host.
  std::vector<std::string> outputs;  // Empty: all.
  uint64_t priority = 0;             // From 1, the highest, on. 0: the version's default.
  std::optional<std::chrono::microseconds> timeout;
  std::shared_ptr<Cancellation> cancellation;              // May be null.
  std::function<void(absl::StatusOr<NamedTensors>)> done;  // Called once, on any thread; must not block.
  bool tells_times = false;                                // The answer has the times.
  PeerPtr peer;                                            // Gets the answer; null: nobody knows it.
  std::string caller;  // The identity's name; empty: nobody knows it, and the connection stands for it.

  // The version sets these.
  AccountPtr account;
  int64_t rows = 1;
  std::string kind;       // Requests of one kind may be computed together.
  bool is_alone = false;  // It was in a batch that failed.
  int64_t turn = 0;       // Its place among the requests of its priority; set by the queue.
  Clock::time_point arrived = Clock::now();
  std::optional<Clock::time_point> too_late;  // Nobody wants the answer afterwards.
  InferTimes times;                           // Set before `done` has outputs.
  std::function<void()> wake;                 // Called when it is cancelled, while it listens.

  void Unlisten() {
    if (cancellation != nullptr) cancellation->Unlisten(this);
  }
  void OnCancel() override { wake(); }
};
using InferRequestPtr = std::shared_ptr<InferRequest>;
using Batch = std::vector<InferRequestPtr>;  // Requests that are computed together.

}  // namespace gluond::server

#endif  // SERVER_SERVING_INFER_REQUEST_H_
