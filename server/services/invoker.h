// Invoker runs single operators on tensors of the host, on any device. Each account has lanes and compiled calls of its
// own, so that a long operator of one client holds up no other client. Thread-safe.

#ifndef SERVER_SERVICES_INVOKER_H_
#define SERVER_SERVICES_INVOKER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/core/node_attrs.h"
#include "engine/imperative/scheduler.h"
#include "engine/runtime/account.h"
#include "engine/runtime/cancellation.h"
#include "server/hosted/devices.h"

namespace gluond::server {

struct OperatorCall {
  std::string op;
  AttrDict attrs;
  std::vector<Tensor> inputs;  // On the host. They are not written.
  bool training;
  uint64_t seed;
  std::shared_ptr<Cancellation> cancellation;
  std::string tenant;  // The tenant of the caller: "acme/". Custom operators are those that its clients share.
};

class Invoker {
 public:
  // `devices` outlives the invoker and its calls.
  explicit Invoker(Devices& devices) : devices_(devices) {}

  // `done` gets the visible outputs, on the host. It is called once: on a lane of the place, or here where there is no such
  // operator (NOT_FOUND), or none with a kernel for the device (FAILED_PRECONDITION).
  using Done = std::function<void(absl::StatusOr<std::vector<Tensor>>)>;
  void Invoke(Place& place, OperatorCall invoked, Done done);

  // Drops the compiled calls of connections that are gone, and those that nobody has used for a minute.
  void Sweep();

 private:
  using Clock = std::chrono::steady_clock;

  // Compiled calls of an account on one device.
  struct Bench {
    std::weak_ptr<const Account> account;  // A bench does not keep a connection's account.
    Place* place;
    std::shared_ptr<Lane> lane;
    std::shared_ptr<Scheduler> scheduler;
    PreparedOps calls;            // Used on the lane.
    Clock::time_point last_used;  // Guarded by the invoker's mutex.
  };
  using BenchPtr = std::shared_ptr<Bench>;

  absl::Status Start(const BenchPtr& bench, OperatorCall invoked, const Done& done);
  // The bench of the calling thread's account.
  BenchPtr Find(Place& place);

  Devices& devices_;
  Mutex mu_;
  std::list<BenchPtr> benches_ ABSL_GUARDED_BY(mu_);  // The most recently used first.
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_INVOKER_H_
