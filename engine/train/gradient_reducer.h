// GradientReducer: adds tensors up over the processes that compute a step together. A ring of servers is one; the engine knows no
// other way to them.

#ifndef ENGINE_TRAIN_GRADIENT_REDUCER_H_
#define ENGINE_TRAIN_GRADIENT_REDUCER_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/dtype.h"

namespace gluond {

class GradientReducer {
 public:
  struct View {
    DType dtype = DType::kFloat32;  // Or kFloat64.
    void* data = nullptr;           // On the host.
    int64_t elements = 0;
  };

  // The most that a reducer allocates itself while it adds up views of so many bytes.
  static int64_t ScratchBytes(int64_t view_bytes) { return (view_bytes + 1) / 2; }

  virtual ~GradientReducer() = default;
  // Tells the views to come, without their memory, before the first Start. Processes whose views differ add nothing up: Finish has
  // an error then. Neither a Start nor Finish need follow.
  virtual void Begin(absl::Span<const View>) {}
  // Begins to add up. The memory is the reducer's until Finish has called its callback. All processes start equal views in one
  // order. Does not wait. The lane's thread.
  virtual void Start(const View& view) = 0;
  // Calls `done` once, on any thread, when all that was started is added up, or has failed: nothing of the reducer touches the
  // memory then. OK: each view holds the sum over all processes.
  virtual void Finish(std::function<void(absl::Status)> done) = 0;
  // This process has failed, after a Start: what is under way ends soon, here and in the other processes, with an error. Finish
  // follows.
  virtual void Abort() = 0;
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_GRADIENT_REDUCER_H_
