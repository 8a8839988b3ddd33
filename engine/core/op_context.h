// An OpContext lends an operator threads, space and random numbers while it runs. engine/runtime implements them.

#ifndef ENGINE_CORE_OP_CONTEXT_H_
#define ENGINE_CORE_OP_CONTEXT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/device.h"
#include "engine/core/philox.h"

namespace gluond {

class Allocator;
class KernelCache;

// The compute threads of a CPU lane.
class Threads {
 public:
  virtual ~Threads() = default;
  // The number of threads that compute at once now.
  virtual int count() const = 0;
  // Calls body(begin, end) over a partition of [0, n) into pieces of at least `grain` (but the last), at most `most` at
  // a time, and returns when all have run. The partition depends on n and grain only. A single piece runs in place.
  virtual void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body,
                           int most = std::numeric_limits<int>::max()) = 0;
};

// Temporary space that lives until the node has run (on a GPU: in stream order). Reused from run to run, so that
// nothing is allocated in steady state.
class Scratch {
 public:
  virtual ~Scratch() = default;
  // 64-byte aligned, contents unspecified. RESOURCE_EXHAUSTED as Allocator::Allocate.
  virtual absl::StatusOr<void*> Get(size_t bytes) = 0;
};

// The right to complete one call of a kAsync operator. Any thread uses the right once, when the outputs are written
// or the call has failed; later uses do nothing. Copies share the right, without allocating. When the last copy
// goes and none was used, the call fails: an operator that loses the right cannot hang a run.
class Completion {
 public:
  // The engine's side of the call. It counts the copies.
  class Receiver {
   public:
    virtual void Complete(absl::Status status) = 0;
    virtual void AddRef() = 0;
    virtual void Release() = 0;

   protected:
    ~Receiver() = default;
  };

  Completion() = default;
  explicit Completion(Receiver* receiver) : receiver_(receiver) { receiver_->AddRef(); }
  Completion(const Completion& other) : receiver_(other.receiver_) {
    if (receiver_ != nullptr) receiver_->AddRef();
  }
  Completion(Completion&& other) noexcept : receiver_(std::exchange(other.receiver_, nullptr)) {}
  Completion& operator=(Completion other) noexcept { return std::swap(receiver_, other.receiver_), *this; }
  ~Completion() {
    if (receiver_ != nullptr) receiver_->Release();
  }

  explicit operator bool() const { return receiver_ != nullptr; }
  void operator()(absl::Status status) const { receiver_->Complete(std::move(status)); }

 private:
  Receiver* receiver_ = nullptr;
};

// The time that a run spends on operators that clients compute. Thread-safe.
struct ClientTime {
  std::atomic<int64_t> calls = 0;
  std::atomic<int64_t> wait_ns = 0;      // While there was something to compute, less callback_ns.
  std::atomic<int64_t> callback_ns = 0;  // In the client's own function, as the client says.
};

// Tensors that stay the same from run to run, as the weights of a published version, and what kernels have made of them.
// Thread-safe.
class Constants {
 public:
  virtual ~Constants() = default;
  virtual bool Contains(const void* data) = 0;
  // The memory that `make` filled for the tensor at `data`, at the first call with its `form`: a name of a layout, which
  // begins with the kernel's. It is 64-byte aligned and lives until the tensor changes. Null: the tensor is none of these, its
  // forms are not kept yet, or there is no memory for another one. A kernel then computes the same bits without. An error is
  // `make`'s.
  virtual absl::StatusOr<const void*> Find(const void* data, absl::string_view form, size_t bytes,
                                           absl::FunctionRef<absl::Status(void*)> make) = 0;
};

struct OpContext {
  bool is_train = false;
  Device device;
  void* stream = nullptr;          // cudaStream_t on a GPU.
  Threads* threads = nullptr;      // On a CPU.
  Scratch* scratch = nullptr;      // Null for a kAsync operator.
  Constants* constants = nullptr;  // May be null: every input may change.
  KernelCache* kernels = nullptr;  // May be null: a kernel prepares itself for this call alone.
  Philox random;                   // This node's stream for this run.

  // For an operator with FExecType kAsync, and null for others, which have no scratch in turn. The kernel copies it,
  // starts the work and returns. The blobs stay valid until the last copy is gone, even if the run is cancelled
  // before. (An error that the kernel itself returns ends the call, too.)
  Completion on_complete;

  std::shared_ptr<ClientTime> client_time;  // May be null.

  // On a GPU: pays for the copies of arrays that an operator makes in the host's memory. The buffers may outlive it. Null
  // where nobody has said who pays: such operators are refused.
  Allocator* host_memory = nullptr;
};

}  // namespace gluond

#endif  // ENGINE_CORE_OP_CONTEXT_H_
