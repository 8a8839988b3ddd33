// Invoker runs one operator at a time, without a model. Calls of one operator on the same shapes share a compiled
// executor. Thread-safe.

#ifndef SERVER_INVOKER_H_
#define SERVER_INVOKER_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/runtime/executor_cache.h"
#include "server/devices.h"

namespace gluond::server {

// One application of an operator to tensors on the host.
struct Invocation {
  std::string op;
  AttrDict attrs;
  std::vector<Tensor> inputs;
  bool is_train = false;
  uint64_t seed = 0;
  std::shared_ptr<Cancellation> cancellation;
};

// A graph of one call of `op`, its visible outputs, and the names of the variables that it reads, in order.
// NOT_FOUND: no such operator. INVALID_ARGUMENT: attributes, or the number of inputs.
struct OneCall {
  Graph graph;
  NodePtr node;
  std::vector<std::string> inputs;
};
absl::StatusOr<OneCall> MakeOneCall(const std::string& op, const AttrDict& attrs, size_t num_inputs);

class Invoker {
 public:
  using Done = std::function<void(absl::StatusOr<std::vector<Tensor>>)>;

  // `devices` outlives the invoker.
  explicit Invoker(Devices& devices);

  // `done` gets the outputs, on the host. It is called on the lane's thread, or on this one when the call is wrong.
  void Invoke(Place& place, Invocation invocation, Done done);

 private:
  struct Prepared {
    ExecutorKeyPtr key;
    std::vector<std::string> inputs;
  };
  absl::StatusOr<std::shared_ptr<const Prepared>> Prepare(const Place& place, const Invocation& invocation);
  // On the lane's thread.
  void Start(Place& place, const Prepared& prepared, ExecutorLease lease, Invocation invocation, Done done);

  static constexpr size_t kMaxPrepared = 1024;

  Devices& devices_;
  std::map<const Place*, std::unique_ptr<ExecutorCache>> caches_;
  std::mutex mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Prepared>> prepared_;  // Guarded by mu_.
};

}  // namespace gluond::server

#endif  // SERVER_INVOKER_H_
