// Invoker runs single operators on tensors of the host, on any device. Thread-safe.

#ifndef SERVER_INVOKER_H_
#define SERVER_INVOKER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/op_invoker.h"
#include "server/devices.h"

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
  explicit Invoker(Devices& devices);

  // `done` gets the visible outputs, on the host. It is called once: on the lane's thread, or here when the call is wrong.
  // As OpInvoker::Invoke, and FAILED_PRECONDITION: no kernel for the device.
  void Invoke(Place& place, Invocation invocation, OpInvoker::Done done);

 private:
  Devices& devices_;
  std::map<const Place*, std::unique_ptr<OpInvoker>> invokers_;
};

}  // namespace gluond::server

#endif  // SERVER_INVOKER_H_
