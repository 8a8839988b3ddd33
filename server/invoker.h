// Invoker runs one operator at a time, without a model. It keeps compiled calls, so that the same operator on the same
// shapes is planned once. Thread-safe.

#ifndef SERVER_INVOKER_H_
#define SERVER_INVOKER_H_

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/runtime/executor.h"
#include "server/devices.h"
#include "server/workers.h"

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
  static constexpr size_t kMaxKept = 64;

  // All outlive the invoker.
  Invoker(Workers& workers, Allocator& host) : workers_(workers), host_(host) {}

  // `done` gets the outputs, on the host, on a lane's or a worker's thread.
  void Invoke(Place& place, Invocation invocation, Done done);

 private:
  // A compiled call, and where its executor's inputs stand among the operator's.
  struct Compiled {
    std::string key;
    std::unique_ptr<Executor> executor;
    std::vector<size_t> operator_input;
  };
  using CompiledPtr = std::shared_ptr<Compiled>;

  void CompileAndStart(Place& place, Invocation invocation, std::string key, Done done);
  CompiledPtr TakeIdle(const std::string& key);
  void KeepIdle(CompiledPtr compiled);
  void ForgetAll();
  absl::StatusOr<CompiledPtr> Compile(Place& place, const Invocation& invocation, std::string key) const;
  void Start(Place& place, CompiledPtr compiled, Invocation invocation, Done done);

  Workers& workers_;
  Allocator& host_;
  std::mutex mu_;
  std::list<CompiledPtr> idle_;  // Guarded by mu_. Most recently used first.
};

}  // namespace gluond::server

#endif  // SERVER_INVOKER_H_
