// Tape: records calls on arrays as a graph of the engine's own nodes, which keep the values that gradients will read.

#ifndef ENGINE_IMPERATIVE_TAPE_H_
#define ENGINE_IMPERATIVE_TAPE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/imperative/array.h"
#include "engine/imperative/scheduler.h"

namespace gluond {

// Only one lane uses a tape and the values of its arrays.
class Tape {
 public:
  // `most_nodes`: see size(). Errors name --max_session_arrays.
  explicit Tape(int64_t most_nodes) : most_nodes_(most_nodes) {}

  // Gives a marked array that was not recorded a place on the tape.
  void Put(Array* array) const;
  // Records the call if the gradient of one of its inputs is wanted: `outputs`, the call's first outputs, get their
  // places. The call then makes all values that its gradient will read. RESOURCE_EXHAUSTED: the tape is full.
  absl::Status Record(absl::Span<Array> inputs, Invocation* invoked, absl::Span<Array> outputs) const;
  // The node of a constant, until its maker changes it.
  RecordedNodePtr NewNode() const { return std::make_shared<RecordedNode>(size_); }

  // Recorded calls and variables that somebody can still differentiate.
  int64_t size() const { return *size_; }

 private:
  const int64_t most_nodes_;
  const std::shared_ptr<std::atomic<int64_t>> size_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_TAPE_H_
