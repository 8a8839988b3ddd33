// Array is the imperative API's NDArray: a value, and its place on the tape if its making was recorded. The tape is a
// graph of the engine's own nodes, so that BuildGradient differentiates it as it does any graph.

#ifndef ENGINE_IMPERATIVE_ARRAY_H_
#define ENGINE_IMPERATIVE_ARRAY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/graph.h"
#include "engine/imperative/value.h"

namespace gluond {

// A Mark says that an array's gradient is wanted. The array keeps its mark when it gets a new value.
struct Mark {
  enum Request { kWrite, kAdd };
  Request request = kWrite;
  uint64_t gradient = 0;  // The caller's name for where the gradient goes.
  bool fresh = false;     // Backward has written it since the caller last cleared this.
};
using MarkPtr = std::shared_ptr<Mark>;

// A node of the tape: all nodes behind an Array's entry are of this type.
struct RecordedNode : Node {
  // `count` is the number of nodes alive.
  explicit RecordedNode(std::shared_ptr<std::atomic<int64_t>> count) : count_(std::move(count)) { ++*count_; }
  ~RecordedNode() { --*count_; }

  // By output: the values that this node's gradient, or a reader's gradient, will read. Null for the others.
  std::vector<ValuePtr> values;
  MarkPtr mark;           // A variable's, if its gradient is wanted.
  uint64_t state = 0;     // The Array's, for which the node stands.
  bool training = false;  // The mode of the call, which is its gradient's, too.
  bool is_freed = false;  // A Backward that did not retain the tape freed it.
  uint32_t place = 0;     // Where it stands in the last walk over the tape that has met it.

  // Releases the values and the history. Variables stay: other tapes may begin at them.
  void Free() {
    if (is_variable()) return;
    is_freed = true;
    values.clear();
    inputs.clear();
  }

 private:
  const std::shared_ptr<std::atomic<int64_t>> count_;
};
using RecordedNodePtr = std::shared_ptr<RecordedNode>;

struct Array {
  ValuePtr value;      // Null: an empty array.
  NodeEntry entry;     // The place on the tape. No node: a constant for gradients.
  MarkPtr mark;        // Null: no gradient is wanted.
  uint64_t state = 0;  // The caller's name of an array that calls write; a gradient finds it by this. 0: none.

  explicit operator bool() const { return value != nullptr; }
  RecordedNode& recorded() const { return static_cast<RecordedNode&>(*entry.node); }
};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_ARRAY_H_
