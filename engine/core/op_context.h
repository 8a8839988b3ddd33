// OpContext: what the engine lends an operator while it runs. engine/runtime implements these interfaces.

#ifndef ENGINE_CORE_OP_CONTEXT_H_
#define ENGINE_CORE_OP_CONTEXT_H_

#include <cstdint>
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/philox.h"

namespace gluond {

// The compute threads of a CPU lane.
class Threads {
 public:
  virtual ~Threads() = default;
  virtual int count() const = 0;
  // Calls body(begin, end) over a partition of [0, n) into pieces of at least `grain` (but the last), and returns
  // when all have run. The partition depends on n, grain and count() only. With one piece, runs it in place.
  virtual void ParallelFor(int64_t n, int64_t grain,
                           absl::FunctionRef<void(int64_t begin, int64_t end)> body) const = 0;
};

// Temporary space that lives until the node has run (on a GPU: in stream order). Reused from run to run, so that
// nothing is allocated in steady state.
class Scratch {
 public:
  virtual ~Scratch() = default;
  // 64-byte aligned, contents unspecified. RESOURCE_EXHAUSTED as Allocator::Allocate.
  virtual absl::StatusOr<void*> Get(size_t bytes) = 0;
};

struct OpContext {
  bool is_train = false;
  Device device;
  void* stream = nullptr;            // cudaStream_t on a GPU.
  const Threads* threads = nullptr;  // On a CPU.
  Scratch* scratch = nullptr;
  Philox random;  // This node's stream for this run.

  // For an operator with FExecType kAsync, and null for others: to be called once, from any thread, when the
  // outputs are written or the operation has failed. The blobs stay valid until then.
  std::function<void(absl::Status)> on_complete;
};

}  // namespace gluond

#endif  // ENGINE_CORE_OP_CONTEXT_H_
