// Lane: the one thread that runs operators on a device (or on a share of the CPU), one piece of work after the other.
// It owns the device's stream, the compute threads of a CPU, and the scratch space of the node that runs.
// Thread-safe. Work must not wait for a client or for other work of the lane: a run that has to wait returns, and
// posts its continuation later.

#ifndef ENGINE_RUNTIME_LANE_H_
#define ENGINE_RUNTIME_LANE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"

namespace gluond {

struct LaneOptions {
  int threads = 0;  // Of a CPU lane; 0: one for each processor.
};

class Lane {
 public:
  // `scratch_allocator` pays for the scratch space and must outlive the lane. UNAVAILABLE: no such device.
  static absl::StatusOr<std::unique_ptr<Lane>> Create(Device device, const LaneOptions& options,
                                                      Allocator& scratch_allocator);
  // Runs what is posted, then ends the thread.
  virtual ~Lane() = default;

  virtual void Post(std::function<void()> work) = 0;

  virtual Device device() const = 0;
  virtual DeviceDriver& driver() const = 0;
  virtual void* stream() const = 0;
  // nullptr unless this is a CPU lane.
  virtual const Threads* threads() const = 0;
  // Only for the work that is running on the lane.
  virtual Scratch& scratch() = 0;
  // Makes all scratch space free for the next node.
  virtual void ResetScratch() = 0;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_LANE_H_
