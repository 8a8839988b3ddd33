// OpInvoker: runs single operators, as an NDArray function does. Compiled calls are kept in an ExecutorCache, so that
// the same operator with the same attributes and signatures costs one trip through the lane. Thread-safe.
//
//   invoker.Invoke("FullyConnected", {{"num_hidden", "10"}}, {x, w, b}, {},
//                  [](absl::StatusOr<std::vector<Tensor>> y) { ... });

#ifndef ENGINE_RUNTIME_OP_INVOKER_H_
#define ENGINE_RUNTIME_OP_INVOKER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/core/node_attrs.h"
#include "engine/core/tensor.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/executor_cache.h"

namespace gluond {

class OpInvoker {
 public:
  struct Options {
    bool is_train = false;
    uint64_t seed = 0;        // See Run.
    uint32_t random_run = 0;
    std::shared_ptr<Cancellation> cancellation;
  };
  using Done = std::function<void(absl::StatusOr<std::vector<Tensor>>)>;

  // The lane and the allocator, which pays for outputs and temporary memory, outlive it and its calls.
  OpInvoker(Lane& lane, Allocator& allocator, size_t max_kept = 256);

  // Calls `done` exactly once, on the lane's thread, or here when the call cannot be made (NOT_FOUND: no such operator;
  // INVALID_ARGUMENT: attributes or inputs that it does not take). The result has the visible outputs, in memory that
  // nobody else uses while the tensors are held. Inputs that the operator mutates are written.
  void Invoke(absl::string_view op, AttrDict attrs, std::vector<Tensor> inputs, Options options, Done done);

  ExecutorCache& cache() { return cache_; }

 private:
  // One call as its caller wrote it.
  struct CallKey {
    std::string op;
    AttrDict attrs;
    std::vector<Signature> inputs;
    bool is_train;

    bool operator==(const CallKey& other) const;
    template <class H>
    friend H AbslHashValue(H h, const CallKey& key) {
      for (const Signature& s : key.inputs) h = H::combine(std::move(h), s.shape, static_cast<int>(s.dtype));
      for (const auto& [name, value] : key.attrs) h = H::combine(std::move(h), name, value);
      return H::combine(std::move(h), key.op, key.inputs.size(), key.is_train);
    }
  };

  // Finds or makes the key of the call's executors.
  absl::StatusOr<ExecutorKeyPtr> FindKey(CallKey call);

  const size_t max_kept_;
  ExecutorCache cache_;
  std::mutex mu_;
  absl::flat_hash_map<CallKey, ExecutorKeyPtr> keys_;  // Guarded by mu_.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_OP_INVOKER_H_
