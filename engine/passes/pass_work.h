// PassWork counts what a pass does, and asks now and then whether the pass's result is still wanted (interruption.h). So a
// compilation that has been given up ends soon, however large its graph is.
//
//   PassWork work;
//   for (const auto& node : graph.nodes()) {
//     RETURN_IF_ERROR(work.Add(1 + node.inputs.size()));
//     ...
//   }

#ifndef ENGINE_PASSES_PASS_WORK_H_
#define ENGINE_PASSES_PASS_WORK_H_

#include <cstddef>

#include "absl/status/status.h"
#include "engine/core/interruption.h"

namespace gluond {

class PassWork {
 public:
  // Pieces of work between two questions: less than a millisecond.
  static constexpr size_t kEvery = 1024;

  // Counts pieces, each of which looks at a node, an input or a place. CANCELLED or DEADLINE_EXCEEDED: nobody waits any more.
  absl::Status Add(size_t pieces) {
    done_ += pieces;
    if (done_ < kEvery) return absl::OkStatus();
    done_ = 0;
    return CheckInterrupted();
  }

 private:
  size_t done_ = 0;  // Since the last question.
};

}  // namespace gluond

#endif  // ENGINE_PASSES_PASS_WORK_H_
