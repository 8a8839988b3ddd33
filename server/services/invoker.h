// Invoker runs single operators on tensors of the host, on any device. Each account has lanes and compiled calls of its
// own, so that one client's long operator holds up no other's. Thread-safe.

#ifndef SERVER_SERVICES_INVOKER_H_
#define SERVER_SERVICES_INVOKER_H_

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/runtime/account.h"
#include "engine/runtime/op_invoker.h"
#include "server/hosted/devices.h"

namespace gluond::server {

struct Invocation {
  std::string op;
  AttrDict attrs;
  std::vector<Tensor> inputs;  // On the host. They are not written.
  OpInvoker::Options options;
};

class Invoker {
 public:
  // `devices` outlives the invoker and its calls.
  explicit Invoker(Devices& devices) : devices_(devices) {}

  // `done` gets the visible outputs, on the host. It is called once: on a lane of the place, or here when the call is
  // wrong. As OpInvoker::Invoke, and FAILED_PRECONDITION: no kernel for the device.
  void Invoke(Place& place, Invocation invocation, OpInvoker::Done done);

  // Drops the compiled calls of connections that are gone, and those that nobody has used for a minute.
  void Sweep();

 private:
  using Clock = std::chrono::steady_clock;

  // Compiled calls of an account on one device.
  struct Bench {
    std::weak_ptr<const Account> account;  // A bench does not keep a connection's account.
    Place* place;
    std::shared_ptr<Lane> lane;
    OpInvoker invoker;
    Clock::time_point last_used;  // Guarded by mu_.
  };
  using BenchPtr = std::shared_ptr<Bench>;

  // The bench of the calling thread's account.
  BenchPtr Find(Place& place);

  Devices& devices_;
  std::mutex mu_;
  std::list<BenchPtr> benches_;  // The most recently used first. Guarded by mu_.
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_INVOKER_H_
