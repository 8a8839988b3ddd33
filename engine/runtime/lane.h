// Lane: the one thread that runs operators on a device (or on a share of the CPU), one piece of work after the other,
// in the order of posting. It owns the device's stream, the compute threads of a CPU, and the scratch space of the
// node that runs.
// Thread-safe. Work must not wait for a client or for other work of the lane: a run that has to wait returns, and
// posts its continuation later.
// A lane outlives its executors. Suspended runs are cancelled before it is destroyed: nothing else ends them.

#ifndef ENGINE_RUNTIME_LANE_H_
#define ENGINE_RUNTIME_LANE_H_

#include <chrono>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"

namespace gluond {

// Something for a lane to do, without allocating: a member or a base of what it is about.
class Work {
 public:
  virtual void Do() = 0;

 protected:
  ~Work() = default;

 private:
  friend class LaneThread;
  Work* next_ = nullptr;
};

struct LaneOptions {
  int threads = 0;  // Of a CPU lane; 0: one for each processor.
};

class Lane {
 public:
  using Clock = std::chrono::steady_clock;

  // `scratch_allocator` pays for the scratch space and must outlive the lane. UNAVAILABLE: no such device.
  static absl::StatusOr<std::unique_ptr<Lane>> Create(Device device, const LaneOptions& options,
                                                      Allocator& scratch_allocator);
  // Runs what is posted, then ends the thread.
  virtual ~Lane() = default;

  virtual void Post(std::function<void()> work) = 0;
  // The same without allocating. `work` must live until it is done, and not be posted again before.
  virtual void Post(Work* work) = 0;
  // Does `work` beside the lane, one after the other, on a thread kept for what takes long and must not hold up runs:
  // compiling above all.
  virtual void PostBeside(std::function<void()> work) = 0;
  // Whether the caller is the lane's thread.
  virtual bool IsCurrent() const = 0;

  virtual Device device() const = 0;
  virtual DeviceDriver& driver() const = 0;
  virtual void* stream() const = 0;
  // nullptr unless this is a CPU lane.
  virtual const Threads* threads() const = 0;

  // The rest is only for the work that is running on the lane.

  virtual Scratch& scratch() = 0;
  // Makes all scratch space free for the next node.
  virtual void ResetScratch() = 0;
  // Does `work` at `when` or soon after, unless Forget(work) comes first.
  virtual void DoAt(Clock::time_point when, Work* work) = 0;
  virtual void Forget(Work* work) = 0;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_LANE_H_
